"""Figs. C.18 and C.20: batch sizes in the standard parameterisation.

As Fig. 4.9, with networks in PyTorch's parameterisation. Its weights are uniform within
±1/√(inputs), so that their standard deviation is 1/√3 of that of `parameterisation="standard"`: the
gain here. Weights are normal instead of uniform, and PyTorch's biases are left out, as in all these
studies. At the paper's size rates are the printed ones and targets are not scaled, since the rates
are printed for them. For networks of four layers these rates are far below ½ η_crit; epochs are
then those of Fig. 4.9 times ½ η_crit over the rate, and more readings lie early. Rank 4 and USPS
are not in Fig. C.18: what is said of them is our own, at the printed rate of the same network (rank
3, CelebA), USPS as a task of real images in the place of SVHN and CelebA. The quick preset is
smaller, and has rank 2 alone, at ½ η_crit.

Notes: docs/results/zhu2024catapults/figC_18/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels, shared_legend
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024catapults import _cases
from learndyn.studies.zhu2024catapults._cases import PAPER, Sizes, over_tasks
from learndyn.studies.zhu2024catapults._drawing import against_batches
from learndyn.studies.zhu2024catapults._features import Task, critical, over_batches
from learndyn.studies.zhu2024catapults._ordering import growing_as_batches_shrink

TITLE = "Smaller batches of SGD in the standard parameterisation: alignment and test error"
DIFFERS = (
    "normal weights without biases for PyTorch's uniform ones; rank 4 and USPS are added, SVHN and "
    "CelebA not run; 5 runs instead of 3"
)
PYTORCH = {"parameterisation": "standard", "gain": 3**-0.5}
HALF = 0.5  # rate over η_crit
EARLY = 2.0  # readings of runs at the printed rates lie at this power of equal distances
PRINTED = {"rank2": 0.01, "rank3": 0.01, "rank4": 0.01, "usps": 1.0}  # rates of App. C.6
SOURCES = {"rank2": "Fig. C.18 (a)", "rank3": "Fig. C.18 (b)"}
NOT_RUN = {"SVHN": "Fig. C.18 (c)", "CelebA": "Fig. C.18 (d)"}
_ALIGNMENT = "{task}: smaller batches raise the AGOP alignment: mean slope against −log b"
_TEST = "{task}: smaller batches lower the test error: mean slope against −log b"
_CATAPULTS = "{task}: smaller batches have more catapults: the smallest less the full one, mean"
_ONE = "more is at least one more"
CLAIMS = {
    "alignment": claim(_ALIGNMENT, "{source}"),
    "test": claim(_TEST, "{source}"),
    "catapults": claim(_CATAPULTS, "{source}", because=_ONE),
    "own alignment": claim(_ALIGNMENT, "our own", kind="finding"),
    "own test": claim(_TEST, "our own", kind="finding"),
    "own catapults": claim(_CATAPULTS, "our own", kind="finding", because=_ONE),
    "not run": claim("{data}: smaller batches lower the test error and raise the AGOP alignment",
                     "{panel}"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, batches, epochs of networks with two and four layers, readings and seeds.

    With `printed` rates and targets are those of the thesis; else rates are ½ η_crit.
    """

    tasks: tuple[str, ...] = ("rank2",)
    batches: tuple[int, ...] = (320, 10, 5)
    shallow_epochs: tuple[int, ...] = (500, 24, 16)
    deep_epochs: tuple[int, ...] = (200, 14, 10)
    label_noise: float = 0.1
    printed: bool = False
    readings: int = 16
    seeds: int = 6
    key: int = 0


