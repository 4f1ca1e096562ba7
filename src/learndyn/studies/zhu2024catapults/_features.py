"""Training that shows which features are learned: how Section 4.4 trains, stops and counts.

The loss is the mean of r², over outputs too. Networks have no biases: with those of App. C.6,
η_crit would be a ninth of what the thesis's rates need. A run is read at equal distances in time:
losses, the alignment of the AGOP on the training inputs with the reference G* (Eqs. 4.5-4.6), and
the fraction of the batches of one pass over the training set whose critical rate is below η. It
ends when the training loss is below 10⁻³ (App. C.6), or after its epochs. A run is reported at the
reading with the smallest validation loss up to then; the thesis counts catapults up to there.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.rules.base import AbstractRule

STOP = 1e-3  # training loss at which a run ends
MARGIN = 1e-8  # ε in η − η_crit(batch) > ε
WEIGHTS = 1  # stream of the initial weights


@dataclasses.dataclass(frozen=True)
class Task:
    """Examples to learn, and the features of their target.

    Attributes:
        name: for figures.
        data: training, validation and test examples.
        reference: G*, (inputs, inputs), or its factor F with G* = FᵀF.
        accuracy: test accuracy of the network whose AGOP is the reference; NaN for a known target.
    """

    name: str
    data: ld.Dataset
    reference: np.ndarray
    accuracy: float = np.nan

    @property
    def outputs(self) -> int:
        """Number of outputs of a network for it: one for numbers and for two classes."""
        classes = int(self.data.y.max()) + 1 if self.data.y.dtype.kind == "i" else 1
        return classes if classes > 2 else 1


def fully_connected(
    task: Task, depth: int, width: int, seed: int, *, parameterisation: str = "ntk", gain: Any = 1.0
) -> ld.Model:
    """A relu network of `depth` layers of weights, drawn by the seed."""
    widths = [task.data.x[0].size, *[width] * (depth - 1), task.outputs]
    network = ld.MLP(widths, "relu", parameterisation=parameterisation, gain=gain)
    rng = np.random.default_rng([seed, WEIGHTS])
    return ld.Model(network, network.sample(rng, task.data.input_shape))


def critical(task: Task, model: ld.Model) -> float:
    """η_crit of the whole training set, n/λ_max(K) where there is one output."""
    return float(ld.probes.critical_learning_rate(model, task.data.x, loss=task.data.loss))


def rule_of(task: Task, rate: float, batch: int) -> AbstractRule:
    """SGD in shuffled passes, or gradient descent if the batch is the whole training set."""
    if batch == len(task.data.x):
        return ld.GradientDescent(rate)
    return ld.SGD(rate, batch=batch, sampling="epochs")


def flat(model: ld.Model) -> Any:
    """A probe: all weights as one vector."""
    return jax.flatten_util.ravel_pytree(model.weights)[0]


def with_weights(model: ld.Model, vector: np.ndarray) -> ld.Model:
    """The same network with the weights that `flat` has read, in float32."""
    # Weights are drawn in float64, which `ravel_pytree` would otherwise restore.
    _, restore = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, model.weights))
    weights = restore(jnp.asarray(vector, jnp.float32))
    return ld.Model(model.network, jax.tree.map(np.asarray, weights))


def alignment_with(task: Task) -> Callable[[ld.Model], Any]:
    """A probe: the alignment of the AGOP on the training inputs with the reference."""
    x, reference = (np.asarray(a, np.float32) for a in (task.data.x, task.reference))

    def alignment(model: ld.Model) -> Any:
        agop = ld.probes.agop(model, jnp.asarray(x))
        return ld.probes.alignment(agop, jnp.asarray(reference))

    return alignment


def share_above(task: Task, rate: float, batch: int) -> Callable[[ld.Model], Any]:
    """A probe: the fraction of the batches of one pass whose critical rate η exceeds by ε."""
    x, number = np.asarray(task.data.x, np.float32), len(task.data.x) // batch
    batches = x[: number * batch].reshape(number, batch, *x.shape[1:])
    # An array is an input of the program, which is compiled once for all rates.
    least = np.asarray([rate - MARGIN], np.float32)

    def above(model: ld.Model) -> Any:
        of = lambda x: ld.probes.critical_learning_rate(model, x, loss=task.data.loss).value
        return jnp.mean(jnp.asarray(least) > jax.lax.map(of, jnp.asarray(batches)))

    return above


def course(
    task: Task,
    model: ld.Model,
    rule: AbstractRule,
    steps: Any,
    *,
    key: int,
    probes: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Readings of one run from a network, at some steps; `key` draws the batches.

    Returns `step`, `train`, `validation`, `test` (a loss, or the fraction of wrong classes),
    `alignment` and what the probes read, over `reading`; NaN once the run has diverged.
    """
    system = ld.System(task.data, model.network, rule)
    begin = ld.start(system, weights=model.weights)
    read = {"alignment": alignment_with(task), **(probes or {})}
    record = ld.simulate(system, steps, start=begin, key=key, method="direct", probes=read)
    one = record.isel(run=0, drop=True)
    wrong = 1 - one["test_accuracy"] if "test_accuracy" in one else one["test_error"]
    histories = {
        "step": np.asarray(steps, float),
        "train": one["error"].values,
        "validation": one["validation_error"].values,
        "test": wrong.values,
        **{name: one[name].values for name in read},
    }
    axes = lambda name, a: ("reading", *(f"{name}_{axis}" for axis in range(1, np.ndim(a))))
    return xr.Dataset(
        {name: (axes(name, a), np.asarray(a, float)) for name, a in histories.items()}
    )


def best(run: xr.Dataset) -> xr.Dataset:
    """What is reported of a `course`: its reading with the smallest validation loss.

    With the probe `above`, `catapults` is the fraction of batches above, times the steps up to
    there. `diverged` says whether the run did.
    """
    train, validation = run["train"].values, run["validation"].values
    ended = np.flatnonzero(train < STOP)
    last = ended[0] if len(ended) else len(train) - 1
    at = int(np.nanargmin(validation[: last + 1]))
    kept = run.isel(reading=at)
    kept["diverged"] = xr.DataArray(bool(np.isnan(train[last])))
    if "above" in run:
        taken = np.diff(run["step"].values[: at + 1])
        kept["catapults"] = xr.DataArray(float(np.sum(run["above"].values[:at] * taken)))
    return kept


def over_batches(
    task: Task,
    model: ld.Model,
    batches: Sequence[int],
    epochs: Any,
    *,
    key: int,
    readings: int,
    share: float = 0.5,
    early: float = 1.0,
) -> xr.Dataset:
    """One network trained with each batch size from the same start, at one rate.

    The rate is a share of η_crit of the training set. Each size has its largest number of epochs,
    and readings besides the first that lie at a power of equal distances in time: above 1, more lie
    early. Returns what `best` does, over `batch`, with the history of the validation loss.
    """
    rate = share * critical(task, model)
    rows: list[xr.Dataset] = []
    for batch, most in zip(batches, epochs, strict=True):
        per_epoch = len(task.data.x) // batch
        at = np.linspace(0, 1, readings + 1) ** early
        steps = np.unique(np.rint(most * per_epoch * at))
        probes = {"above": share_above(task, rate, batch)}
        run = course(task, model, rule_of(task, rate, batch), steps, key=key, probes=probes)
        kept = best(run).assign(rate=rate, epoch=run["step"] / per_epoch)
        rows.append(kept.assign(curve=run["validation"], best_epoch=kept["step"] / per_epoch))
    return xr.concat(rows, xr.Variable("batch", list(batches)))
