"""Diagonal plus rank one, against dense solvers, identities and the known hard cases."""

import numpy as np
import pytest

from learndyn.numerics.secular import RankOne

EPS = np.finfo(float).eps


def dense(d, w, rho):
    return np.diag(d) + rho * np.outer(w, w)


def power_law(n, beta):
    lam = np.arange(1, n + 1.0) ** -(1 + beta)
    return lam / lam.mean()


def check_eigensystem(d, w, rho):
    """Values against eigh, orthogonality and residual, each to n roundings of the norm."""
    A, found = dense(d, w, rho), RankOne(d, w, rho)
    n, norm = len(d), np.linalg.norm(A, 2)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A), rtol=0, atol=4 * n * EPS * norm)
    U = found.vectors()
    np.testing.assert_allclose(U.T @ U, np.eye(n), atol=8 * n * EPS)
    np.testing.assert_allclose(A @ U, U * found.values, atol=8 * n * EPS * norm)
    return found


@pytest.mark.parametrize("rho", [0.7, -0.7, 1e3, -1e-6])
@pytest.mark.parametrize("n", [1, 2, 5, 120])
def test_random_matrices(n, rho):
    rng = np.random.default_rng(n)
    check_eigensystem(rng.standard_normal(n), rng.standard_normal(n), rho)


@pytest.mark.parametrize("seed", range(20))
def test_weights_and_gaps_of_any_size(seed):
    rng = np.random.default_rng(seed)
    d = np.unique(rng.standard_normal(12).round(1) + 10 ** rng.uniform(-15, 0, 12))
    w = 10 ** rng.uniform(-15, 0, len(d))
    check_eigensystem(d, w, 10 ** rng.uniform(-6, 6))


def test_clustered_poles():
    rng = np.random.default_rng(3)
    check_eigensystem(1 + 1e-13 * np.arange(200), rng.standard_normal(200), -3.0)


def test_eigenvectors_stay_orthogonal_in_the_example_of_gu_and_eisenstat():
    # With w itself in place of the corrected one, U Uᵀ is off by 3e-7 here.
    delta = 1e-10
    w = np.array([2, delta, delta, 2])
    check_eigensystem(np.array([1, 2 - delta, 2 + delta, 10 / 3]), w / np.linalg.norm(w), w @ w)


@pytest.mark.parametrize("rho", [2.0, -2.0])
def test_zero_weights_are_deflated(rho):
    rng = np.random.default_rng(4)
    d, w = rng.standard_normal(40), rng.standard_normal(40) * (np.arange(40) % 3 > 0)
    found = check_eigensystem(d, w, rho)
    assert set(d[w == 0]) <= set(found.values)
    assert np.array_equal(RankOne(d, 0 * w, rho).values, np.sort(d))
    assert np.array_equal(RankOne(d, w, 0.0).values, np.sort(d))
    assert RankOne([], [], 1.0).values.size == 0


def test_values_interlace_with_the_poles():
    rng = np.random.default_rng(5)
    d, w = np.sort(rng.standard_normal(300)), rng.standard_normal(300)
    up, down = RankOne(d, w, 1.5).values, RankOne(d, w, -1.5).values
    assert np.all(up >= d) and np.all(up[:-1] <= d[1:]) and up[-1] <= d[-1] + 1.5 * w @ w
    assert np.all(down <= d) and np.all(down[1:] >= d[:-1])


def test_two_thousand_levels_of_a_power_law():
    n = 2000
    lam = power_law(n, 1.0)
    d, w = -2 * lam, lam / np.sqrt(n)
    found = RankOne(d, w, 1.0)
    values, vectors = np.linalg.eigh(dense(d, w, 1.0))
    # eigh is accurate to rounding of the norm, which the smallest values feel.
    np.testing.assert_allclose(found.values, values, rtol=1e-10, atol=n * EPS * abs(values[0]))
    v = np.random.default_rng(6).standard_normal(n)
    # eigh's vectors are off by rounding over the smallest gap; |u · v| is at most about 4.
    tilt = 4 * EPS * abs(values[0]) / np.diff(values).min()
    np.testing.assert_allclose(found.overlaps(v) ** 2, (v @ vectors) ** 2, rtol=0, atol=8 * tilt)


@pytest.mark.parametrize(("n", "beta"), [(4000, 1.0), (300, 5.0)])
def test_small_values_have_full_relative_accuracy(n, beta):
    # Determinant lemma and Sherman-Morrison: both are governed by the smallest values, which
    # lie up to 15 decades below the norm, where a dense solver has lost them.
    lam, kappa = power_law(n, beta), 1.9
    values = RankOne(-2 * lam, lam / np.sqrt(n), kappa).values
    left = 1 - kappa / 2 * lam.mean()
    logs = np.sum(np.log(values / (-2 * lam)))
    np.testing.assert_allclose(logs, np.log(left), rtol=n * EPS / left)
    inverse = np.sum(-1 / (2 * lam)) - kappa / 4 / left
    np.testing.assert_allclose(np.sum(1 / values), inverse, rtol=n * EPS / left)


def test_trace_and_the_norm_of_overlaps():
    rng = np.random.default_rng(7)
    d, w, v = rng.standard_normal((3, 500))
    found = RankOne(d, w, 0.4)
    np.testing.assert_allclose(found.values.sum(), d.sum() + 0.4 * w @ w, rtol=500 * EPS)
    both = found.overlaps(np.stack([w, v], axis=1))
    np.testing.assert_allclose(both[:, 0] @ both[:, 1], w @ v, atol=500 * EPS * 500)
    np.testing.assert_allclose(both[:, 1], found.overlaps(v), atol=1e-13)


@pytest.mark.parametrize(
    ("d", "w", "message"),
    [
        ([1.0, 2.0], [1.0], "w: got shape"),
        ([1.0, 1.0], [1.0, 2.0], "d: got equal entries"),
        ([1.0, np.nan], [1.0, 2.0], "d: entry"),
    ],
)
def test_bad_input(d, w, message):
    with pytest.raises(ValueError, match=message):
        RankOne(d, w, 1.0)
    with pytest.raises(ValueError, match="v: got shape"):
        RankOne([1.0, 2.0], [1.0, 1.0], 1.0).overlaps([1.0])