PARTS = {"tasks": "task", "seeds": "seed"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(PAPER), tasks=("rank2", "rank3", "rank4", "usps"),
        batches=(2000, 100, 50, 10, 5), shallow_epochs=(1500, 300, 160, 32, 24),
        deep_epochs=(600, 120, 60, 20, 16), printed=True, readings=32, seeds=5,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by task, seed and batch size."""
    return over_tasks(_run, params, report).assign_attrs(size=params.label)


def _run(params: Params, name: str, seed: int) -> xr.Dataset:
    task, model = _drawn(params, name, seed)
    unit = critical(task, model)
    share = PRINTED[name] / unit if params.printed else HALF
    epochs = params.shallow_epochs if name in _cases.SHALLOW else params.deep_epochs
    most = np.asarray(epochs) * max(1.0, HALF / share)
    early, variance = (EARLY, _cases.VARIANCES.get(name, 1.0)) if params.printed else (1.0, 1.0)
    run = over_batches(
        task, model, params.batches, most, share=share, early=early, key=seed,
        readings=params.readings,
    )  # fmt: skip
    losses = {each: run[each] / variance for each in ("test", "curve")}
    about = {"accuracy": task.accuracy, "title": task.name, "critical": unit}
    return run.assign({**losses, **about})


def _drawn(params: Params, name: str, seed: int) -> tuple[Task, ld.Model]:
    if params.printed and name in _cases.VARIANCES:
        sizes = params.dim, params.n if name in _cases.SHALLOW else params.n_deep, params.held_out
        task = _cases.polynomial_task(name, *sizes, seed, raw=True)
        return task, _cases.model_of(name, task, params, seed, **PYTORCH)
    noise = params.label_noise if name in _cases.IMAGES else 0.0
    return _cases.drawn_case(name, params, seed, label_noise=noise, **PYTORCH)


def draw(data: xr.Dataset) -> Figure:
    """Alignment, test error, catapults against the batch size; validation losses over epochs."""
    figure, axes = panels(4 * data.sizes["task"], columns=4, size=(2.8, 2.0))
    for row, name in enumerate(data["task"].values):
        one, four = data.sel(task=name), axes[4 * row : 4 * row + 4]
        test = "test error" if name in _cases.IMAGES else "test loss / variance"
        against_batches(four, one, test, f"C{row}")
        four[0].set_title(_title(one), fontsize=7, loc="left")
    shared_legend(axes, {"mean of seeds": {"color": "0.3", "marker": "o", "ls": "-"}})
    title = f"standard parameterisation, {data.attrs['size']}; thin: single seeds; d, h, …: one"
    figure.suptitle(title, fontsize=9)
    return figure


def _title(one: xr.Dataset) -> str:
    """The task with the accuracy of its reference; its rate, and how many runs diverge."""
    title, accuracy = str(one["title"].values.flat[0]), float(one["accuracy"].values.flat[0])
    title += f", reference {accuracy:.1%}" if np.isfinite(accuracy) else ""
    parts = title.split(", ")  # two lines are as wide as a panel
    rate, unit, gone = (one[key].mean().item() for key in ("rate", "critical", "diverged"))
    about = f"η = {rate:.2g} = {rate / unit:.2g} η_crit" + (f", {gone:.0%} diverge" if gone else "")
    return "\n".join(filter(None, (", ".join(parts[:2]), ", ".join(parts[2:]), about)))


def check(data: xr.Dataset) -> list[Claim]:
    """Trends with the batch size by task; what was not run."""
    rows = [row for name in data["task"].values for row in _of_task(data.sel(task=name), name)]
    return [*rows, *_cases.not_run(CLAIMS["not run"], NOT_RUN)]


def _of_task(one: xr.Dataset, name: str) -> list[Claim]:
    own = "" if name in SOURCES else "own "
    of = lambda key: CLAIMS[own + key].format(task=name, source=SOURCES.get(name, ""))
    counts = one["catapults"]
    more = intervals.of_mean(counts.isel(batch=-1) - counts.isel(batch=0), "seeds")
    return [
        growing_as_batches_shrink(of("alignment"), one["alignment"]),
        growing_as_batches_shrink(of("test"), -one["test"]),
        of("catapults").at_least(more, 1.0),
    ]
