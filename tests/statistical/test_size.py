"""How far a run of size N is from the theory."""

import numpy as np
import pytest

import learndyn as ld


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("activation", "eta"), [("erf", 0.5), slow("quadratic", 0.1), slow("linear", 0.5)]
)
def test_deviation_of_a_run_shrinks_as_one_over_root_N(activation, eta):
    """From a start that does not depend on N; the slope over five sizes, in standard errors.

    The learning rates are well below critical (0.5 for these squares), where tails are light.
    """
    sizes, runs = np.array([50, 100, 200, 400, 800]), 48
    rho = np.array([[0.5, 0.1], [-0.2, 0.4]])
    state = ld.Overlaps(np.eye(2), rho, np.eye(2))
    times, deviations = [5.0], []
    for N in sizes:
        teacher = ld.Committee(2, activation, scale=0.5)
        data = ld.TeacherStudent(ld.Isotropic(int(N)), teacher)
        system = ld.System(data, ld.Committee(2, activation, scale=0.5), ld.SGD(eta))
        begin = ld.start(system, state=state, key=int(N))
        theory = ld.solve(system, times, start=begin)
        run = ld.simulate(system, times, start=begin, runs=runs, key=int(N))
        deviations.append(np.sqrt(float(((run.R - theory.R) ** 2).mean())))
    # The logarithm of a root mean square over `runs` values has the error 1/√(2 runs): an upper
    # bound here, since four entries are averaged too.
    x = np.log(sizes)
    error = 1 / np.sqrt(2 * runs) / np.sqrt(np.sum((x - x.mean()) ** 2))
    slope = ld.analysis.fit_power_law(sizes, deviations).slope
    assert abs(slope + 0.5) < 3.5 * error
