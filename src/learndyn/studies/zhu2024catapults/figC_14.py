"""Fig. C.14 (b): near-zero initial weights against catapults in networks of four layers.

Weights from N(0, 0.1²) in descent at one rate, against the runs of Fig. 4.8 with most raises, from
weights of N(0, 1), on the same examples; rank 2 (panel a) is in `fig4_8`. The thesis prints neither
the rate of near-zero weights nor the number of their steps, so there are three runs by rules that
do not look at results:

- the last rate of the other run, for as many steps, as at rank 2;
- that rate for 100 times as many. The output of L layers of relu without biases is homogeneous of
  degree L in the weights, so that weights smaller by the factor c change c^(L−2) times as fast in
  relation to their size while the residual is that of the target: 1 at two layers, 0.01 at four;
- ½ of their own η_crit, which is a million times as large, for as many steps.

Reported is the reading with the smallest validation loss. Targets are scaled to variance 1. Rank 4
is not in Fig. C.14; the sentence of App. C.4 is general. The quick preset is smaller. Panels (c)
and (d), SVHN-2 and CelebA, are not run.

Notes: docs/results/zhu2024catapults/figC_14/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels, shared_legend
from learndyn.studies.claims import PLANNED, Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024catapults import _cases
from learndyn.studies.zhu2024catapults._cases import FEWER, Sizes, drawn_case, over_tasks
from learndyn.studies.zhu2024catapults._descent import descent, descents
from learndyn.studies.zhu2024catapults._drawing import against
from learndyn.studies.zhu2024catapults._features import best, course, critical
from learndyn.studies.zhu2024catapults._ordering import positive

TITLE = "Near-zero initial weights of four layers against catapults: test loss and AGOP alignment"
DIFFERS = (
    "rate and steps of near-zero weights are not stated, here those of the run with catapults, and "
    "100 times the steps; 3 raises at rates in units of η_crit; targets of variance 1, no biases; "
    "rank 4 is added; SVHN-2 and CelebA not run"
)
SHARES = 0.5, 1.67, 2.78, 4.17  # rates over η_crit, as in Fig. 4.8
RAISED = {"rank3": (20, 60, 80), "rank4": (50, 75, 110)}  # steps of App. C.6
SOURCES = {"rank3": "Fig. C.14 (b)", "rank4": "App. C.4"}
NOT_RUN = {"SVHN-2": "Fig. C.14 (c)", "CelebA": "Fig. C.14 (d)"}
NEAR_ZERO = 0.1  # standard deviation of the weights
LAYERS = 4
SLOWER = round(NEAR_ZERO ** (2 - LAYERS))
HALF = 0.5
LABELS = {
    "catapults": "catapults", "same": "near zero,\nas many steps",
    "long": f"near zero,\n{SLOWER} × the steps",
}  # fmt: skip
CLAIMS = {
    "same test": claim("{task}: near-zero weights have the smallest test loss after as many steps, "
                       "mean difference of pairs", "{source}"),
    "same alignment": claim("{task}: near-zero weights have the best AGOP alignment after as many "
                            "steps, mean difference of pairs", "{source}"),
    "long test": claim("{task}: near-zero weights have the smallest test loss after 100 times the "
                       "steps, mean difference of pairs", "{source}"),
    "long alignment": claim("{task}: near-zero weights have the best AGOP alignment after 100 "
                            "times the steps, mean difference of pairs", "{source}"),
    "own": claim("{task}: near-zero weights diverge at ½ of their own η_crit, share of runs",
                 "our own", kind="finding", rate=PLANNED,
                 because="once they have grown, their kernel is a million times larger"),
    "not run": claim("{data}: near-zero weights have the smallest test error and the best AGOP "
                     "alignment", "{panel}"),
}  # fmt: skip
_STILL = "their kernel is 10⁻⁶ of the other, and most of their growth lies after the last step"
_SAME = CLAIMS["same test"].statement.format
FAILS = {
    "quick": {_SAME(task="rank3"): _STILL},
    "paper": {_SAME(task=name): _STILL for name in ("rank3", "rank4")},
}


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, steps between raises of the rate, and seeds.

    With `own`, each task is raised at its steps in `RAISED`, and `lengths` add up to all steps.
    """

    dim: int = 10
    deep: int = 32
    tasks: tuple[str, ...] = ("rank3",)
    lengths: tuple[int, ...] = (20, 40, 20, 120)
    own: bool = False
    seeds: int = 6
    key: int = 0


