"""Alignment against test error over all runs of Figs. 4.8 to 4.11, and the partial correlation.

Every run of these studies (with two seeds of each in the quick preset) is a point: alignment and
test error at its least validation loss. Both depend on the rate and on the batch size; the partial
correlation holds their logarithms fixed, and the mean of every group: a task (the digits with
wrong labels, Fig. 4.9, are another than those without, Fig. 4.8) with one seed, whose examples all
its runs share. Rates of other optimisers than SGD mean something else, so each of those has groups
of its own. Runs that diverged are left out. A run that two studies make (a task and seed at one
rate and batch size) counts once.

What is claimed is that the correlation of the alignment with log test error is below what chance
allows once in a hundred for independent runs; it is open where that is more than 0.5: so few runs
cannot decide it. The two seeds of rank 4 in the quick preset are such; before that was asked for,
its correlation was below chance's at one of three keys (five seeds at the other two: −0.62, which
is, and −0.37, which is not). After the first run seeds and wrong labels were made
groups, without which levels of test errors that differ from one draw of examples to the next
enter; later, that runs were counted twice was seen and mended.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import correlation_bound
from learndyn.studies.zhu2024catapults import fig4_8, fig4_9, fig4_10, fig4_11
from learndyn.studies.zhu2024catapults._cases import IMAGES

TITLE = "AGOP alignment against test error over all runs, given rate and batch size"
STUDIES = {"fig4_8": fig4_8, "fig4_9": fig4_9, "fig4_10": fig4_10, "fig4_11": fig4_11}
KEPT = "alignment", "test", "rate", "batch_size"
PLAIN = "GD", "SGD"  # whose rates are those of the other studies
DECIDED = 0.5  # the largest correlation that chance may have once in a hundred


@dataclasses.dataclass(frozen=True)
class Params:
    """Whose presets the runs have, their seeds, and how many tasks."""

    preset: str = "quick"
    seeds: int = 2
    tasks: tuple[str, ...] = ("rank2", "rank4", "digits")
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params("paper", 5, ("rank2", "rank3", "rank4", "usps", "fashion")),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """All runs, in a row: alignment, test error, rate, batch size, task, group and study."""
    parts: list[xr.Dataset] = []
    for number, (name, study) in enumerate(STUDIES.items()):
        own: Any = study.PRESETS[params.preset]
        tasks = tuple(task for task in own.tasks if task in params.tasks)
        given = dataclasses.replace(own, seeds=params.seeds, tasks=tasks, key=params.key)
        within = lambda done, begin=number: report((begin + done) / len(STUDIES))
        parts.append(_rows(study.compute(given, within), name))
    return _once(xr.concat(parts, "run"))


def _once(data: xr.Dataset) -> xr.Dataset:
    """Each run once: two studies may follow the same one, and read it at other times."""
    first: dict[tuple[Any, ...], int] = {}
    same = (data[name].values.tolist() for name in ("group", "rate", "batch_size"))
    for index, which in enumerate(zip(*same, strict=True)):
        first.setdefault(which, index)
    return data.isel(run=list(first.values()))


def _rows(data: xr.Dataset, study: str) -> xr.Dataset:
    """The runs of a study in a row."""
    data = data.assign(batch_size=data["batch"])
    which = data["task"]
    if study == "fig4_9":
        which = xr.where(which.isin(list(IMAGES)), which + ", noisy", which)
    group = which + ", " + xr.DataArray([f"{i}" for i in range(data.sizes["seed"])], dims="seed")
    if "optimiser" in data.dims:
        other = ~data["optimiser"].isin(PLAIN)
        group = xr.where(other, group + ", " + data["optimiser"], group)
    data = data.assign(group=group, which=which)
    names = [*KEPT, "group", "which", "diverged"]
    whole = xr.broadcast(*(data[name] for name in names))
    flat = {name: each.values.ravel() for name, each in zip(names, whole, strict=True)}
    good = ~flat.pop("diverged").astype(bool) & np.isfinite(flat["test"].astype(float))
    rows = {name: ("run", values[good]) for name, values in flat.items()}
    return xr.Dataset({**rows, "study": ("run", [study] * int(good.sum()))})


def _given(data: xr.Dataset) -> list[np.ndarray]:
    """Log rate and log batch size, and an indicator of each group but one."""
    groups = np.unique(data["group"].values)
    logs = [np.log(data[name].values.astype(float)) for name in ("rate", "batch_size")]
    return logs + [(data["group"].values == g).astype(float) for g in groups[1:]]


def partial(data: xr.Dataset) -> tuple[float, int]:
    """The partial correlation, and how many quantities were held fixed."""
    data = _without_ties(data)
    held = _given(data)
    if np.ptp(held[1]) == 0:
        held.pop(1)
    test = np.log(data["test"].values.astype(float))
    return ld.analysis.partial_correlation(data["alignment"].values, test, held), len(held)


def _without_ties(data: xr.Dataset) -> xr.Dataset:
    """Errors of 0 have no logarithm."""
    return data.isel(run=data["test"].values > 0)


def draw(data: xr.Dataset) -> Figure:
    """A panel for each task: test error against alignment, by study."""
    tasks = np.unique(data["which"].values)
    figure, axes = panels(len(tasks), columns=2, size=(4.2, 3.2))
    for axis, task in zip(axes, tasks, strict=True):
        for i, study in enumerate(STUDIES):
            one = data.isel(run=(data["which"].values == task) & (data["study"].values == study))
            if one.sizes["run"]:
                axis.plot(one["alignment"], one["test"], "o", ms=3, alpha=0.6, color=f"C{i}",
                          label=study.replace("fig", "Fig. ").replace("_", "."))  # fmt: skip
        r, _ = partial(data.isel(run=data["which"].values == task))
        axis.set(xlabel="AGOP alignment", ylabel="test error", yscale="log")
        axis.set_title(f"{task}: partial correlation {r:.2f}", fontsize=9)
        legend(axis, fontsize=6)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Partial correlations of all runs, and task by task."""
    tasks = np.unique(data["which"].values)
    sets = {"all tasks": data}
    sets |= {
        str(t): data.isel(run=data["which"].values == t) for t in tasks if t.startswith("rank")
    }
    rows = []
    for name, one in sets.items():
        r, held = partial(one)
        said = f"{name}: alignment and log test error, partial correlation given rate and batch"
        bound, count = correlation_bound(one.sizes["run"], held), one.sizes["run"]
        because = f"chance has it for {count} runs once in a hundred"
        row = claim(said, "Section 4.4", kind="finding").at_most(r, -bound, because=because)
        few = f"{count} runs decide only correlations above {bound:.2f}: the preset paper has more"
        rows.append(row if bound <= DECIDED else row.open(few))
    return rows
