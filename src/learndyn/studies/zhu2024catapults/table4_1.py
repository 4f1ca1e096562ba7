"""Table 4.1: smaller batches of SGD align the AGOP better and lower the test loss (rank-2 target).

Two layers of weights without biases learn f* = x₁x₂ with noise of 0.1, at ½ η_crit of the training
set, each batch size from the same start and data; see `_features` for how runs end and what is
reported. Alignment is with the exact EGOP.

Orders are judged by pairs (same seed, two batch sizes) and Student's t. Printed numbers are means
of 3 runs, rounded: ours, of more, are compared with them at the paper's size, within Student's
bound for the difference of both means, spreads taken to be alike, and half a unit of the last
digit.

The quick preset has a smaller task of the same n/d². Chosen after the first runs: its sizes, and
the epochs, within which all but descent reach a loss of 10⁻³ (the validation loss of descent is
nearly flat by then).
"""

import dataclasses
import math

import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_bound
from learndyn.studies.zhu2024catapults._drawing import against, counts
from learndyn.studies.zhu2024catapults._features import fully_connected, over_batches
from learndyn.studies.zhu2024catapults._ordering import rising
from learndyn.studies.zhu2024catapults._tasks import polynomial_task

TITLE = "Smaller batches of SGD: better AGOP alignment, smaller test loss (rank-2 target)"
PRINTED = {  # batch → alignment, test loss
    2000: (0.81, 0.74),
    50: (0.84, 0.71),
    10: (0.89, 0.59),
    5: (0.95, 0.42),
}
RUNS, ROUNDING = 3, 0.005  # of the printed means
NAMES = {"alignment": "AGOP alignment", "test": "test loss"}


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
    epochs=(1500, 160, 32, 24), readings=32, seeds=5,
)  # fmt: skip
PRESETS = {"quick": Params(), "paper": PAPER}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Alignment, test loss and catapults at the least validation loss, by seed and batch."""
    rows = [_seed(params, params.key + i) for i in cases(range(params.seeds), report)]
    data = xr.concat(rows, "seed")
    return data.assign_attrs(size=f"d = {params.dim}, n = {params.n}, width {params.width}")


def _seed(params: Params, seed: int) -> xr.Dataset:
    task = polynomial_task("rank2", params.dim, params.n, params.held_out, seed)
    model = fully_connected(task, 2, params.width, seed)
    return over_batches(
        task, model, params.batches, params.epochs, key=seed, readings=params.readings
    )


def draw(data: xr.Dataset) -> Figure:
    """Alignment, test loss and catapults against the batch size; validation losses over epochs."""
    figure, axes = panels(4, size=(3.6, 3.0))
    sizes = data["batch"].values
    for axis, (name, label) in zip(axes, {**NAMES, "catapults": "catapults"}.items(), strict=False):
        against(axis, data[name], "batch", "mean (thin: seeds)")
        axis.set(xlabel="batch size", ylabel=label)
    if set(sizes) == set(PRINTED):
        for i in range(len(NAMES)):
            axes[i].plot([PRINTED[b][i] for b in sizes], "kx", label="Table 4.1")
    counts(axes[2])
    legend(axes[1])
    for i, b in enumerate(sizes):
        one = data.sel(batch=b).isel(seed=0)
        axes[3].plot(one["epoch"], one["curve"], color=f"C{i}", label=f"b = {b}")
    axes[3].set(xscale="symlog", xlabel="epochs", ylabel="validation loss (one seed)")
    legend(axes[3])
    figure.suptitle(f"x₁x₂, {data.attrs['size']}, {data.sizes['seed']} seeds", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Orders of batch sizes, and the printed numbers."""
    rows = [
        rising(-data["test"], "batch", "smaller batches lower the test loss", "Table 4.1"),
        rising(data["alignment"], "batch", "smaller batches raise the AGOP alignment", "Table 4.1"),
        _more_catapults(data),
    ]
    return [*rows, *_printed(data)]


def _more_catapults(data: xr.Dataset) -> Claim:
    few, many = data["catapults"].isel(batch=0), data["catapults"].isel(batch=-1)
    said = "the smallest batch has catapults, descent has none: least count over largest + 1"
    return claim(said, "Section 4.4").at_least(
        many.min() / (few.max() + 1), 1.0, because="more than none, in every seed"
    )


def _printed(data: xr.Dataset) -> list[Claim]:
    size = set(data["batch"].values.tolist()) == set(PRINTED)
    return [
        _one_printed(data.sel(batch=b)[name] if size else None, name, b, value)
        for b, printed in PRINTED.items()
        for name, value in zip(NAMES, printed, strict=True)
    ]


def _one_printed(values: xr.DataArray | None, name: str, batch: int, value: float) -> Claim:
    sentence = claim(f"{NAMES[name]} at batch size {batch}", "Table 4.1")
    if values is None:
        return sentence.open(
            "it was printed for n = 2000 and d = 100: the preset paper", expected=value
        )
    count = values.sizes["seed"]
    spread = float(values.std("seed", ddof=1)) * math.sqrt(1 / count + 1 / RUNS)
    bound = student_bound(count, entries=2 * len(PRINTED)) * spread + ROUNDING
    because = f"Student's bound for means of {count} and {RUNS} runs, 8 numbers, and rounding"
    return sentence.equals(values.mean("seed"), value, within=bound, because=because, rate=0.99)
