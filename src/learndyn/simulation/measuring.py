"""What a simulation records: the theory's own observables, and the error on examples."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Model
from learndyn.networks.base import Weights
from learndyn.numerics.types import Array
from learndyn.problems import Examples
from learndyn.problems.losses import is_labels, is_right
from learndyn.system import System
from learndyn.theory import AbstractTheory, Variable, find_theory
from learndyn.theory.base import DIVERGED
from learndyn.theory.dynamics import State

BLOCK = 2**22  # numbers in the inputs that are evaluated at once
LARGEST = np.finfo(np.float64).max

Probe = Callable[[Model], Any]
Read = Callable[[Weights], dict[str, np.ndarray] | None]


class Measurement:
    """Reads weights, or a state, at the asked times and keeps what it read.

    Args:
        labels: name → label of each variable.
        read: weights (or a state) → values, or None where the run has diverged.
        first: the weights (or the state) at the start, from which the shapes are read.
        shape: (runs, times).
        attributes: what the record should say of the measurement.
    """

    def __init__(
        self,
        labels: Mapping[str, Variable],
        read: Read,
        first: Weights,
        shape: tuple[int, int],
        attributes: Mapping[str, Any],
    ):
        self.attributes = dict(attributes)
        self.diverged: list[int | None] = [None] * shape[0]
        self._labels, self._read = dict(labels), read
        blank = lambda value: np.full((*shape, *np.shape(value)), np.nan)
        self._values = {name: blank(value) for name, value in (read(first) or {}).items()}

    def visit(self, run: int, index: int, weights: Weights) -> bool:
        """Records one run at one time; False where it has diverged."""
        values = self._read(weights)
        if values is None:
            self.diverged[run] = index
            return False
        for name, value in values.items():
            self._values[name][run, index] = value
        return True

    def visit_many(
        self, runs: slice, index: int, values: Mapping[str, np.ndarray], gone: np.ndarray
    ) -> bool:
        """Records observables of many runs, runs first; False where all have diverged."""
        lost = gone | np.array([at is not None for at in self.diverged[runs]])
        for place in np.flatnonzero(lost):
            run = runs.start + int(place)
            self.diverged[run] = index if self.diverged[run] is None else self.diverged[run]
        for name, value in values.items():
            self._values[name][runs, index][~lost] = value[~lost]
        return not np.all(lost)

    def variables(self) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
        """The variables of the record, (run, time, …)."""
        found = {}
        for name, values in self._values.items():
            dims = tuple(f"{name}_{i}" for i in range(values.ndim - 2))
            label = self._labels.get(name, Variable(dims, name, ""))
            text = {"long_name": label.long_name, "units": label.unit}
            found[name] = (("run", "time", *label.dims), values, text)
        return found


def measurement_of(
    system: System,
    weights: Weights,
    teacher: Weights,
    probes: Mapping[str, Probe],
    shape: tuple[int, int],
) -> Measurement:
    """The measurement that suits a system: by its theory, and on the problem's examples."""
    theory = find_theory(system)
    dtype = jax.tree.leaves(weights)[0].dtype
    # A theory measures without examples: fresh ones are not drawn beside it.
    drawn = theory is None or system.problem.examples() is not None
    sets = system.problem.measured_on(teacher, dtype) if drawn else {}
    on_examples = OnExamples(system, sets, dtype, error=theory is None)
    reads = [_while_small((weights, teacher), theory is not None), on_examples]
    labels = on_examples.labels
    attributes = {f"{p}error_from": e.name for p, e in sets.items() if f"{p}error" in labels}
    if theory is not None:
        reads.append(_by_theory(theory, teacher))
        labels, attributes = {**theory.variables, **labels}, {"theory": theory.name, **attributes}
    taken = [name for name in probes if name in labels]
    if taken:
        raise ValueError(
            f"probes: got {taken[0]!r}, which the record has already; allowed is another name"
        )
    reads.append(_by_probes(system, probes))
    return Measurement(labels, _all_of(reads), weights, shape, attributes)


def measurement_of_states(
    theory: AbstractTheory, state: State, shape: tuple[int, int]
) -> Measurement:
    """The measurement of an engine that has states and no weights."""
    attributes = {"theory": theory.name}
    return Measurement(theory.variables, theory.observe, state, shape, attributes)


