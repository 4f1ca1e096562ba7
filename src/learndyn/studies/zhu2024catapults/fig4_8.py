"""Fig. 4.8 with C.13-C.17: several catapults in gradient descent, alignment and test error.

The rate of full-batch descent is raised k times and then stays; all runs have the same number of
steps. Raises are the first three of App. C.6, in the preset `paper` at the steps that it states
for the task. Rates are in units of the initial η_crit: for two layers those of rank 2 over 6.2, for
four layers those of Fig. 4.4; App. C.6 has own rates for each task.
Targets are scaled to variance 1. Catapults are spikes of the training loss up to the smallest
validation loss. A trend is the mean of slopes against k, one per seed. Near-zero weights (Fig.
C.14) have the standard deviation 0.1, and the last rate of the others, since the thesis prints
none; at ranks 3 and 4 they are in `figC_14`. The full-rank task of Fig. C.17 has the size of the
thesis in all presets. The quick preset has smaller tasks, all raised at the same steps, and
scikit-learn's digits, odd or even, as the real one; SVHN-2 and CelebA are not run.

Notes: docs/results/zhu2024catapults/fig4_8/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels, shared_legend
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import slopes
from learndyn.studies.zhu2024catapults import _cases
from learndyn.studies.zhu2024catapults._cases import FEWER, Sizes, drawn_case, over_tasks
from learndyn.studies.zhu2024catapults._descent import descent, descents
from learndyn.studies.zhu2024catapults._drawing import against, curves
from learndyn.studies.zhu2024catapults._ordering import positive, trend

TITLE = "Catapults in descent: AGOP alignment and test error against their number"
DIFFERS = (
    "3 raises, the first 3 of 6 at rank 2 and of 4 at full rank, rates in units of η_crit; targets "
    "of variance 1, no biases; all ten classes of USPS and Fashion-MNIST; SVHN-2 and CelebA not "
    "run"
)
SOURCES = {"rank2": "Fig. 4.8 (a)", "rank4": "Fig. C.16 (a)"}
NOT_RUN = {"SVHN-2": "Fig. 4.8 (c)", "CelebA": "Fig. 4.8 (d)"}
SHARES = {True: (0.5, 1.3, 2.6, 4.8), False: (0.5, 1.67, 2.78, 4.17)}  # by whether shallow
RAISED = {  # the steps at which App. C.6 raises the rates of a task
    "rank2": (50, 150, 220),
    "rank3": (20, 60, 80),
    "rank4": (50, 75, 110),
    "full": (30, 120, 180),
    "usps": (10, 30, 45),
    "fashion": (6, 20, 30),
}
NEAR_ZERO = 0.1  # standard deviation of the weights
CLAIMS = {
    "test": claim("{task}: the test error falls with the number of raises: mean slope",
                  "{source}"),
    "alignment": claim("{task}: the AGOP alignment grows with the number of raises: mean "
                       "slope", "{source}"),
    "full alignment": claim("full: catapults do not improve the AGOP alignment, gain minus a "
                            "quarter of that at rank 2", "Fig. C.17",
                            because="“not” read as a quarter of the gain at rank 2"),
    "full test": claim("full: catapults do not improve the test loss: mean slope of its fall "
                       "against their number", "Fig. C.17", because="a sign"),
    "full later": claim("full: no raise but the first lowers the test loss, largest mean gain",
                        "Fig. C.17", kind="finding", because="“no” read as 5 %"),
    "near-zero test": claim("rank2: near-zero weights have the smallest test loss, mean difference "
                            "of pairs with most raises", "Fig. C.14 (a)"),
    "near-zero alignment": claim("rank2: near-zero weights have the best AGOP alignment, mean "
                                 "difference of pairs with most raises", "Fig. C.14 (a)"),
    "counted": claim("rank2: each raise makes one catapult, largest difference of median spikes "
                     "and raises", "Section 4.3", because="both are counts", rate=PLANNED),
    "not run": claim("{data}: catapults lower the test error and raise the AGOP alignment",
                     "{panel}"),
}  # fmt: skip
_FULL = "the first catapult lowers the test loss, by removing what random weights had added"
FAILS = {"quick": {CLAIMS["full test"].statement: _FULL}}


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, steps between raises of the rate, and seeds.

    With `own`, each task is raised at its steps in `RAISED`, and `lengths` add up to all steps.
    """

    tasks: tuple[str, ...] = ("rank2", "rank4", "full", "digits")
    lengths: tuple[int, ...] = (40, 60, 60, 240)
    own: bool = False
    seeds: int = 6
    key: int = 0


