"""Networks of chapter 4 in training: the loss, its parts in eigenspaces of the kernel, ‖K‖.

Learning rates are given in units of η_crit = n/λ_max(K) of the mean of r² at the start, by which
the thesis's own rates reproduce; as absolute numbers not all of them do. Its "5-layer" networks
have three hidden layers here: η_crit is 3.6 then, as printed for Fig. 4.3 (a), and above 5 with
four. Biases, which App. C.6 prints, are left out for the same reason. Weights and examples come
from different streams of a key.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.analysis.catapults import Catapults
from learndyn.networks.base import AbstractNetwork
from learndyn.rules.base import AbstractRule
from learndyn.studies.zhu2024catapults._data import Task
from learndyn.studies.zhu2024catapults._watching import watched

WEIGHTS = 11  # stream of the weights
HALF = 0.5  # rate of the controls, in units of η_crit
RISE = 1.5  # of a spike over the running minimum


class Trained(NamedTuple):
    """A network and what it learns.

    Attributes:
        task: the examples.
        network: without weights.
        s: how many top eigenvectors of the kernel are taken apart.
        problem: the task with its loss, one for all runs: programs are compiled once for it.
    """

    task: Task
    network: AbstractNetwork
    s: int
    problem: ld.Dataset


def dense_network(task: Task, width: int, **options: Any) -> ld.MLP:
    """The "5-layer FCN": three hidden layers, for flattened inputs."""
    return ld.MLP([task.x[0].size, width, width, width, _outputs(task)], "relu", **options)


def convolutional(task: Task, channels: int, **options: Any) -> ld.CNN:
    """The "5-layer CNN": three convolutions and a dense layer over all pixels."""
    return ld.CNN([channels] * 3, 3, _outputs(task), "relu", **options)


def wide_resnet(task: Task, widen: int, **options: Any) -> ld.WideResNet:
    """The Wide ResNet 10-widen."""
    return ld.WideResNet(10, widen, _outputs(task), **options)


def transformer(task: Task, width: int, **options: Any) -> ld.ViT:
    """The "ViT-4", which the thesis does not define: four blocks, 8 × 8 patches at most."""
    patch = max(2, task.x.shape[1] // 8)
    return ld.ViT(patch, width, 4, max(1, width // 16), _outputs(task), hidden=width, **options)


def _outputs(task: Task) -> int:
    return task.y[0].size


def trained(task: Task, network: AbstractNetwork, s: int) -> Trained:
    """A network with its task, of whose kernel the top s eigenspaces are taken apart."""
    return Trained(task, network, s, task.problem)


def weights_of(case: Trained, seed: int) -> Any:
    """Initial weights of a seed, in the precision that they are trained in."""
    rng = np.random.default_rng([seed, WEIGHTS])
    return jax.tree.map(np.float32, case.network.sample(rng, case.task.x.shape[1:]))


def critical_rate(case: Trained, weights: Any) -> float:
    """η_crit of all examples at given weights, from the kernel."""
    model = ld.Model(case.network, weights)
    found = ld.probes.critical_learning_rate(model, case.task.x, loss=case.problem.loss)
    return float(found)


def follow(case: Trained, weights: Any, rule: AbstractRule, steps: int, key: int = 0) -> xr.Dataset:
    """One run, every step of it: `loss`, `top`, `rest` and `kernel` by `time`, float32.

    Args:
        case: the network and its task.
        weights: where it begins.
        rule: how it learns.
        steps: how many.
        key: of the batches.

    Returns:
        The histories, blank from where the run has diverged.
    """
    run = watched(case.problem, case.network, weights, rule, steps, key=key, s=case.s)
    named = {"error": "loss", "loss_top": "top", "kernel_norm": "kernel"}
    run = run[list(named)].rename(named)
    return run.assign(rest=run["loss"] - run["top"])


def catapults(run: xr.Dataset, **options: Any) -> Catapults:
    """Spikes of one run's loss, with drops of ‖K‖ and shares of the top eigenspaces.

    A spike is a rise by half, since the thesis speaks of a "drastic increase".
    """
    return ld.analysis.find_catapults(
        run["loss"].values, kernel_norm=run["kernel"].values, loss_top=run["top"].values,
        **{"rise": RISE, **options},
    )  # fmt: skip


def of_descent(run: xr.Dataset) -> Catapults:
    """The same for gradient descent, whose loss has no noise: none is allowed for."""
    return catapults(run, noise=1e-9)


def of_batches(run: xr.Dataset) -> Catapults:
    """The same for stochastic gradient descent: three standard deviations of its noise."""
    return catapults(run, noise=3.0)


def rise(values: Any) -> float:
    """The largest ratio of a history to its running minimum; infinite where it diverges."""
    values = np.asarray(values, float)
    if not np.all(np.isfinite(values)):
        return np.inf
    return float(np.max(values / np.minimum.accumulate(values)))


def median(values: Iterable[float]) -> float:
    """The median; blank without any value."""
    given = list(values)
    return float(np.median(given)) if given else np.nan


def runs(data: xr.Dataset, dims: Sequence[str]) -> list[xr.Dataset]:
    """Every run of a data set, by its dimensions."""
    stacked = data.stack(one=list(dims))
    return [stacked.isel(one=i) for i in range(stacked.sizes["one"])]
