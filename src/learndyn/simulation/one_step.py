"""Single steps: `update`, and the drift measured by averaging over many of them."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.random import Source, key_of_run
from learndyn.runtime.checks import instance, positive_int, seed
from learndyn.runtime.precision import full_precision, to_numpy
from learndyn.runtime.types import Array, Weights
from learndyn.simulation.direct import bound
from learndyn.simulation.memory import require_memory_for_step
from learndyn.starting import Start, given_weights
from learndyn.system import System
from learndyn.theory import clock_of, theory_of

BATCH = 256  # steps computed at once


def update(
    system: System, weights: Weights, *, teacher: Weights | None = None, key: int = 0
) -> Weights:
    """One step of the rule with fresh memory, in the precision of the weights.

    Args:
        system: the system.
        weights: the weights before the step.
        teacher: the teacher's weights; None if the problem fixes them.
        key: seed of the step's random numbers.

    Returns:
        The weights after the step, as NumPy.

    Raises:
        ValueError: if the teacher is missing, or the weights do not fit the network.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> data = ld.Dataset([[1.0, 2.0]], [[1.0]])
        >>> system = ld.System(data, ld.DeepLinear([2, 1]), ld.GradientDescent(0.1))
        >>> ld.update(system, (np.zeros((1, 2)),))[0].round(6).tolist()
        [[0.1, 0.2]]
    """
    instance("system", system, System, "a System")
    key = seed("key", key)
    require_memory_for_step(system)
    weights, teacher = given_weights(system, weights, teacher)
    dtype = jax.tree.leaves(weights)[0].dtype
    with full_precision():
        # The weights set the precision, and JAX would promote a step with a float64 teacher.
        teacher = jax.tree.map(lambda t: jnp.asarray(t, dtype), teacher)
        weights = jax.tree.map(jnp.asarray, weights)
        return to_numpy(_step(system, weights, teacher, key_of_run(key, 0)))


# Compiled as a whole: otherwise JAX compiles every operation by itself, which takes far longer.
@eqx.filter_jit
def _step(system: System, weights: Weights, teacher: Weights, run_key: Array) -> Weights:
    rule = bound(system, weights, teacher)
    return rule.step(weights, rule.init(weights), Source(run_key, jnp.asarray(0)))[0]


class MeasuredDrift(NamedTuple):
    """Mean change of the state in one step, per unit of time, and its standard error."""

    mean: Any
    error: Any


def measure_drift(system: System, start: Start, *, trials: int, key: int = 0) -> MeasuredDrift:
    """Averages the change of the state over independent single steps of the real network.

    It estimates the exact mean of one step at size N, whose limit is `drift`.

    Args:
        system: the system; a theory must cover it, which defines the state.
        start: where every step begins.
        trials: number of steps.
        key: seed.

    Returns:
        Mean and standard error, each as a state.
    """
    trials = positive_int("trials", trials)
    theory = theory_of(system)
    per_time = clock_of(system, theory).steps
    first = theory.project(start.weights, start.teacher)

    @eqx.filter_jit
    def changes(weights: Weights, teacher: Weights, run_key: Array) -> Any:
        rule = bound(system, weights, teacher)
        memory = rule.init(weights)

        def change(index: Array) -> Any:
            state = theory.project(rule.step(weights, memory, Source(run_key, index))[0], teacher)
            return jax.tree.map(lambda new, old: (new - old) * per_time, state, first)

        return jax.lax.map(change, jnp.arange(trials), batch_size=BATCH)

    with full_precision():
        weights, teacher = jax.tree.map(jnp.asarray, (start.weights, start.teacher))
        drawn = to_numpy(changes(weights, teacher, key_of_run(key, 0)))
    mean = jax.tree.map(lambda x: x.mean(axis=0), drawn)
    error = jax.tree.map(lambda x: x.std(axis=0, ddof=1) / np.sqrt(trials), drawn)
    return MeasuredDrift(mean, error)
