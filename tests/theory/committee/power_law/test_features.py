"""Feature scaling in the eigenbasis: references, integrals, exact second moments."""

import itertools

import numpy as np
import pytest

from learndyn.problems.empirical import principal
from learndyn.theory.committee import errata
from learndyn.theory.committee.power_law import features, given_frame, learning_curve

L, BETA, ETA, SIGMA = 256, 1.0, 0.05, 0.01
ALPHAS = np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])
UNITS = {"lam_plus": learning_curve.lam_plus(L, BETA), "L": L, "beta": BETA, "sigma_J": SIGMA}
LAM = UNITS["lam_plus"] * np.arange(1, L + 1.0) ** -(1 + BETA)
REFERENCE = {
    50: (
        [0.06720692949905156, 0.020553990227451323, 0.006682971302974478, 0.004846822705776099,
         0.0048458103358190755],
        [0.06719453064783429, 0.020555306456463477, 0.006708615048063421, 0.004904914921688246,
         0.004904025537438925],
        [0.07208599820111784, 0.025335852725476893, 0.010560323184274809, 0.0059639114584749044,
         0.004923933102822107],
    ),
    150: (
        [0.06719511584668073, 0.020437843949075808, 0.005694778400413786, 0.0013567735557234604,
         0.0008368497620516635],
        [0.06718234761414549, 0.020435568526532347, 0.005692908226513333, 0.001357825393659725,
         0.000841277724050694],
        [0.06802311620246294, 0.02127297072682199, 0.006497441185619906, 0.0019010294598200022,
         0.0008610511041672042],
    ),
}  # fmt: skip


@pytest.mark.parametrize("n", [50, 150])
def test_reference_values(n):
    exact, corrected, printed = REFERENCE[n]
    close = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-11)
    close(features.error(ALPHAS, LAM, n, eta=ETA, sigma_J=SIGMA), exact)
    close(features.error_integral(ALPHAS, n, eta=ETA, **UNITS), corrected)
    close(errata.printed_eq79(ALPHAS, n, eta=ETA, **UNITS), printed)


def test_every_direction_trained_is_equation_8():
    given = {**UNITS, "eta": ETA}
    everything = features.error(ALPHAS, LAM, L, eta=ETA, sigma_J=SIGMA)
    np.testing.assert_allclose(everything, learning_curve.error_sum(ALPHAS, **given), rtol=1e-12)
    whole = features.error_integral(ALPHAS, L, **given)
    np.testing.assert_allclose(whole, learning_curve.error_integral(ALPHAS, **given), rtol=1e-12)
    np.testing.assert_allclose(errata.printed_eq79(ALPHAS, L, **given), whole)
    assert features.asymptote(LAM, L, sigma_J=SIGMA) == 0.0
    assert features.asymptote_integral(L, **UNITS) == 0.0


@pytest.mark.parametrize("beta", [0.3, 0.75, 1.0, 1.5])
@pytest.mark.parametrize("n", [5, 40, 200])
def test_midpoint_rule_is_more_accurate(n, beta):
    lam_plus = learning_curve.lam_plus(L, beta)
    given = {"lam_plus": lam_plus, "L": L, "beta": beta, "sigma_J": SIGMA}
    lam = lam_plus * np.arange(1, L + 1.0) ** -(1 + beta)
    exact = features.asymptote(lam, n, sigma_J=SIGMA)
    plain, shifted = (features.asymptote_integral(n, shift=h, **given) for h in (0.0, 0.5))
    # Of f = scale k^-(1+β): half the end terms, and the midpoint rule's |f'|/24.
    f = (1 + SIGMA**2) * lam_plus / (2 * L) * float(n) ** -(1 + beta)
    last = f * (n / L) ** (1 + beta)
    assert plain - exact == pytest.approx((f - last) / 2, rel=(1 + beta) / n)
    assert abs(shifted - exact) < (1 + beta) / n * f / 24
    late = 1e9 / (2 * ETA * lam_plus)
    at_end = features.error_integral(late, n, eta=ETA, shift=0.5, **given)
    assert at_end == pytest.approx(exact, rel=(1 + beta) / n)