def _all_of(reads: Sequence[Read]) -> Read:
    """What all of them read, or None where one finds that the run has diverged."""

    def read(weights: Weights) -> dict[str, np.ndarray] | None:
        found: dict[str, np.ndarray] = {}
        for each in reads:
            values = each(weights)
            if values is None:
                return None
            found |= values
        return found

    return read


def _while_small(first: Any, bounded: bool) -> Read:
    bound = np.sqrt(DIVERGED) * _largest(first) if bounded else np.inf
    # NaN is not below any bound, nor is infinity below itself.
    return lambda weights: {} if _largest(weights) <= min(bound, LARGEST) else None


def _by_theory(theory: AbstractTheory, teacher: Weights) -> Read:
    return lambda weights: theory.measure(weights, teacher)


def _by_probes(system: System, probes: Mapping[str, Probe]) -> Read:
    at = lambda weights: Model(system.network, weights)
    return lambda weights: {n: np.asarray(probe(at(weights))) for n, probe in probes.items()}


def _largest(weights: Any) -> float:
    # NumPy's maximum, unlike Python's, passes NaN on.
    return float(np.max([np.max(np.abs(leaf)) for leaf in jax.tree.leaves(weights)]))


class OnExamples:
    """Reads the loss on sets of examples, and with labels the accuracy.

    The sets are cut into blocks of one size, so that all of them are one compiled program, and
    activations of a large set need not fit into memory at once.

    Args:
        system: what learns.
        sets: prefix of the observables' names ("", "test_", …) → the set.
        dtype: precision of the weights.
        error: whether the loss is wanted for the set without a prefix, which a theory may say.
    """

    def __init__(self, system: System, sets: Mapping[str, Examples], dtype, error: bool):
        self._system, self._dtype = system, dtype
        largest = max((len(e.x) for e in sets.values()), default=1)
        block = min(largest, max(1, BLOCK // math.prod(system.problem.input_shape)))
        self.labels: dict[str, Variable] = {}
        self._blocks = {}
        for prefix, examples in sets.items():
            named = _labels(prefix, examples, error or prefix != "")
            self.labels |= named
            if named:
                self._blocks[prefix] = list(_blocks(examples, block))

    def __call__(self, weights: Weights) -> dict[str, np.ndarray] | None:
        found = {}
        for prefix, blocks in self._blocks.items():
            parts = [_sums(self._system, weights, each, self._dtype) for each in blocks]
            error, right = np.sum(np.asarray(parts, np.float64), axis=0)
            found |= {f"{prefix}error": error, f"{prefix}accuracy": right}
        finite = all(np.isfinite(found[name]) for name in self.labels)
        return {name: np.asarray(found[name]) for name in self.labels} if finite else None


def _labels(prefix: str, examples: Examples, error: bool) -> dict[str, Variable]:
    said = {"error": f"error on {examples.name}"} if error else {}
    if is_labels(examples.y):
        said["accuracy"] = f"share of labels found on {examples.name}"
    return {prefix + name: Variable((), text, "") for name, text in said.items()}


def _blocks(examples: Examples, size: int) -> Iterator[tuple[Array, Array, np.ndarray]]:
    """Inputs, targets and the weight of each example in the mean; a short block is filled up."""
    x, y, count = np.asarray(examples.x), np.asarray(examples.y), len(examples.x)
    for first in range(0, count, size):
        index = np.minimum(np.arange(first, first + size), count - 1)
        weight = (np.arange(first, first + size) < count) / count
        yield jnp.asarray(x[index]), jnp.asarray(y[index]), weight


@eqx.filter_jit
def _sums(
    system: System, weights: Weights, block: tuple[Array, Array, Array], dtype
) -> tuple[Array, Array]:
    """The loss and the number of labels found, summed with the examples' weights."""
    weight = block[2]
    x, y = Examples(block[0], block[1], "").take(slice(None), dtype)
    output = system.network(weights, x)
    losses = system.problem.loss.each(output, y, output.ndim - 1)
    right = is_right(output, y) if is_labels(y) else jnp.zeros(len(y))
    return jnp.sum(weight * losses), jnp.sum(weight * right)
