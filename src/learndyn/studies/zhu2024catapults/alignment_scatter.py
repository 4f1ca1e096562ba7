"""Alignment against test error over all runs of Figs. 4.8 to 4.11, and the partial correlation.

Every run of these studies (two seeds of each in the quick preset) is a point: alignment and test
error at its smallest validation loss. Both depend on the rate and on the batch size; the partial
correlation holds their logarithms fixed, and the mean of every group. A group is a task with one
seed, whose examples all its runs share; the digits with wrong labels (Fig. 4.9) are another task
than those without (Fig. 4.8). Rates of optimisers other than SGD mean something else, so each of
those has its own groups. Runs that diverged have no test error: they are left out, and counted. A
run that two studies make (a task and seed at one rate and batch size) counts once.

The correlation of the alignment with log test error is claimed to be negative, for all tasks
together and for each target and each set of images.

Notes: docs/results/zhu2024catapults/alignment_scatter/notes.md.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels, shared_legend
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024catapults import fig4_8, fig4_9, fig4_10, fig4_11
from learndyn.studies.zhu2024catapults._cases import IMAGES

TITLE = "AGOP alignment against test error over all runs, given rate and batch size"
DIFFERS = "ours: the paper has no such figure"
STUDIES = {"fig4_8": fig4_8, "fig4_9": fig4_9, "fig4_10": fig4_10, "fig4_11": fig4_11}
NAMES = "alignment", "test", "rate", "batch_size", "group", "which", "diverged"
PLAIN = "GD", "SGD"  # whose rates are those of the other studies
_NAME = "{tasks}: alignment and log test error, partial correlation given rate and batch"
CLAIMS = {
    "partial": claim(_NAME + " ({count} runs; {left} more diverged)", "Section 4.4", name=_NAME,
                     because="a sign"),
}  # fmt: skip
_POSITIVE = "it is 0.91: given rate and batch, only seeds differ between the runs of these images"
FAILS = {"paper": {_NAME.format(tasks="fashion, noisy"): _POSITIVE}}


@dataclasses.dataclass(frozen=True)
class Params:
    """Preset of the four studies, their seeds and tasks."""

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
        changed = dataclasses.replace(own, seeds=params.seeds, tasks=tasks, key=params.key)
        within = lambda done, begin=number: report((begin + done) / len(STUDIES))
        parts.append(_rows(study.compute(changed, within), name))
    return _once(xr.concat(parts, "run"))


def _rows(data: xr.Dataset, study: str) -> xr.Dataset:
    """The runs of a study in a row."""
    which = data["task"]
    if study == "fig4_9":
        which = xr.where(which.isin(list(IMAGES)), which + ", noisy", which)
    group = which + ", " + xr.DataArray([f"{i}" for i in range(data.sizes["seed"])], dims="seed")
    if "optimiser" in data.dims:
        other = ~data["optimiser"].isin(PLAIN)
        group = xr.where(other, group + ", " + data["optimiser"], group)
    data = data.assign(batch_size=data["batch"], group=group, which=which)
    whole = xr.broadcast(*(data[name] for name in NAMES))
    flat = {name: each.values.ravel() for name, each in zip(NAMES, whole, strict=True)}
    good = ~flat["diverged"].astype(bool) & np.isfinite(flat["test"].astype(float))
    rows = {name: ("run", values) for name, values in flat.items()} | {"diverged": ("run", ~good)}
    return xr.Dataset({**rows, "study": ("run", [study] * len(good))})


def _once(data: xr.Dataset) -> xr.Dataset:
    """Each run once: two studies may follow the same one, and read it at different times."""
    first: dict[tuple[Any, ...], int] = {}
    same = (data[name].values.tolist() for name in ("group", "rate", "batch_size"))
    for index, which in enumerate(zip(*same, strict=True)):
        first.setdefault(which, index)
    return data.isel(run=list(first.values()))


def partial(data: xr.Dataset) -> tuple[float, int]:
    """The partial correlation, and how many quantities were held fixed."""
    # An error of 0 has no logarithm.
    data = data.isel(run=(data["test"].values.astype(float) > 0) & ~data["diverged"].values)
    rate, batch, test = (
        np.log(data[name].values.astype(float)) for name in ("rate", "batch_size", "test")
    )
    groups = np.unique(data["group"].values)[1:]  # one of them is the mean of all
    held = [rate, batch] if np.ptp(batch) else [rate]
    held += [(data["group"].values == group).astype(float) for group in groups]
    return ld.analysis.partial_correlation(data["alignment"].values, test, held), len(held)


def draw(data: xr.Dataset) -> Figure:
    """A panel for each task: test error against alignment, by study."""
    tasks = np.unique(data["which"].values)
    figure, axes = panels(len(tasks), columns=4, size=(2.9, 2.4))
    for axis, task in zip(axes, tasks, strict=True):
        runs = data.isel(run=data["which"].values == task)
        for i, study in enumerate(STUDIES):
            one = runs.isel(run=runs["study"].values == study)
            if one.sizes["run"]:
                style = {"ms": 3, "alpha": 0.6, "color": f"C{i}"}
                label = study.replace("fig", "Fig. ").replace("_", ".")
                axis.plot(one["alignment"], one["test"], "o", label=label, **style)
        axis.set(xlabel="AGOP alignment", ylabel="test error", yscale="log")
        axis.set_title(f"{task}: partial correlation {partial(runs)[0]:.2f}", fontsize=9)
    shared_legend(axes)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Partial correlations of all runs, and for each target and set of images."""
    tasks = [str(task) for task in np.unique(data["which"].values)]
    sets = {"all tasks": data} | {t: data.isel(run=data["which"].values == t) for t in tasks}
    rows = []
    for name, one in sets.items():
        correlation, held = partial(one)
        left = int(one["diverged"].sum())
        count = one.sizes["run"] - left
        found = intervals.of_correlation(correlation, count, "runs", given=held)
        sentence = CLAIMS["partial"].format(tasks=name, count=count, left=left)
        rows.append(sentence.at_most(found, 0.0))
    return rows
