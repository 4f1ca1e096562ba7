"""The late stage on a power-law spectrum: the general law, its exponent, its window."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.late_stage import power_law
from learndyn.theory.committee.power_law import learning_curve


@pytest.mark.parametrize("M", [2, 5])
def test_unlearned_levels_are_a_case_of_the_general_law(M):
    L, beta, eta = 50, 0.8, 0.1
    alphas, lam = np.geomspace(1, 1e5, 9), ld.PowerLaw(L, L, beta).values
    unlearned = np.tile(np.eye(M) / L, (L, 1, 1))
    general = erf_late.late_curve(alphas, unlearned, np.eye(M), lam, eta)
    found = power_law.error(alphas, L=L, beta=beta, M=M, eta=eta)
    np.testing.assert_allclose(found, general, rtol=1e-11)
    rates = erf_late.late_modes(unlearned, np.eye(M), lam)[0]
    ends = [rates[0].min() * eta / 2 / lam[0], rates[0].max() * eta / 2 / lam[0]]
    np.testing.assert_allclose(power_law.group_rates(M, eta), ends, rtol=1e-12)


@pytest.mark.parametrize("beta", [0.75, 1.5])
def test_exponent_inside_the_window(beta):
    """It is off by less than the fast group's finite-L correction, and by less for larger L."""
    misses = []
    for L in (10**4, 10**6):
        given = {"L": L, "beta": beta, "M": 2, "eta": 0.01}
        middle = np.sqrt(np.prod(power_law.window(**given)))
        near = middle * np.array([1 / 1.1, 1.1])
        slope = -np.diff(np.log(power_law.error(near, **given))) / np.diff(np.log(near))
        s = learning_curve.exponent(beta)
        allowed = float(power_law.local_exponent(middle, **given)) - s
        misses.append(abs(slope[0] - s))
        assert misses[-1] < allowed
    # The correction goes as (α/α_max)^s, and so as L^(-β/2) in the middle.
    assert misses[0] / misses[1] == pytest.approx(10**beta, rel=0.2)
