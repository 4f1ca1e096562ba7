"""Fig. C.22: the spikes of SGD with batches of 5 are in the top eigendirection of the kernel.

The runs of Fig. 4.9 with rank-2 and rank-4 targets, at ½ η_crit of the training set, read at every
step: the training loss in the top eigendirection of the tangent kernel on the training set, L_≤1,
and in all others, L_>1 (Eq. 4.2). Spikes are those that `find_catapults` finds, by a factor of at
least 1.3; the share of a spike is that of its rise, from onset to peak, in L_≤1. "In the top
eigendirection" is read as more than half of the rise, averaged over the spikes of all seeds. The
quick preset is smaller.

Notes: docs/results/zhu2024catapults/figC_22/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024catapults._cases import PAPER, Sizes, drawn_case, over_tasks
from learndyn.studies.zhu2024catapults._features import critical, rule_of
from learndyn.studies.zhu2024catapults._training import watched

TITLE = "Spikes of SGD with small batches are in the top eigendirection of the tangent kernel"
DIFFERS = (
    "batch 5 and both targets are the thesis's, of variance 1 here; steps and number of runs "
    "are not stated, here 2000 and 3; no biases"
)
RISE, NOISE = (
    1.3,
    0.01,
)  # smallest factor of a spike; and of noise, which SGD's steps are themselves
PANELS = {"rank2": "Fig. C.22 (a)", "rank4": "Fig. C.22 (b)"}
CLAIMS = {
    "top": claim("{task}: spikes are in the top eigendirection, mean share of {count} rises",
                 "{panel}", because="“in” read as more than half",
                 name="{task}: spikes are in the top eigendirection, mean share of their rises"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, batch, steps and seeds."""

    n: int = 200
    held_out: int = 100
    tasks: tuple[str, ...] = ("rank2", "rank4")
    batch: int = 5
    steps: int = 250
    seeds: int = 3
    key: int = 0


PARTS = {"tasks": "task", "seeds": "seed"}
PRESETS = {"quick": Params(), "paper": Params(**dataclasses.asdict(PAPER), steps=2000)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Both parts of the loss at every step, by task and seed."""
    sizes = f"d = {params.dim}, n = {params.n}, batch {params.batch}"
    return over_tasks(_run, params, report).assign_attrs(size=sizes)


def _run(params: Params, name: str, seed: int) -> xr.Dataset:
    task, model = drawn_case(name, params, seed)
    rule = rule_of(task, critical(task, model) / 2, params.batch)
    run = watched(task.data, model.network, model.weights, rule, params.steps, key=seed)
    return run[["error", "loss_top"]].rename(error="train", loss_top="top")


def draw(data: xr.Dataset) -> Figure:
    """Both parts of the loss over steps, for one seed of each task."""
    figure, axes = panels(data.sizes["task"], size=(4.6, 3.2))
    for axis, name in zip(axes, data["task"].values, strict=True):
        one = data.sel(task=name).isel(seed=0)
        axis.plot(one["train"], color="0.7", lw=2.5, label="L")
        axis.plot(one["top"], color="C3", lw=1, label="L_≤1")
        axis.plot(one["train"] - one["top"], color="C0", lw=1, label="L_>1")
        axis.set(yscale="log", xlabel="steps", ylabel="training loss")
        axis.set_title(f"{name}, {data.attrs['size']}", fontsize=8)
        axis.set_ylim(bottom=1e-4)
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Shares of the spikes in the top eigendirection."""
    rows = []
    for name in data["task"].values:
        shares = []
        for i in range(data.sizes["seed"]):
            one = data.sel(task=name).isel(seed=i)
            options = {"rise": RISE, "noise": NOISE, "loss_top": one["top"].values}
            spikes = ld.analysis.find_catapults(one["train"].values, **options).spikes
            shares += [spike.top_share for spike in spikes]
        sentence = CLAIMS["top"].format(task=name, panel=PANELS[name], count=len(shares))
        found = intervals.of_mean(shares if len(shares) > 1 else [np.nan] * 2, "spikes")
        rows.append(sentence.at_least(found, 0.5))
    return rows
