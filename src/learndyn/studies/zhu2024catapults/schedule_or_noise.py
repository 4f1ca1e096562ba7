"""Whether a schedule of catapults in gradient descent does what the noise of small batches does.

Three rules from the same start and data, for the same number of epochs: full-batch descent whose
rate `CatapultSchedule` raises past η_crit whenever it has rested, SGD with small batches, and plain
descent, the latter two at ½ η_crit of the training set. Reported is the reading with the smallest
validation loss (see `_features`). An epoch of descent is one step, so the schedule takes far fewer
steps. The interval of the ratio of test errors, schedule over SGD (the mean of its logarithm over
seeds), is shown in the figure; "reaches" is read as at most 10 % above.

Notes: docs/results/zhu2024catapults/schedule_or_noise/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Interval, claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024catapults._cases import IMAGES, PAPER, Sizes, drawn_case, over_tasks
from learndyn.studies.zhu2024catapults._drawing import against, curves
from learndyn.studies.zhu2024catapults._features import best, course, critical, rule_of
from learndyn.studies.zhu2024catapults._ordering import positive

TITLE = "A schedule of catapults in descent against the noise of small batches, equal epochs"
DIFFERS = "ours: the paper has no such figure"
RULES = "descent", "schedule", "SGD"
REACHES = 1.1  # ratio of test errors
HIGHEST = 1e3  # validation loss over its first, above which it is not drawn
_REACHES = "{task}: the schedule reaches the test error of SGD, logarithm of their ratio"
CLAIMS = {
    "beats": claim("{task}: the schedule beats plain descent, mean difference of pairs", "our own",
                   kind="finding"),
    "reaches": claim(_REACHES, "our own", kind="finding", because="“reaches” read as 10 % above"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, small batch, epochs of all rules, how rates are raised, readings and seeds."""

    tasks: tuple[str, ...] = ("rank2", "rank4", "digits")
    batch: int = 5
    epochs: int = 240
    times: float = 1.3
    limit: float = 2.5
    rest: int = 15
    every: int = 2
    readings: int = 30
    seeds: int = 10
    key: int = 0


PARTS = {"tasks": "task", "seeds": "seed"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(PAPER), tasks=("rank2", "rank4", "usps"), epochs=600, readings=60
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by task, seed and rule."""
    sizes = f"d = {params.dim}, n = {params.n}, {params.epochs} epochs, batch {params.batch}"
    return over_tasks(_rules, params, report).assign_attrs(size=sizes)


def _rules(params: Params, name: str, seed: int) -> xr.Dataset:
    task, model = drawn_case(name, params, seed)
    rate, n = critical(task, model) / 2, len(task.data.x)
    descent = ld.GradientDescent(rate)
    schedule = ld.CatapultSchedule(
        descent, times=params.times, limit=params.limit, rest=params.rest, every=params.every
    )
    rules = {"descent": descent, "schedule": schedule, "SGD": rule_of(task, rate, params.batch)}
    rows: list[xr.Dataset] = []
    for rule in RULES:
        # SGD has learned after few epochs, so it is read more often early.
        power, per_epoch = (2, n // params.batch) if rule == "SGD" else (1, 1)
        share = np.linspace(0, 1, params.readings + 1) ** power
        steps = np.unique(np.rint(share * params.epochs * per_epoch))
        run = course(task, model, rules[rule], steps, key=seed)
        histories = {"epoch": run["step"] / per_epoch, "curve": run["validation"]}
        rows.append(best(run).assign({**histories, "title": task.name}))
    return xr.concat(rows, xr.Variable("rule", list(RULES)))


def draw(data: xr.Dataset) -> Figure:
    """Test errors and alignments by rule; validation losses over epochs."""
    figure, axes = panels(3 * data.sizes["task"], columns=3, size=(3.4, 2.5))
    for row, name in enumerate(data["task"].values):
        one, (left, middle, right) = data.sel(task=name), axes[3 * row : 3 * row + 3]
        against(left, one["test"], "rule", "", f"C{row}", ls="none")
        against(middle, one["alignment"], "rule", "", f"C{row}", ls="none")
        left.set(ylabel="test error" if name in IMAGES else "test loss / variance")
        low, high = np.exp(_ratio(one)[1:3])
        title = f"{one['title'].values.flat[0]}: schedule/SGD {low:.2f} to {high:.2f}"
        left.set_title(title, fontsize=7, loc="left")
        middle.set(ylabel="AGOP alignment")
        curves(right, one, "rule", ("epoch", "curve"))
        right.set(xscale="symlog", yscale="log", xlabel="epochs", ylabel="validation loss")
        first = float(one["curve"].isel(seed=0).max("rule")[0])
        right.set_ylim(top=min(right.get_ylim()[1], HIGHEST * first))
    figure.suptitle(f"{data.attrs['size']}; thin: single seeds", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Ratios of test errors, schedule over SGD; gains over plain descent."""
    rows = []
    for name in data["task"].values:
        one = data.sel(task=name)
        gain = one["test"].sel(rule="descent") - one["test"].sel(rule="schedule")
        rows.append(positive(CLAIMS["beats"].format(task=name), gain))
        rows.append(CLAIMS["reaches"].format(task=name).at_most(_ratio(one), np.log(REACHES)))
    return rows


def _ratio(one: xr.Dataset) -> Interval:
    """The logarithm of the ratio of test errors, schedule over SGD, mean over seeds."""
    log = xr.ufuncs.log(one["test"])
    return intervals.of_mean(log.sel(rule="schedule") - log.sel(rule="SGD"), "seeds")
