"""Suggested times end a little after the error has settled."""

import numpy as np
import pytest

import learndyn as ld


def committee(activation="linear", units=1, rate=0.5, std=0.01):
    teacher = ld.Committee(units, activation, scale=units**-0.5, init=ld.Orthonormal(1.0))
    student = ld.Committee(units, activation, scale=units**-0.5, init=ld.Normal(std))
    return ld.System(ld.TeacherStudent(ld.Isotropic(200), teacher), student, ld.SGD(rate))


@pytest.mark.parametrize("rate", [0.5, 0.005])
def test_an_exponential_approach(rate):
    """error ∝ exp(−(2η − η²) t), so that 1 % is left at ln(100)/(2η − η²)."""
    times = ld.suggest_times(committee(rate=rate), 33)
    assert len(times) == 33 and times[0] == 0
    left = np.log(100) / (2 * rate - rate**2)
    assert left < times[-1] < 1.5 * left


def test_a_plateau_is_waited_for():
    system = committee("erf", units=3, rate=1.5)
    error = ld.solve(system, ld.suggest_times(system, 65)).error
    plateau = ld.theory_of(system).landmarks()["plateau_error"]
    assert error[-1] < 0.1 * plateau < error[20]


def test_divergence_is_shown():
    system = committee(rate=3.0)
    times = ld.suggest_times(system)
    assert str(ld.solve(system, times).outcome.values) == "diverged"


def test_a_map_has_steps():
    problem = ld.TeacherStudent(ld.Isotropic(2), ld.LinearTeacher(2, np.diag([3.0, 1.0])))
    network = ld.DeepLinear([2, 2, 2], init=ld.Aligned(np.full((2, 2), 0.01)))
    system = ld.System(problem, network, ld.GradientDescent(0.05))
    times = ld.suggest_times(system, 9)
    assert np.array_equal(times, np.rint(times)) and times[-1] > 50
