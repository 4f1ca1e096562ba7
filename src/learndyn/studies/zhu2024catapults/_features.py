"""Training that shows which features are learned: how Section 4.4 trains, stops and counts.

The loss is the mean of r² (of outputs too). Networks have no biases: with those that App. C.6
prints η_crit would be a ninth of what the thesis' rates need. A run is read at equal distances in
time: losses, the alignment of the AGOP on the training inputs with the reference G* (Eqs.
4.5-4.6), and the share of batches, of one pass over the training set, whose critical rate η
exceeds. It ends where the training loss is below 10⁻³ (App. C.6), or with its epochs. What is
reported of it is of the reading with the least validation loss till then, up to which the thesis
counts catapults.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.rules.base import AbstractRule

STOP = 1e-3  # training loss at which a run ends
MARGIN = 1e-8  # ε of η − η_crit(batch) > ε
WEIGHTS = 1  # stream of the weights


@dataclasses.dataclass(frozen=True)
class Task:
    """Examples to learn, and the features that they ask for.

    Attributes:
        name: what they are, for figures.
        data: training, validation and test examples.
        reference: G*, (inputs, inputs), or its factor F with G* = FᵀF.
        accuracy: on held-out examples, of the network whose AGOP the reference is; NaN where the
            target is known.
    """

    name: str
    data: ld.Dataset
    reference: np.ndarray
    accuracy: float = np.nan

    @property
    def outputs(self) -> int:
        """Outputs of a network for it: one for numbers and two classes."""
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
    """Shuffled passes in batches, or descent where the batch is the training set."""
    if batch == len(task.data.x):
        return ld.GradientDescent(rate)
    return ld.SGD(rate, batch=batch, sampling="epochs")


def alignment_with(task: Task) -> Callable[[ld.Model], Any]:
    """A probe: the alignment of the AGOP on the training inputs with the reference."""
    x, reference = (np.asarray(a, np.float32) for a in (task.data.x, task.reference))

    def alignment(model: ld.Model) -> Any:
        found = ld.probes.agop(model, jnp.asarray(x))
        return ld.probes.alignment(found, jnp.asarray(reference))

    return alignment


def share_above(task: Task, rate: float, batch: int) -> Callable[[ld.Model], Any]:
    """A probe: the share of batches, of one pass, whose critical rate η exceeds by ε."""
    x, number = np.asarray(task.data.x, np.float32), len(task.data.x) // batch
    batches = x[: number * batch].reshape(number, batch, *x.shape[1:])
    # An array, which is no part of the program: it is compiled once for all rates.
    least = np.asarray([rate - MARGIN], np.float32)

    def above(model: ld.Model) -> Any:
        of = lambda x: ld.probes.critical_learning_rate(model, x, loss=task.data.loss).value
        found = jax.lax.map(of, jnp.asarray(batches))
        return jnp.mean(jnp.asarray(least) > found)

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
    """What is read of one run: losses and alignment over the readings.

    Args:
        task: what is learned.
        model: where it begins.
        rule: how.
        steps: at which it is read.
        key: of the batches.
        probes: more of them.

    Returns:
        `step`, `train`, `validation`, `test` (a loss, or the share of wrong classes), `alignment`
        and what the probes read, over `reading`; blank from where the run diverges.
    """
    system = ld.System(task.data, model.network, rule)
    begin = ld.start(system, weights=model.weights)
    read = {"alignment": alignment_with(task), **(probes or {})}
    record = ld.simulate(system, steps, start=begin, key=key, method="direct", probes=read)
    one = record.isel(run=0, drop=True)
    wrong = 1 - one["test_accuracy"] if "test_accuracy" in one else one["test_error"]
    found = {
        "step": np.asarray(steps, float),
        "train": one["error"].values,
        "validation": one["validation_error"].values,
        "test": wrong.values,
        **{name: one[name].values for name in read},
    }
    return xr.Dataset(
        {name: (("reading", *_axes(name, a)), np.asarray(a, float)) for name, a in found.items()}
    )


def _axes(name: str, values: np.ndarray) -> list[str]:
    return [f"{name}_{axis}" for axis in range(1, np.ndim(values))]


def best(found: xr.Dataset) -> xr.Dataset:
    """What is reported of a run: that of the reading with the least validation loss.

    Args:
        found: of `course`; `above` where batches were looked at.

    Returns:
        Without the dimension `reading`; `catapults` is the share of batches above, times the steps,
        up to there; `diverged` says whether the run did.
    """
    train, validation = found["train"].values, found["validation"].values
    ended = np.flatnonzero(train < STOP)
    last = ended[0] if len(ended) else len(train) - 1
    at = int(np.nanargmin(validation[: last + 1]))
    kept = found.isel(reading=at)
    kept["diverged"] = xr.DataArray(bool(np.isnan(train[last])))
    if "above" in found:
        taken = np.diff(found["step"].values[: at + 1])
        kept["catapults"] = xr.DataArray(float(np.sum(found["above"].values[:at] * taken)))
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

    Args:
        task: what is learned.
        model: where it begins.
        batches: sizes; that of the training set is descent.
        epochs: that a run of each has at most.
        key: of the batches.
        readings: of a run, beside the first.
        share: the rate over η_crit of the training set.
        early: readings lie at this power of equal distances in time; above 1, more lie early.

    Returns:
        What `best` gives over `batch`, with the rate, and the course of the validation loss.
    """
    rate = share * critical(task, model)
    rows: list[xr.Dataset] = []
    for batch, most in zip(batches, epochs, strict=True):
        per_epoch = len(task.data.x) // batch
        at = np.linspace(0, 1, readings + 1) ** early
        steps = np.unique(np.rint(most * per_epoch * at))
        probes = {"above": share_above(task, rate, batch)}
        found = course(task, model, rule_of(task, rate, batch), steps, key=key, probes=probes)
        kept = best(found).assign(rate=rate, epoch=found["step"] / per_epoch)
        rows.append(kept.assign(curve=found["validation"], best_epoch=kept["step"] / per_epoch))
    return xr.concat(rows, xr.Variable("batch", list(batches)))
