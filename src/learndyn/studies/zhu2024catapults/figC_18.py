"""Figs. C.18 and C.20: batch sizes in the standard parameterisation.

As Fig. 4.9 (a), with networks in PyTorch's parameterisation. There weights are uniform within
±1/√(inputs), so that their standard deviation is 1/√3 of that of `parameterisation="standard"`:
the gain here. What differs still is the law, which is normal here, and that PyTorch's biases are
left out, as everywhere in these studies. Rates are ½ η_crit of the training set, as in Fig. 4.9
(the thesis prints 0.01 for a width of 1024).
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._cases import PAPER, Sizes, model_of, task_of
from learndyn.studies.zhu2024catapults._drawing import against, counts
from learndyn.studies.zhu2024catapults._features import over_batches
from learndyn.studies.zhu2024catapults._ordering import growing_as_batches_shrink

TITLE = "Smaller batches of SGD in the standard parameterisation: alignment and test loss"
PYTORCH = {"parameterisation": "standard", "gain": 1 / np.sqrt(3)}
SHOWN = {"alignment": "AGOP alignment", "test": "test loss / variance", "catapults": "catapults"}


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Batches with their epochs, readings and seeds."""

    batches: tuple[int, ...] = (320, 10, 5)
    epochs: tuple[int, ...] = (500, 24, 16)
    readings: int = 16
    seeds: int = 6
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(PAPER),
        batches=(2000, 100, 50, 10, 5),
        epochs=(1500, 300, 160, 32, 24),
        readings=32,
        seeds=5,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """What runs come to by seed and batch size."""
    rows = [_seed(params, params.key + i) for i in cases(range(params.seeds), report)]
    said = f"d = {params.dim}, n = {params.n}, width {params.shallow}"
    return xr.concat(rows, "seed").assign_attrs(size=said)


def _seed(params: Params, seed: int) -> xr.Dataset:
    task = task_of("rank2", params, seed, params.key)
    model = model_of("rank2", task, params, seed, **PYTORCH)
    return over_batches(
        task, model, params.batches, params.epochs, key=seed, readings=params.readings
    )


def draw(data: xr.Dataset) -> Figure:
    """Alignment, test loss and catapults against the batch size; validation losses."""
    figure, axes = panels(4, size=(3.6, 2.8))
    for axis, (name, label) in zip(axes, SHOWN.items(), strict=False):
        against(axis, data[name], "batch", "")
        axis.set(xlabel="batch size", ylabel=label)
    counts(axes[2])
    for i, b in enumerate(data["batch"].values):
        one = data.sel(batch=b).isel(seed=0)
        axes[3].plot(one["epoch"], one["curve"], color=f"C{i}", label=f"b = {b}")
    axes[3].set(xscale="symlog", xlabel="epochs", ylabel="validation loss (one seed)")
    legend(axes[3])
    title = f"x₁x₂, standard parameterisation, {data.attrs['size']}; thin: single seeds"
    figure.suptitle(title, fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Trends with the batch size."""
    source = "Fig. C.18 (a)"
    return [
        growing_as_batches_shrink(
            data["alignment"], "smaller batches raise the AGOP alignment", source
        ),
        growing_as_batches_shrink(-data["test"], "smaller batches lower the test loss", source),
        growing_as_batches_shrink(data["catapults"], "smaller batches have more catapults", source),
    ]
