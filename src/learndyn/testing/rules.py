"""What every rule must do. Each check takes a small system that the rule trains."""

from typing import Any

import jax
import numpy as np

from learndyn.networks import DeepLinear, LinearTeacher, Xavier
from learndyn.problems import AbstractProblem, Dataset, Isotropic, TeacherStudent
from learndyn.rules import AbstractDeterministicRule, AbstractRule
from learndyn.simulation import simulate, update
from learndyn.starting import start
from learndyn.system import System

MATRIX = np.array([[1.2, 0.3, -0.4], [0.1, 0.9, 0.5]])
LONG = 400  # units of time


def standard_system(rule: AbstractRule, problem: AbstractProblem | None = None) -> System:
    """Two linear layers that learn a 2 × 3 matrix, by a rule.

    Args:
        rule: the rule.
        problem: None is that of isotropic Gaussian inputs.

    Returns:
        The system.

    Raises:
        ValueError: for a rule that cannot train these layers.

    Example:
        >>> import learndyn as ld
        >>> system = ld.testing.standard_system(ld.SGD(0.01))
        >>> system.network
        DeepLinear(widths=(3, 4, 2), init=Xavier(scale=1.0))
    """
    problem = problem or TeacherStudent(Isotropic(3), LinearTeacher(2, MATRIX))
    return System(problem, DeepLinear([3, 4, 2], init=Xavier()), rule)


def a_step_keeps_shape_and_precision(system: System) -> None:
    """And changes all weights."""
    begin = start(system, key=1)
    for dtype in (np.float32, np.float64):
        weights = jax.tree.map(lambda w, d=dtype: w.astype(d), begin.weights)
        after = update(system, weights, teacher=begin.teacher, key=2)
        pairs = zip(jax.tree.leaves(after), jax.tree.leaves(weights), strict=True)
        for a, b in pairs:
            assert a.shape == b.shape, f"a step made {b.shape} into {a.shape}"
            assert a.dtype == dtype, f"a step made {dtype} into {a.dtype}"
            assert np.any(a != b), "a step left weights as they were"


def small_steps_lower_the_loss(system: System) -> None:
    """Over 400 units of time."""
    record = simulate(system, [0, LONG], key=3, runs=2, dtype="float64")
    loss = record["error" if "error" in record else "loss"]
    assert np.all(loss[:, 1] < loss[:, 0]), f"the loss went from {loss[:, 0]} to {loss[:, 1]}"
    assert list(record.outcome.values) == ["finished"] * 2


def the_population_is_a_whitened_data_set(system: System) -> None:
    """A step on inputs with exactly unit correlations, which are their own population.

    For rules without sampling, on `standard_system`.
    """
    rule = system.rule
    if not isinstance(rule, AbstractDeterministicRule):
        return
    x, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 3)))
    x = x * np.sqrt(8)
    both = [standard_system(rule), standard_system(rule, Dataset(x, x @ MATRIX.T))]
    begin = start(both[0], key=4)
    teachers = [begin.teacher, ()]
    a, b = (update(s, begin.weights, teacher=t) for s, t in zip(both, teachers, strict=True))
    for u, v in zip(a, b, strict=True):
        np.testing.assert_allclose(u, v, atol=1e-10)


def compiles_once_under_changed_learning_rates(system: System) -> None:
    """So that a sweep over rates compiles once: numbers are traced, not baked in."""
    from learndyn.simulation.direct import _record

    simulate(system, [1])
    engine: Any = _record
    before = engine._cached._cache_size()
    other = jax.tree.map(lambda leaf: leaf * 0.9, system.rule)
    simulate(System(system.problem, system.network, other), [1])
    assert engine._cached._cache_size() == before, "another rate was compiled anew"


CHECKS = (
    a_step_keeps_shape_and_precision,
    small_steps_lower_the_loss,
    the_population_is_a_whitened_data_set,
    compiles_once_under_changed_learning_rates,
)
