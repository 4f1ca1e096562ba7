"""The rate of least error: closed form, the paper's own linear equations, and a scan."""

import numpy as np
import pytest
from scipy import linalg

from learndyn.problems import PowerLaw
from learndyn.theory.committee.late_stage import best_rate, erf_symmetric, power_law


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.5])
def test_one_unit_is_the_closed_form(beta):
    assert best_rate.asymptotic(beta, 1) == pytest.approx(beta / (1 + 2 * beta), rel=1e-6)


@pytest.mark.parametrize("M", [2, 3, 4])
def test_the_error_is_that_of_the_papers_equations(M):
    """Eqs. 118 to 120 (corrected) for r, s, q, c, as one matrix exponential."""
    L, beta, eta, alphas = 6, 0.8, 0.4 * best_rate.critical_rate(M), np.array([0.0, 0.3, 2.0])
    lam, phi = PowerLaw(L, L, beta).values, np.full(L, 1 / L)
    A = erf_symmetric.rate_unit(M, eta) * erf_symmetric.late_matrix(lam, phi, M, eta)
    nothing = np.zeros(L)
    start = np.concatenate([-phi, nothing, -phi, nothing])
    parts = [np.split(linalg.expm(alpha * A) @ start, 4) for alpha in alphas]
    expected = [erf_symmetric.linear_error(*(lam @ part for part in p), M) for p in parts]
    found = best_rate.error(alphas, L=L, beta=beta, M=M, eta=eta)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_without_noise_it_is_the_flow():
    given = {"L": 20, "beta": 1.0, "M": 2, "eta": 1e-7}
    alphas = np.array([0.0, 1e6, 1e8])
    np.testing.assert_allclose(
        best_rate.error(alphas, **given), power_law.error(alphas, **given), rtol=1e-6
    )


def test_it_is_stable_up_to_the_critical_rate():
    at = lambda eta: best_rate.error([1e3, 1e4], L=10, beta=1.0, M=3, eta=eta)
    eta_c = best_rate.critical_rate(3)
    assert np.diff(at(0.999 * eta_c)) < 0 < np.diff(at(1.001 * eta_c))


@pytest.mark.parametrize("M", [1, 2, 4])
def test_a_scan_finds_it_and_tells_one_unit_from_more(M):
    L, beta = 60, 3.0
    best = best_rate.asymptotic(beta, M)
    first, last = power_law.window(L=L, beta=beta, M=M, eta=best * best_rate.critical_rate(M))
    alpha = np.sqrt(first * last)
    rates = best * np.linspace(0.95, 1.05, 11)
    size = {"L": L, "beta": beta, "M": M}
    etas = rates * best_rate.critical_rate(M)
    lowest = rates[np.argmin([best_rate.error([alpha], **size, eta=eta)[0] for eta in etas])]
    omitted = best_rate.omitted(alpha, **size)
    assert omitted < 0.02
    assert lowest == pytest.approx(best, rel=omitted + 0.005)
    assert (abs(lowest / best_rate.asymptotic(beta, 1) - 1) > omitted) == (M > 1)