def test_asymptote_falls_with_the_exponent_of_the_spectrum():
    size, beta = 10**6, 0.75
    given = {
        "lam_plus": learning_curve.lam_plus(size, beta),
        "L": size,
        "beta": beta,
        "sigma_J": SIGMA,
    }
    few, more = (features.asymptote_integral(n, **given) for n in (100, 101))
    slope = np.log(more / few) / np.log(101 / 100)
    middle = -beta / (1 - (100.5 / size) ** beta)  # the secant's slope, to (ln 1.01)²
    assert slope == pytest.approx(middle, rel=1e-4)
    local = features.local_exponent(100, L=size, beta=beta)
    assert local == pytest.approx(-beta / (1 - (100 / size) ** beta), rel=1e-14)
    assert features.exponent(beta) == -beta
    # N_l ≪ L: the correction is (N_l/L)^β of β.
    assert abs(local - features.exponent(beta)) < 1.01 * beta * (100 / size) ** beta
    assert features.local_exponent(size, L=size, beta=beta) == -np.inf


@pytest.mark.parametrize("n", [0, 257, True])
def test_trainable_directions_outside_the_dimension(n):
    message = "n_trainable: got .*; allowed is an integer in 1 to 256"
    calls = [
        lambda: features.error(1.0, LAM, n, eta=ETA, sigma_J=SIGMA),
        lambda: features.asymptote(LAM, n, sigma_J=SIGMA),
        lambda: features.asymptote_integral(n, **UNITS),
        lambda: features.error_integral(1.0, n, eta=ETA, **UNITS),
        lambda: given_frame.final_weights(np.diag(LAM), n, LAM, LAM),
        lambda: given_frame.mean_asymptote(np.diag(LAM), n, sigma_J=SIGMA),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def heavy_tailed(P, N, seed):
    """Examples whose length fluctuates, in the eigenbasis of their own covariance."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((P, N)) * np.arange(1, N + 1.0) ** -1 * rng.exponential(size=(P, 1))
    return principal(x).coordinates


def stationary_excess(x, n, eta):
    """ε/Eq. 71 − 1 by iterating the second moments of B − J over all examples, one a step."""
    N = x.shape[1]
    step = np.eye(N) - eta / N * np.einsum("pi,pj->pij", x * (np.arange(N) < n), x)
    mean = np.einsum("pij,pkl->ikjl", step, step).reshape(N**2, N**2) / len(x)
    M = np.linalg.matrix_power(mean, 2**24) @ np.eye(N).ravel()
    lam = np.mean(x**2, axis=0)
    return lam @ np.diag(M.reshape(N, N)) / np.sum(lam[n:]) - 1


def test_sampling_excess_against_exact_second_moments():
    x = heavy_tailed(40, 5, 11)
    for eta in (0.2, 0.02):
        found, exact = features.sampling_excess(x, 2, eta=eta), stationary_excess(x, 2, eta)
        assert found.first_order < exact < found.bound
        assert found.exact == pytest.approx(exact, rel=1e-8)
        assert exact - found.first_order < found.first_order * eta * np.max(np.sum(x**2, 1)) / 5


def test_sampling_excess_of_examples_of_one_length():
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    lam = np.array([2.0, 1.0, 0.6, 0.4])
    found = features.sampling_excess(signs * np.sqrt(lam), 2, eta=ETA)
    assert found.first_order == pytest.approx(ETA * np.sum(lam[:2]) / 8, rel=1e-12)
    assert found.bound == pytest.approx(found.first_order / (1 - found.first_order), rel=1e-12)
    exact = stationary_excess(signs * np.sqrt(lam), 2, ETA)
    assert found.bound == pytest.approx(exact, rel=1e-8)
    assert found.exact == pytest.approx(exact, rel=1e-8)
    wild = features.sampling_excess(signs, 2, eta=1e3)
    assert wild.bound == np.inf and np.isnan(wild.exact)
