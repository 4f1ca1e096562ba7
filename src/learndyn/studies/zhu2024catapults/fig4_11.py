"""Fig. 4.11 with Table C.1: alignment and test loss over optimisers.

Seven optimisers train the networks of Fig. 4.8, all but GD in batches (100 in the thesis). The
thesis prints one rate for each (Table C.1) and says that it was not tuned; here each is tried at a
third of it, at it and at three times it, and the rate with the smallest mean validation loss is
taken. Constants that the thesis does not print are PyTorch's: momentum 0.9, RMSprop's decay 0.99,
Adadelta's 0.9. "Strongly correlates" is read as a correlation over optimisers whose interval
excludes 0. The quick preset has the rank-2 target; SVHN-2 and CelebA are not run.

Notes: docs/results/zhu2024catapults/fig4_11/notes.md.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._cases import FEWER, Sizes, drawn_case, not_run
from learndyn.studies.zhu2024catapults._features import best, course

TITLE = "Test loss and AGOP alignment over optimisers, each at its best rate of a grid"
DIFFERS = (
    "three rates per optimiser, the best by validation, instead of the printed one alone; at "
    "most 3000 steps; targets of variance 1, no biases; SVHN-2 and CelebA are not run"
)
OPTIMISERS = {  # at the rate 1
    "GD": optax.sgd(1.0),
    "SGD": optax.sgd(1.0),
    "SGD+M": optax.sgd(1.0, momentum=0.9),
    "Adadelta": optax.adadelta(1.0, rho=0.9, eps=1e-6),
    "Adagrad": optax.adagrad(1.0, initial_accumulator_value=0.0, eps=1e-10),
    "RMSprop": optax.rmsprop(1.0, decay=0.99, eps=1e-8),
    "Adam": optax.adam(1.0),
}
RATES = {  # Table C.1, in the order of `OPTIMISERS`
    "rank2": (2.0, 2.0, 2.0, 2.0, 0.1, 1e-2, 1e-2),
    "rank3": (2.0, 2.0, 2.0, 2.0, 1e-2, 1e-2, 1e-3),
    "rank4": (1.0, 1.0, 1.0, 1.0, 5e-3, 1e-3, 1e-3),
}
FACTORS = (1 / 3, 1.0, 3.0)
PANELS = {"rank2": "Fig. 4.11 (a)", "rank3": "Table C.1", "rank4": "Fig. 4.11 (b)"}
NOT_RUN = {"SVHN-2": "Fig. 4.11 (c)", "CelebA": "Fig. 4.11 (d)"}
CLAIMS = {
    "correlation": claim("{task}: over optimisers the test loss correlates with the AGOP alignment",
                         "{panel}", because="a sign"),
    "not run": claim("{data}: over optimisers the test error correlates with the AGOP alignment",
                     "{panel}"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, batch, steps of all optimisers, readings and seeds."""

    tasks: tuple[str, ...] = ("rank2",)
    batch: int = 32
    steps: int = 600
    readings: int = 20
    seeds: int = 3
    key: int = 0


