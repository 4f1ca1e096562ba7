"""The level-resolved equations against networks that are really trained."""

import numpy as np
import pytest

import learndyn as ld


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def soft(spectrum, eta=1.0):
    data = ld.TeacherStudent(spectrum, ld.Committee(2, "erf", scale=2**-0.5))
    student = ld.Committee(2, "erf", scale=2**-0.5, init=ld.Normal(0.1))
    return ld.System(data, student, ld.SGD(eta))


@pytest.mark.statistical
@pytest.mark.parametrize("levels", [slow(1), slow(4), slow(64)])
def test_equations_against_direct_sgd(levels):
    """N = 1024, η = 1: inside standard errors, where the flow limit is far outside.

    What the limit N → ∞ leaves out of the mean is the difference to order="finite".
    """
    system = soft(ld.PowerLaw(1024, levels, 1.0))
    times = np.array([0.0, 1.0, 3.0, 6.0])
    start = ld.start(system, key=4)
    runs = ld.simulate(system, times, start=start, runs=16, key=5, method="direct")
    orders = ("full", "flow", "finite")
    full, flow, finite = (ld.solve(system, times, start=start, order=o).error for o in orders)
    mean, error = ld.analysis.mean_and_error(runs.error)
    allowed = 4.5 * error + 2 * np.abs(finite - full) + 1e-6
    assert np.all(np.abs(mean - full) < allowed)
    assert float(np.abs(mean - flow)[-1] / error[-1]) > 5


def test_one_level_is_the_isotropic_theory_bit_for_bit():
    one, isotropic = soft(ld.PowerLaw(300, 1, 0.7)), soft(ld.Isotropic(300))
    times = [0, 1.0, 20.0]
    a, b = (ld.solve(system, times, key=3) for system in (one, isotropic))
    for name in ("Q", "R", "error"):
        np.testing.assert_array_equal(a[name], b[name])
