"""Table 4.1: smaller batches of SGD align the AGOP better and lower the test loss (rank-2 target).

Two layers of weights without biases learn f* = x₁x₂ with noise of 0.1, at ½ η_crit of the training
set, each batch size from the same start and data; see `_features` for how runs end and what is
reported. Alignment is with the exact EGOP. Orders are judged by pairs (same seed, two batch sizes).
Printed numbers are means of 3 runs, rounded: ours, of more runs, are compared with them at the
paper's size, within Student's bound for the difference of both means, which takes their spreads to
be alike, and half a unit of the last digit. The quick preset has a smaller task of the same n/d².

Notes: docs/results/zhu2024catapults/table4_1/notes.md.
"""

import dataclasses
import math

import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_tolerance
from learndyn.studies.zhu2024catapults._cases import polynomial_task
from learndyn.studies.zhu2024catapults._drawing import against_batches
from learndyn.studies.zhu2024catapults._features import fully_connected, over_batches
from learndyn.studies.zhu2024catapults._ordering import rising

TITLE = "Smaller batches of SGD: better AGOP alignment, smaller test loss (rank-2 target)"
DIFFERS = (
    "5 runs instead of 3; no biases; runs end after 24 to 1500 epochs if the loss is not below "
    "10⁻³ before"
)
PRINTED = {  # batch → alignment, test loss
    2000: (0.81, 0.74),
    50: (0.84, 0.71),
    10: (0.89, 0.59),
    5: (0.95, 0.42),
}
RUNS = 3  # of the printed means
NAMES = {"alignment": "AGOP alignment", "test": "test loss"}
CLAIMS = {
    "test": claim("smaller batches lower the test loss: least mean difference of neighbours",
                  "Table 4.1"),
    "alignment": claim("smaller batches raise the AGOP alignment: least mean difference of "
                       "neighbours", "Table 4.1"),
    "catapults": claim("the smallest batch has catapults, descent has none: least count over "
                       "largest + 1", "Section 4.4", because="more than none, for every seed",
                       rate=PLANNED),
    "printed": claim("{name} at batch size {batch}", "Table 4.1",
                     within=Tolerance(0.005, "the printed means are of 3 runs, and rounded")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of task and network, batches with their epochs, readings and seeds."""

    dim: int = 50
    n: int = 500
    held_out: int = 1000
    width: int = 512
    batches: tuple[int, ...] = (500, 50, 10, 5)
    epochs: tuple[int, ...] = (600, 90, 22, 18)
    readings: int = 18
    seeds: int = 5
    key: int = 0


PAPER = Params(
    dim=100, n=2000, held_out=5000, width=1024, batches=(2000, 50, 10, 5),
    epochs=(1500, 160, 32, 24), readings=32,
)  # fmt: skip
PRESETS = {"quick": Params(), "paper": PAPER}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Alignment, test loss and catapults at the smallest validation loss, by seed and batch."""
    rows = [_seed(params, params.key + i) for i in cases(range(params.seeds), report)]
    data = xr.concat(rows, "seed")
    return data.assign_attrs(size=f"d = {params.dim}, n = {params.n}, width {params.width}")


def _seed(params: Params, seed: int) -> xr.Dataset:
    task = polynomial_task("rank2", params.dim, params.n, params.held_out, seed)
    case = task, fully_connected(task, 2, params.width, seed)
    return over_batches(*case, params.batches, params.epochs, key=seed, readings=params.readings)


def draw(data: xr.Dataset) -> Figure:
    """Alignment, test loss and catapults against the batch size; validation losses over epochs."""
    figure, axes = panels(4, size=(3.6, 3.0))
    against_batches(axes, data, "test loss")
    if set(data["batch"].values) == set(PRINTED):
        for i, axis in enumerate(axes[: len(NAMES)]):
            axis.plot([PRINTED[b][i] for b in data["batch"].values], "kx", label="Table 4.1")
            legend(axis)
    title = f"x₁x₂, {data.attrs['size']}, {data.sizes['seed']} seeds (thin: each)"
    figure.suptitle(title, fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Orders of batch sizes, and the printed numbers."""
    few, many = data["catapults"].isel(batch=0), data["catapults"].isel(batch=-1)
    rows = [
        rising(CLAIMS["test"], -data["test"], "batch"),
        rising(CLAIMS["alignment"], data["alignment"], "batch"),
        CLAIMS["catapults"].at_least(many.min() / (few.max() + 1), 1.0),
    ]
    for batch, printed in PRINTED.items():
        for name, value in zip(NAMES, printed, strict=True):
            sentence = CLAIMS["printed"].format(name=NAMES[name], batch=batch)
            if set(data["batch"].values.tolist()) != set(PRINTED):
                why = "it was printed for n = 2000 and d = 100: the preset paper"
                rows.append(sentence.open(why, expected=value))
                continue
            values = data.sel(batch=batch)[name]
            count = values.sizes["seed"]
            error = float(values.std("seed", ddof=1)) * math.sqrt(1 / count + 1 / RUNS)
            tolerance = student_tolerance(error, count, "runs", entries=2 * len(PRINTED))
            rows.append(sentence.equals(values.mean("seed"), value, tolerance))
    return rows