PARTS = {"tasks": "task", "seeds": "seed"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(FEWER), tasks=("rank3", "rank4"), lengths=(50, 100, 70, 380),
        own=True, seeds=5,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by task, seed and run, with the histories of the losses."""
    sizes = f"d = {params.dim}, n = {params.n_deep}, width {params.deep}"
    return over_tasks(_run, params, report).assign_attrs(size=sizes)


def _run(params: Params, name: str, seed: int) -> xr.Dataset:
    task, model = drawn_case(name, params, seed)
    lengths, steps = params.lengths, sum(params.lengths)
    if params.own:
        lengths = tuple(np.diff((0, *RAISED[name], steps)).tolist())
    catapults = descents(task, model, SHARES, lengths).isel(raises=-1, drop=True)
    small = _cases.model_of(name, task, params, seed, gain=NEAR_ZERO)
    last, unit = float(catapults["rate"]), critical(task, small)
    longer = [SLOWER * length for length in lengths]
    runs = {
        "catapults": catapults,
        "same": descent(task, small, last, lengths),
        "long": descent(task, small, last, longer),
    }
    own = course(task, small, ld.GradientDescent(HALF * unit), np.arange(steps + 1.0), key=0)
    data = xr.concat(list(runs.values()), xr.Variable("start", list(runs)))
    return data.assign(title=task.name, own_diverged=best(own)["diverged"])


def draw(data: xr.Dataset) -> Figure:
    """Test loss and alignment by run; training and validation losses of one seed over steps."""
    figure, axes = panels(4 * data.sizes["task"], columns=4, size=(3.1, 2.6))
    for row, name in enumerate(data["task"].values):
        one, (left, middle, *losses) = data.sel(task=name), axes[4 * row : 4 * row + 4]
        named = one.assign_coords(start=[LABELS[each] for each in one["start"].values])
        for axis, key, label in (
            (left, "alignment", "AGOP alignment"), (middle, "test", "test loss / variance"),
        ):  # fmt: skip
            against(axis, named[key], "start", "", f"C{row}", ls="none")
            axis.tick_params(axis="x", labelsize=6, rotation=30)
            axis.set(ylabel=label)
        gone = f"{int(one['own_diverged'].sum())} of {one.sizes['seed']}"
        title = f"{one['title'].values.flat[0]}; at their own ½ η_crit {gone} diverge"
        left.set_title(title, fontsize=8, loc="left")
        for axis, key in zip(losses, ("train_curve", "curve"), strict=True):
            for i, (each, label) in enumerate(LABELS.items()):
                run = one.sel(start=each).isel(seed=0)
                label = label.replace("\n", " ")
                axis.plot(1 + run["steps"], run[key], lw=1, color=f"C{i}", label=label)
            axis.set(xscale="log", yscale="log", xlabel="1 + steps")
            axis.set_ylim(top=min(10.0, axis.get_ylim()[1]))
        for axis, what in zip(losses, ("training", "validation"), strict=True):
            axis.set(ylabel=f"{what} loss")
    shared_legend(axes, {"mean of seeds": {"color": "0.3", "marker": "o", "ls": "none"}})
    figure.suptitle(f"{data.attrs['size']}; thin: single seeds; c, d, …: one", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Near-zero weights against catapults by task; what was not run."""
    rows = []
    for name in data["task"].values:
        one = data.sel(task=name)
        with_catapults = one.sel(start="catapults")
        of = lambda key, name=name: CLAIMS[key].format(task=name, source=SOURCES[name])
        for start in ("same", "long"):
            near = one.sel(start=start)
            lower = with_catapults["test"] - near["test"]
            better = near["alignment"] - with_catapults["alignment"]
            rows.append(positive(of(f"{start} test"), lower))
            rows.append(positive(of(f"{start} alignment"), better))
        gone = one["own_diverged"].astype(float).mean("seed")
        rows.append(of("own").equals(gone, 1.0))
    return [*rows, *_cases.not_run(CLAIMS["not run"], NOT_RUN)]
