"""Predicted standard deviations against those of many runs."""

import numpy as np
import pytest

import learndyn as ld

RHO = np.array([[0.5, 0.1], [-0.2, 0.4]])


def system(activation, eta, N, levels=1, batch=1):
    spectrum = ld.Isotropic(N) if levels == 1 else ld.Spectrum([1.6, 0.4], [N // 2, N // 2])
    data = ld.TeacherStudent(spectrum, ld.Committee(2, activation, scale=0.5), label_noise=0.2)
    return ld.System(data, ld.Committee(2, activation, scale=0.5), ld.SGD(eta, batch=batch))


def both_roads(given, runs, method, key=0, times=(0.5, 2.0)):
    L = given.problem.inputs.spectrum.levels
    state = ld.Overlaps(*(np.stack([A] * L) for A in (np.eye(2), RHO, np.eye(2))))
    begin = ld.start(given, state=state)
    theory = ld.solve(given, times, start=begin, fluctuations=True)
    return theory, ld.simulate(given, times, start=begin, runs=runs, key=key, method=method)


def largest_z(theory, runs, factor=1.0):
    """The largest gap between a variance of the runs and `factor` times the predicted one.

    In errors of the sample variance, from the fourth moment of the runs themselves. The linear
    noise is right up to a relative 1/N, which at these sizes is a tenth of that error.
    """
    worst = 0.0
    for name in ("Q", "R", "error"):
        centred = runs[name] - runs[name].mean("run")
        variance, fourth = (centred**2).mean("run"), (centred**4).mean("run")
        error = np.sqrt((fourth - variance**2) / runs.sizes["run"])
        gap = np.abs(variance - factor * theory[f"{name}_std"] ** 2)
        worst = max(worst, float((gap / error).max()))
    return worst


CASES = [("linear", 0.5, 1, 1), ("quadratic", 0.15, 2, 2), ("erf", 2.0, 2, 3)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("activation", "eta", "levels", "batch"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_standard_deviation_of_the_reduced_chain(activation, eta, levels, batch):
    # 4000 runs give a variance to 2.2 %; 18 entries, partly the same, at 4 errors.
    pair = both_roads(system(activation, eta, 300, levels, batch), 4000, "reduced")
    assert largest_z(*pair) < 4
    assert largest_z(*pair, factor=1.12) > 4  # a wrong variance would be seen


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("activation", "eta"), [("linear", 0.5), ("quadratic", 0.1), ("erf", 1.5)])
def test_standard_deviation_of_networks(activation, eta):
    assert largest_z(*both_roads(system(activation, eta, 200), 800, "direct")) < 4


@pytest.mark.slow
@pytest.mark.statistical
def test_one_run_is_judged_by_the_predicted_band():
    """A right and a wrong theory, each against one run of a network."""
    given, times = system("erf", 1.5, 1000), (0.5, 2.0)
    begin = ld.start(given, state=ld.Overlaps(np.eye(2), RHO, np.eye(2)))
    run = ld.simulate(given, times, start=begin, runs=1, key=4, method="direct")
    theory = ld.solve(given, times, start=begin, fluctuations=True)
    assert ld.compare(theory, run).verdict == "agrees"
    wrong = ld.solve(system("erf", 2.0, 1000), times, start=begin, fluctuations=True)
    assert ld.compare(wrong, run, same_system=False).verdict == "deviates"