PARTS = {"tasks": "task"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(FEWER),
        tasks=("rank2", "rank3", "rank4"),
        batch=100,
        steps=3000,
        readings=30,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by task, optimiser, rate and seed."""
    work = [(name, each) for name in params.tasks for each in OPTIMISERS]
    rows = {key: _optimiser(params, *key) for key in cases(work, report)}
    over = xr.Variable("optimiser", list(OPTIMISERS))
    tasks = [xr.concat([rows[name, each] for each in OPTIMISERS], over) for name in params.tasks]
    data = xr.concat(tasks, xr.Variable("task", list(params.tasks)))
    sizes = f"{params.label}, batch {params.batch}, {params.steps} steps"
    return data.assign_attrs(size=sizes)


def _optimiser(params: Params, name: str, optimiser: str) -> xr.Dataset:
    printed = RATES[name][list(OPTIMISERS).index(optimiser)]
    steps = np.rint(np.linspace(0, params.steps, params.readings + 1))
    batch = {} if optimiser == "GD" else {"batch": params.batch, "sampling": "epochs"}
    rows: list[xr.Dataset] = []
    for factor in FACTORS:
        rule = ld.Optax(at_rate(OPTIMISERS[optimiser], factor * printed), **batch)
        runs = [_run(params, name, rule, steps, params.key + i) for i in range(params.seeds)]
        rows.append(xr.concat(runs, "seed").assign(rate=factor * printed))
    return xr.concat(rows, xr.Variable("factor", list(FACTORS)))


def at_rate(one: optax.GradientTransformation, rate: float) -> optax.GradientTransformation:
    """An optimiser of rate 1 at another rate, given as an array: all rates share one program."""
    update = jax.tree_util.Partial(_scaled, one.update, np.asarray(rate))
    return optax.GradientTransformation(one.init, update)


def _scaled(
    update: Callable[..., Any], rate: Any, gradients: Any, state: Any, weights: Any = None
) -> tuple[Any, Any]:
    updates, state = update(gradients, state, weights)
    return jax.tree.map(lambda u: u * rate.astype(u.dtype), updates), state


def _run(params: Params, name: str, rule: Any, steps: np.ndarray, seed: int) -> xr.Dataset:
    task, model = drawn_case(name, params, seed)
    reported = best(course(task, model, rule, steps, key=seed))
    return reported.assign(batch=rule.batch or len(task.data.x))


def at_best_rate(data: xr.Dataset) -> xr.Dataset:
    """Each optimiser at the rate with the smallest mean validation loss; all seeds of it."""
    mean = data["validation"].where(~data["diverged"].astype(bool), np.inf).mean("seed")
    return data.isel(factor=mean.argmin("factor"))


def draw(data: xr.Dataset) -> Figure:
    """Test loss against alignment, each optimiser at its best rate and, faint, at the others."""
    figure, axes = panels(data.sizes["task"], size=(4.6, 3.6))
    for axis, name in zip(axes, data["task"].values, strict=True):
        chosen = at_best_rate(data.sel(task=name))
        for i, each in enumerate(data["optimiser"].values):
            one, every = chosen.sel(optimiser=each), data.sel(task=name, optimiser=each)
            points = every["alignment"].values.ravel(), every["test"].values.ravel()
            axis.plot(*points, ".", color=f"C{i}", alpha=0.25, ms=4)
            label = f"{each}, {float(one['rate'].values.flat[0]):.2g}"
            means = float(one["alignment"].mean("seed")), float(one["test"].mean("seed"))
            axis.plot(*means, "o", color=f"C{i}", label=label)
        axis.set(xlabel="AGOP alignment", ylabel="test loss / variance")
        axis.set_title(f"{name}: correlation of means {_correlation(chosen):.2f}", fontsize=8)
        axis.set_ylim(0.9 * float(chosen["test"].min()), min(2.0, axis.get_ylim()[1]))
        legend(axis, {"other rates, single seeds": {"marker": "."}}, fontsize=6)
    figure.suptitle(data.attrs["size"], fontsize=9)
    return figure


def _correlation(chosen: xr.Dataset) -> float:
    mean = chosen[["alignment", "test"]].mean("seed")
    return ld.analysis.partial_correlation(mean["alignment"].values, mean["test"].values)


def check(data: xr.Dataset) -> list[Claim]:
    """Correlations over optimisers."""
    count, rows = data.sizes["optimiser"], []
    for name in data["task"].values:
        correlation = _correlation(at_best_rate(data.sel(task=name)))
        sentence = CLAIMS["correlation"].format(task=name, panel=PANELS[name])
        found = intervals.of_correlation(correlation, count, "optimisers")
        rows.append(sentence.at_most(found, 0.0))
    return [*rows, *not_run(CLAIMS["not run"], NOT_RUN)]
