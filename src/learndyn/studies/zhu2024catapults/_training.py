"""Networks of chapter 4 in training: the loss, its parts in eigenspaces of the kernel, ‖K‖.

Learning rates are in units of the initial η_crit = n/λ_max(K) for the mean of r². In these units
the thesis's rates reproduce; as absolute numbers not all of them do. Its "5-layer" networks have
three hidden layers here: then η_crit is 3.6, as printed for Fig. 4.3 (a); with four it is above 5.
The biases of App. C.6 are left out for the same reason. Weights and examples come from different
streams of a key.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.analysis.catapults import Catapults, Match
from learndyn.networks.base import AbstractNetwork
from learndyn.rules.base import AbstractRule
from learndyn.studies.zhu2024catapults._data import Task, images

WEIGHTS = 11  # stream of the initial weights
HALF = 0.5  # rate of the controls, in units of η_crit
RISE = 1.5  # of a spike over the running minimum: the thesis speaks of a "drastic increase"
CALM = 1.1  # a rise of the loss that is no spike
LARGE = 0.1  # a step that raises the loss by this fraction is a large increase
READ = ("rate", "critical_rate", "kernel_norm", "loss_top", "batch_loss", "batch_loss_after")


class Trained(NamedTuple):
    """A task and a network, without weights.

    `s` is the number of top eigenvectors of the kernel whose part of the loss is read. `problem` is
    the task with its loss, one for all runs, so that programs are compiled once.
    """

    task: Task
    network: AbstractNetwork
    s: int
    problem: ld.Dataset


class Panel(NamedTuple):
    """Figure in the thesis, network, rate over η_crit, printed η_crit, many examples or few."""

    source: str
    network: str
    multiple: float
    printed: float = np.nan
    many: bool = False


def network_of(kind: str, task: Task, size: int, **options: Any) -> AbstractNetwork:
    """A network of the thesis, by its width, number of channels or widening factor.

    FCN and CNN are the "5-layer" networks, with three hidden layers or convolutions and a dense
    layer. The thesis does not define its "ViT-4": here four blocks and at most 8 × 8 patches.
    """
    inputs, outputs = task.x[0].size, task.y[0].size
    if kind == "shallow":
        return ld.MLP([inputs, size, outputs], "relu", **options)
    if kind == "FCN":
        return ld.MLP([inputs, size, size, size, outputs], "relu", **options)
    if kind == "CNN":
        return ld.CNN([size] * 3, 3, outputs, "relu", **options)
    if kind == "WRN":
        return ld.WideResNet(10, size, outputs, **options)
    if kind == "Myrtle":
        return ld.Myrtle(size, outputs, **options)
    patch = max(2, task.x.shape[1] // 8)
    return ld.ViT(patch, size, 4, max(1, size // 16), outputs, hidden=size, **options)


def trained(kind: str, task: Task, size: int, s: int = 1, **options: Any) -> Trained:
    """A network of a kind with its task; inputs of dense networks become vectors."""
    task = task.flat if kind in ("shallow", "FCN") else task
    return Trained(task, network_of(kind, task, size, **options), s, task.problem)


def on_images(
    kind: str, params: Any, count: int, size: int, s: int = 1, *, ten: bool = False, **options: Any
) -> Trained:
    """`trained` on images of two or ten classes of `params.data`, drawn by `params.key`."""
    (task,) = images(params.data, (count,), params.key, range(10) if ten else (7, 9))
    return trained(kind, task, size, s, **options)


def weights_of(case: Trained, seed: int) -> Any:
    """Initial weights by the seed, in the precision of the training."""
    rng = np.random.default_rng([seed, WEIGHTS])
    return jax.tree.map(np.float32, case.network.sample(rng, case.task.x.shape[1:]))


def critical_rate(case: Trained, weights: Any) -> float:
    """η_crit of all examples at given weights, from the kernel."""
    model = ld.Model(case.network, weights)
    return float(ld.probes.critical_learning_rate(model, case.task.x, loss=case.problem.loss))


def watched(
    problem: ld.Dataset,
    network: AbstractNetwork,
    weights: Any,
    rule: AbstractRule,
    steps: int,
    *,
    key: int,
    s: int = 1,
) -> xr.Dataset:
    """One run in float32: `error` and what `probes.Watched` reads at every step, by `time`.

    `key` draws the batches; `loss_top` is the loss in the top s eigenvectors of the kernel.
    """
    system = ld.System(problem, network, rule)
    start = ld.start(system, weights=weights)
    probes = {"watched": ld.probes.Watched(s=s)}
    options: Any = {"method": "direct", "key": key, "dtype": "float32", "probes": probes}
    record = ld.simulate(system, np.arange(steps + 1.0), start=start, **options)
    return record.isel(run=0, drop=True)[["error", *READ]].astype(float)


def follow(case: Trained, weights: Any, rule: AbstractRule, steps: int, key: int = 0) -> xr.Dataset:
    """`loss`, `top`, `rest` and `kernel` of one run; NaN once it has diverged."""
    run = watched(case.problem, case.network, weights, rule, steps, key=key, s=case.s)
    names = {"error": "loss", "loss_top": "top", "kernel_norm": "kernel"}
    run = run[list(names)].rename(names)
    return run.assign(rest=run["loss"] - run["top"])


def over_seeds(
    case: Trained, params: Any, rules: Callable[[float], Sequence[AbstractRule]]
) -> xr.Dataset:
    """`follow` for each seed of the parameters and each of the rules at its η_crit."""
    rows: list[xr.Dataset] = []
    for seed in range(params.key, params.key + params.seeds):
        weights = weights_of(case, seed)
        critical = critical_rate(case, weights)
        runs = [follow(case, weights, rule, params.steps, seed) for rule in rules(critical)]
        rows.append(xr.concat(runs, "rate").assign(critical=critical))
    return xr.concat(rows, "seed").assign(examples=case.task.name)


def of_descent(run: xr.Dataset, noise: float = 1e-9) -> Catapults:
    """Spikes of a loss without noise, with drops of ‖K‖ and shares of the top eigenspaces."""
    kernel, top = run["kernel"].values, run["top"].values
    options: Any = {"kernel_norm": kernel, "loss_top": top, "rise": RISE, "noise": noise}
    return ld.analysis.find_catapults(run["loss"].values, **options)


def of_batches(run: xr.Dataset) -> Catapults:
    """The same for SGD: spikes above three standard deviations of the noise of its loss."""
    return of_descent(run, noise=3.0)


def large_increases(run: xr.Dataset) -> Match:
    """Steps that raise the loss by a tenth, and how many of them have η > η_crit(batch)."""
    loss = run["error"].values
    above = (run["rate"].values > run["critical_rate"].values)[:-1]
    grew = loss[1:] > (1 + LARGE) * loss[:-1]
    rate = float(above[grew].mean()) if grew.any() else np.nan
    return Match(rate, float(above.mean()), int(grew.sum()))


def rise(values: Any) -> float:
    """The largest ratio of a history to its running minimum; infinite if it diverges."""
    values = np.asarray(values, float)
    if not np.all(np.isfinite(values)):
        return np.inf
    return float(np.max(values / np.minimum.accumulate(values)))


def median(values: Iterable[float]) -> float:
    """The median; NaN without any value."""
    values = list(values)
    return float(np.median(values)) if values else np.nan


def runs(data: xr.Dataset, *dims: str) -> list[xr.Dataset]:
    """Every run of a data set, by its dimensions."""
    stacked = data.stack(one=dims)
    return [stacked.isel(one=i) for i in range(stacked.sizes["one"])]
