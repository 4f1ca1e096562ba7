"""Outside the eigenbasis: integrated gradient flow, averages, reduction to the eigenbasis."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from learndyn.theory.committee.power_law import features, given_frame, learning_curve

L, ETA, SIGMA = 256, 0.05, 0.01
LAM = learning_curve.lam_plus(L, 1.0) * np.arange(1, L + 1.0) ** -2.0


def covariance(N, seed, beta=1.0):
    """Power-law eigenvalues in a random frame, tr Σ = N."""
    frame, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, N)))
    lam = learning_curve.lam_plus(N, beta) * np.arange(1, N + 1.0) ** -(1 + beta)
    return frame * lam @ frame.T


def test_trajectory_is_gradient_flow():
    N, n, eta, rng = 12, 5, 0.3, np.random.default_rng(1)
    Sigma, J0, B = covariance(N, 0), rng.standard_normal(N), rng.standard_normal(N)
    times = np.array([0.0, 0.2, 3.0, 50.0])
    trained = np.arange(N) < n
    flow = lambda t, J: eta * trained * (Sigma @ (B - J))
    found = given_frame.trajectory(times, Sigma, n, J0, B, eta)
    for time, J in zip(times[1:], found[1:], strict=True):
        end = solve_ivp(flow, (0, time), J0, "DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
        np.testing.assert_allclose(J, end, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found[0], J0, rtol=1e-12)
    assert np.array_equal(found[:, n:], np.broadcast_to(J0[n:], (4, N - n)))
    one = given_frame.trajectory(3.0, Sigma, n, J0, B, eta)
    np.testing.assert_allclose(one, found[2], rtol=1e-13)


def test_final_weights_are_stationary_and_reached():
    N, n, rng = 12, 7, np.random.default_rng(2)
    Sigma, J0, B = covariance(N, 3), rng.standard_normal(N), rng.standard_normal(N)
    J = given_frame.final_weights(Sigma, n, J0, B)
    np.testing.assert_allclose((Sigma @ (B - J))[:n], 0.0, atol=1e-12)
    late = given_frame.trajectory(1e6, Sigma, n, J0, B, 0.3)
    np.testing.assert_allclose(late, J, rtol=1e-10)
    # The error there is the Schur complement's, for these very vectors.
    schur = Sigma[n:, n:] - Sigma[n:, :n] @ np.linalg.solve(Sigma[:n, :n], Sigma[:n, n:])
    rest = (B - J0)[n:]
    expected = rest @ schur @ rest / (2 * N)
    np.testing.assert_allclose(given_frame.weights_error(Sigma, J, B), expected, rtol=1e-10)


@pytest.mark.parametrize("n", [1, 10, 39, 40])
def test_mean_asymptote_is_equation_88(n):
    N, sigma = 40, 0.6
    Sigma = covariance(N, 4)
    inner = np.linalg.solve(Sigma[:n, :n], Sigma[:n, n:])
    crossed = np.trace(Sigma[:n, n:].T @ inner)
    trained, fixed = np.trace(Sigma[:n, :n]), np.trace(Sigma[n:, n:])
    eq88 = (1 - trained / N + sigma**2 * fixed / N - (1 + sigma**2) / N * crossed) / 2
    found = given_frame.mean_asymptote(Sigma, n, sigma_J=sigma)
    np.testing.assert_allclose(found, eq88, atol=1e-13)
    everywhere = given_frame.mean_asymptote(Sigma, np.arange(1, N + 1), sigma_J=sigma)
    np.testing.assert_allclose(everywhere[n - 1], found, rtol=1e-12)


def test_diagonal_covariance_reduces_to_the_eigenbasis():
    Sigma, alphas = np.diag(LAM), np.array([0.0, 1.0, 30.0, 1e3])
    for n in (1, 50, L):
        found = given_frame.mean_error(alphas, Sigma, n, eta=ETA, sigma_J=SIGMA)
        expected = features.error(alphas, LAM, n, eta=ETA, sigma_J=SIGMA)
        np.testing.assert_allclose(found, expected, rtol=1e-11)
        end = given_frame.mean_asymptote(Sigma, n, sigma_J=SIGMA)
        np.testing.assert_allclose(end, features.asymptote(LAM, n, sigma_J=SIGMA), rtol=1e-11)


@pytest.mark.statistical
def test_mean_error_is_the_mean_of_trajectories():
    N, n, eta, sigma, rng = 16, 6, 0.2, 0.5, np.random.default_rng(5)
    Sigma, times, draws = covariance(N, 6), np.array([0.0, 0.5, 5.0, 1e3]), 3000
    J0, B = sigma * rng.standard_normal((draws, N)), rng.standard_normal((draws, N))
    runs = zip(J0, B, strict=True)
    errors = np.array(
        [given_frame.weights_error(Sigma, given_frame.trajectory(times, Sigma, n, j, b, eta), b)
         for j, b in runs]
    )  # fmt: skip
    mean = given_frame.mean_error(times, Sigma, n, eta=eta, sigma_J=sigma)
    deviation = errors.std(axis=0, ddof=1) / np.sqrt(draws)
    assert np.all(np.abs(errors.mean(axis=0) - mean) < 4.5 * deviation)


def test_eigenbasis_learns_most_with_equal_size():
    Sigma = covariance(64, 7)
    lam = np.sort(np.linalg.eigvalsh(Sigma))[::-1]
    sizes = np.arange(1, 64)
    outside = given_frame.mean_asymptote(Sigma, sizes, sigma_J=SIGMA)
    inside = np.array([features.asymptote(lam, int(n), sigma_J=SIGMA) for n in sizes])
    assert np.all(inside < outside)


def test_covariance_that_is_not_one():
    with pytest.raises(ValueError, match=r"Sigma: got shape \(2, 3\)"):
        given_frame.mean_asymptote(np.ones((2, 3)), 1, sigma_J=SIGMA)
    with pytest.raises(ValueError, match="Sigma: got a matrix that is not positive definite"):
        given_frame.mean_asymptote(-np.eye(3), 1, sigma_J=SIGMA)
