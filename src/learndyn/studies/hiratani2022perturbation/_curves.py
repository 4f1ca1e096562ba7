"""Training of many seeds, their curves, and how these are drawn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies.hiratani2022perturbation._tasks import SIGMA, Task, drawn_starts
from learndyn.studies.registry import Report

Rule = Callable[[float], Any]


def perturbed(batch: int, **more: Any) -> Rule:
    """Node perturbation of a rate, with the paper's σ and shuffled passes."""
    options = {"sigma": SIGMA, "batch": batch, "sampling": "epochs", **more}
    return lambda rate: ld.NodePerturbation(rate, **options)


def gradient(batch: int) -> Rule:
    """SGD of a rate, in shuffled passes."""
    return lambda rate: ld.SGD(rate, batch=batch, sampling="epochs")


def norm(model: ld.Model) -> Any:
    """‖W_1‖²."""
    return jnp.sum(jnp.asarray(model.weights[0].weight) ** 2)


def trained(
    task: Task,
    network: Any,
    rule: Any,
    steps: np.ndarray,
    *,
    key: int,
    seeds: int,
    first: float = 1.0,
    probes: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Curves of so many seeds: weights, noise and order of the examples differ.

    Args:
        task: what is learnt.
        network: the student.
        rule: how.
        steps: at which is measured.
        key: of the first seed.
        seeds: how many.
        first: factor of the first layer at the start.
        probes: beside the norm of the first weights.

    Returns:
        `test` and `train`, mean squared errors per output, `norm`, the probes' values, and
        `accuracy` on the test set where there are classes; dimensions (seed, step). After a run
        has diverged, errors are infinite, and `norm` and the probes are missing.
    """
    system = ld.System(task.problem, network, rule)
    starts = drawn_starts(system, key, seeds, first=first)
    record = ld.simulate(
        system, steps, starts=starts, key=key, probes={"norm": norm, **(probes or {})}
    ).isel(run=0)
    unit = 2 / task.outputs
    kept = {"test": unit * record["test_error"], "train": unit * record["error"]}
    kept |= {name: record[name] for name in ("norm", *(probes or {}))}
    if "test_accuracy" in record:
        kept["accuracy"] = record["test_accuracy"].fillna(1 / task.outputs)
    data = xr.Dataset(kept)
    data = data.drop_vars(list(data.coords)).rename(start="seed", time="step")
    data = data.assign_coords(step=np.asarray(steps, np.float64))
    gone = {n: data[n].fillna(np.inf) for n in ("test", "train")}
    return data.assign(gone)


def under(
    rules: Mapping[Any, Any],
    over: str,
    task: Task,
    network: Any,
    steps: np.ndarray,
    *,
    done: Callable[[], None],
    **options: Any,
) -> xr.Dataset:
    """The curves of `trained` under several rules, with a dimension `over` of their names."""
    rows = []
    for rule in rules.values():
        rows.append(trained(task, network, rule, steps, **options))
        done()
    joined: xr.Dataset = xr.concat(rows, xr.Variable(over, list(rules)))  # pyright: ignore
    return joined


def at_rates(
    task: Task,
    network: Any,
    rule: Rule,
    rates: Sequence[float],
    last: int,
    points: int,
    **options: Any,
) -> xr.Dataset:
    """The curves of `trained` at several rates, with a dimension `rate`."""
    even = np.rint(np.linspace(last / 2, last, 11))  # logarithms have few steps there
    grid = np.union1d(steps_of(last, points), even)
    return under({rate: rule(rate) for rate in rates}, "rate", task, network, grid, **options)


class Counted:
    """Reports the fraction of cases that are done."""

    def __init__(self, cases: int, report: Report):
        self._cases, self._report, self._done = cases, report, 0

    def __call__(self, number: int = 1) -> None:
        self._done += number
        self._report(self._done / self._cases)


def draw_curves(
    axis: Axes,
    curve: xr.DataArray,
    color: str,
    label: str | None,
    style: str = "-",
    *,
    seeds: bool = True,
) -> None:
    """The median over seeds, and behind it all of them if they are wanted; no step 0."""
    (step,) = (dim for dim in curve.dims if dim != "seed")
    later = curve.isel({step: slice(1, None)}).where(np.isfinite(curve))
    for seed in range(later.sizes["seed"] * seeds):
        axis.plot(later[step], later.isel(seed=seed), style, color=color, lw=0.5, alpha=0.4)
    axis.plot(later[step], later.median("seed", skipna=False), style, color=color, label=label)


def draw_family(
    axis: Axes,
    curves: xr.DataArray,
    over: str,
    label: str = "η = {:g}",
    *,
    black: Any = None,
    **axes: Any,
) -> None:
    """A panel of curves in the colours of one dimension, as of rates; `black` is drawn black."""
    for number, value in enumerate(curves[over].values):
        color = "k" if value == black else f"C{number}"
        draw_curves(axis, curves.sel({over: value}), color, label.format(value))
    looks = {"xscale": "log", "yscale": "log", "xlabel": "step", "ylabel": "test error"}
    axis.set(**looks | axes)
    legend(axis, fontsize=7)


def few_ticks(axis: Axes, values: Sequence[float] | np.ndarray) -> None:
    """A logarithmic axis with ticks at these values only."""
    axis.set_xscale("log")
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.xaxis.set_minor_formatter(NullFormatter())


def shown_up_to(axis: Axes, errors: xr.DataArray) -> None:
    """An axis of errors that ends a little above where learning began, whatever diverges."""
    first = errors.isel({next(d for d in errors.dims if "step" in str(d)): 0})
    axis.set_ylim(0.7 * float(errors.min()), 3 * float(first.max()))


def steps_of(last: int, points: int) -> np.ndarray:
    """About so many steps up to the last, equally far apart in logarithms, and 0."""
    return np.unique(np.rint(np.concatenate([[0], np.geomspace(1, last, points - 1)])))


def first_index(curve: xr.DataArray, level: float, *, above: bool = False):
    """Where a curve is first at a level or below it (or above), and whether it ever is."""
    reached = curve >= level if above else curve <= level
    return reached.argmax("step"), reached.any("step")


def first_step(curve: xr.DataArray, level: float, *, above: bool = False) -> xr.DataArray:
    """The step at which a curve first is at a level or below it (or above); NaN if never.

    Between measured steps it is interpolated, in the logarithm of the step.
    """
    index, ever = first_index(curve, level, above=above)
    at = lambda i: (np.log(curve["step"].isel(step=i) + 1), curve.isel(step=i))
    (t0, y0), (t1, y1) = at(np.maximum(index - 1, 0)), at(index)
    share = ((level - y0) / (y1 - y0)).where((y1 != y0) & np.isfinite(y1), 1.0)
    step = xr.ufuncs.exp(t0 + share * (t1 - t0)) - 1
    return step.where(ever).drop_vars("step", errors="ignore")
