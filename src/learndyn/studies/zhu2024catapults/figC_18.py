"""Figs. C.18 and C.20: batch sizes in the standard parameterisation.

As Fig. 4.9 (a), with networks in PyTorch's parameterisation. Its weights are uniform within
±1/√(inputs), so that their standard deviation is 1/√3 of that of `parameterisation="standard"`: the
gain here. Weights are normal instead of uniform, and PyTorch's biases are left out, as in all these
studies. Rates are ½ η_crit of the training set, as in Fig. 4.9 (the thesis prints 0.01 for a width
of 1024). The quick preset is smaller.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._cases import PAPER, Sizes, drawn_case
from learndyn.studies.zhu2024catapults._drawing import against_batches
from learndyn.studies.zhu2024catapults._features import over_batches
from learndyn.studies.zhu2024catapults._ordering import growing_as_batches_shrink

TITLE = "Smaller batches of SGD in the standard parameterisation: alignment and test loss"
DIFFERS = (
    "rank 2 alone of four tasks, at ½ η_crit instead of 0.01; normal weights without biases for "
    "PyTorch's uniform ones; 5 runs instead of 3"
)
PYTORCH = {"parameterisation": "standard", "gain": 1 / np.sqrt(3)}
CLAIMS = {
    "alignment": claim("smaller batches raise the AGOP alignment: mean slope against −log b",
                       "Fig. C.18 (a)"),
    "test": claim("smaller batches lower the test loss: mean slope against −log b",
                  "Fig. C.18 (a)"),
    "catapults": claim("smaller batches have more catapults: mean slope against −log b",
                       "Fig. C.18 (a)"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Batches with their epochs, readings and seeds."""

    batches: tuple[int, ...] = (320, 10, 5)
    epochs: tuple[int, ...] = (500, 24, 16)
    readings: int = 16
    seeds: int = 6
    key: int = 0


PARTS = {"seeds": "seed"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(PAPER), batches=(2000, 100, 50, 10, 5),
        epochs=(1500, 300, 160, 32, 24), readings=32, seeds=5,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by seed and batch size."""
    first = params.key + params.first_seed
    rows = [_seed(params, first + i) for i in cases(range(params.seeds), report)]
    return xr.concat(rows, "seed").assign_attrs(size=params.shallow_label)


def _seed(params: Params, seed: int) -> xr.Dataset:
    case = drawn_case("rank2", params, seed, **PYTORCH)
    return over_batches(*case, params.batches, params.epochs, key=seed, readings=params.readings)


def draw(data: xr.Dataset) -> Figure:
    """Alignment, test loss and catapults against the batch size; validation losses."""
    figure, axes = panels(4, size=(3.6, 2.8))
    against_batches(axes, data, "test loss / variance")
    title = f"x₁x₂, standard parameterisation, {data.attrs['size']}; thin: single seeds; d: one"
    figure.suptitle(title, fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Trends with the batch size."""
    return [
        growing_as_batches_shrink(CLAIMS["alignment"], data["alignment"]),
        growing_as_batches_shrink(CLAIMS["test"], -data["test"]),
        growing_as_batches_shrink(CLAIMS["catapults"], data["catapults"]),
    ]
