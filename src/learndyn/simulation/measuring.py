"""What a simulation records: the theory's own observables, or the error on examples."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.random import Source, run_words
from learndyn.numerics.types import Array
from learndyn.problems import Dataset
from learndyn.system import System
from learndyn.theory import AbstractTheory, Variable, find_theory
from learndyn.theory.base import DIVERGED, State

TEST_EXAMPLES = 4096
TEST_KEY = 2**31 - 1  # the held-out examples are the same whatever the seed of the runs

Probe = Callable[[Weights, Weights], Any]
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
    """The measurement that suits a system: by its theory, or on held-out examples."""
    theory = find_theory(system)
    if theory is None:
        read, said = _on_examples(system, weights, teacher)
        labels: Mapping[str, Variable] = {"error": Variable((), f"error on {said}", "")}
        attributes = {"error_from": said}
    else:
        labels, read = theory.variables, _by_theory(theory, weights, teacher)
        attributes = {"theory": theory.name}
    read = _with_probes(read, teacher, probes)
    return Measurement(labels, read, weights, shape, attributes)


def measurement_of_states(
    theory: AbstractTheory, state: State, shape: tuple[int, int]
) -> Measurement:
    """The measurement of an engine that has states and no weights."""
    attributes = {"theory": theory.name}
    return Measurement(theory.variables, theory.observe, state, shape, attributes)


def _by_theory(theory: AbstractTheory, weights: Weights, teacher: Weights) -> Read:
    bound = np.sqrt(DIVERGED) * _largest((weights, teacher))

    def read(weights: Weights) -> dict[str, np.ndarray] | None:
        return theory.measure(weights, teacher) if _largest(weights) <= bound else None

    return read


def _largest(weights: Any) -> float:
    # NumPy's maximum, unlike Python's, passes NaN on.
    return float(np.max([np.max(np.abs(leaf)) for leaf in jax.tree.leaves(weights)]))


def _on_examples(system: System, weights: Weights, teacher: Weights) -> tuple[Read, str]:
    """The loss on a whole data set, or on held-out examples; and which of the two."""
    problem = system.problem
    if isinstance(problem, Dataset):
        examples, said = (problem.x, problem.y), f"all {len(problem.x)} examples of the data set"
    else:
        dtype = jax.tree.leaves(weights)[0].dtype
        sample = problem.noiseless().sampler(jax.tree.map(jnp.asarray, teacher), dtype)
        examples = sample(Source(run_words(TEST_KEY, 0), jnp.asarray(0)), (TEST_EXAMPLES,))
        said = f"{TEST_EXAMPLES} held-out examples without label noise"
    examples = jax.tree.map(jnp.asarray, examples)  # moved to the device once

    def read(weights: Weights) -> dict[str, np.ndarray] | None:
        error = np.asarray(_loss(system, weights, *examples))
        return {"error": error} if np.isfinite(error) else None

    return read, said


@eqx.filter_jit
def _loss(system: System, weights: Weights, x: Array, y: Array) -> Array:
    return system.problem.loss(system.network, weights, x, y)


def _with_probes(read: Read, teacher: Weights, probes: Mapping[str, Probe]) -> Read:
    def both(weights: Weights) -> dict[str, np.ndarray] | None:
        values = read(weights)
        if values is None:
            return None
        return values | {
            name: np.asarray(probe(weights, teacher)) for name, probe in probes.items()
        }

    return both