PARTS = {"tasks": "task", "seeds": "seed"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(FEWER), seeds=5, lengths=(50, 100, 70, 380), own=True,
        tasks=("rank2", "rank3", "rank4", "full", "usps", "fashion"),
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by task, seed and number of raises; near-zero weights at rank 2."""
    data = over_tasks(_run, params, report)
    return data.assign_attrs(size=params.label, inputs=params.dim)


def _run(params: Params, name: str, seed: int) -> xr.Dataset:
    task, model = drawn_case(name, params, seed)
    lengths = lengths_of(params, name)
    run = descents(task, model, SHARES[name in _cases.SHALLOW], lengths)
    near = {"near_zero_test": np.nan, "near_zero_alignment": np.nan}
    if name == "rank2":
        small = _cases.model_of(name, task, params, seed, gain=NEAR_ZERO)
        one = descent(task, small, float(run["rate"][-1]), lengths)
        near = {f"near_zero_{each}": float(one[each]) for each in ("test", "alignment")}
    agop = ld.probes.agop(model, task.data.x)
    start = float(ld.probes.alignment(agop, task.reference))
    about = {"title": task.name, "batch": len(task.data.x), "accuracy": task.accuracy}
    return run.assign({**about, "start": start, **near})


def lengths_of(params: Params, name: str) -> tuple[int, ...]:
    """The steps of the stages of a task."""
    if not params.own:
        return params.lengths
    ends = 0, *RAISED[name], sum(params.lengths)
    return tuple(np.diff(ends).tolist())


def draw(data: xr.Dataset) -> Figure:
    """Alignment and test error against the number of raises; losses over steps."""
    figure, axes = panels(4 * data.sizes["task"], columns=4, size=(2.6, 1.9))
    for row, name in enumerate(data["task"].values):
        one, (left, middle, right, last) = data.sel(task=name), axes[4 * row : 4 * row + 4]
        for axis, key in ((left, "alignment"), (middle, "test")):
            against(axis, one[key], "raises", "", f"C{row}")
            if name == "rank2":
                value = float(one[f"near_zero_{key}"].mean("seed"))
                axis.axhline(value, color="k", ls=":", lw=1, label="weights from N(0, 0.1²)")
        test = "test loss" if name == "full" else "test error"
        test = "test loss / variance" if name.startswith("rank") else test
        left.set(xlabel="raises of the rate", ylabel="AGOP alignment")
        title = str(one["title"].values.flat[0]).replace(", ", "\n", 1)
        left.set_title(title, fontsize=7, loc="left")
        middle.set(xlabel="raises of the rate", ylabel=test)
        for axis, key, label in ((right, "train_curve", "training"), (last, "curve", "validation")):
            curves(axis, one, "raises", ("steps", key), "{} raises")
            axis.set(yscale="log", xlabel="steps", ylabel=f"{label} loss")
    shared_legend(axes, {"mean of seeds": {"color": "0.3", "marker": "o", "ls": "-"}})
    figure.suptitle(f"{data.attrs['size']}; thin: single seeds", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Trends with the number of raises by task, near-zero weights, the full-rank task."""
    rows, rank2, last = [], data.sel(task="rank2"), data.sel(task="rank2").isel(raises=-1)
    for name in data["task"].values:
        one = data.sel(task=name)
        rows += _full(one, rank2) if name == "full" else _trends(one, name)
    better = last["test"] - last["near_zero_test"]
    aligned = last["near_zero_alignment"] - last["alignment"]
    near = [
        positive(CLAIMS["near-zero test"], better),
        positive(CLAIMS["near-zero alignment"], aligned),
    ]
    off = abs(rank2["catapults"].median("seed") - rank2["raises"]).max()
    counted, left = CLAIMS["counted"].at_most(off, 0.0), _cases.not_run(CLAIMS["not run"], NOT_RUN)
    return [*rows, *near, counted, *left]


def _trends(one: xr.Dataset, name: str) -> list[Claim]:
    about, at = {"task": name, "source": SOURCES.get(name, "Figs. 4.8, C.16")}, one["raises"].values
    return [
        trend(CLAIMS["test"].format(**about), -one["test"], "raises", at),
        trend(CLAIMS["alignment"].format(**about), one["alignment"], "raises", at),
    ]


def _full(one: xr.Dataset, rank2: xr.Dataset) -> list[Claim]:
    gain = lambda task: task["alignment"].isel(raises=-1) - task["alignment"].isel(raises=0)
    falls = slopes(-one["test"], "raises", one["raises"])
    later = 1 - one["test"].isel(raises=slice(2, None)) / one["test"].isel(raises=1)
    mean = lambda values: intervals.of_mean(values, "seeds", over="seed")
    return [
        CLAIMS["full alignment"].at_most(mean(gain(one) - gain(rank2) / 4), 0.0),
        CLAIMS["full test"].at_most(mean(falls), 0.0),
        CLAIMS["full later"].at_most(mean(later), 0.05),
    ]
