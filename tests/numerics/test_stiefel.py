import numpy as np
import pytest

from learndyn.numerics import stiefel

EPS = np.finfo(float).eps


def linear(rho):
    return lambda S: (-np.sum(S * rho), -rho)


def test_random_point_is_orthonormal_and_uniform():
    rng = np.random.default_rng(0)
    p, q, draws = 4, 2, 4000
    S = np.array([stiefel.random_point(p, q, rng) for _ in range(draws)])
    assert np.abs(S.transpose(0, 2, 1) @ S - np.eye(q)).max() < 16 * EPS
    # Under Haar measure E S = 0, E S² = 1/p and var S² = 2(p − 1)/(p²(p + 2)).
    assert np.abs(S.mean(0)).max() < 4.5 * np.sqrt(1 / p / draws)
    error = np.sqrt(2 * (p - 1) / (p**2 * (p + 2)) / draws)
    assert np.abs((S**2).mean(0) - 1 / p).max() < 4.5 * error


def test_random_point_without_columns():
    assert stiefel.random_point(3, 0, np.random.default_rng(0)).shape == (3, 0)


@pytest.mark.parametrize("p, q", [(6, 3), (5, 1), (4, 4)])
def test_extreme_eigenvectors(p, q):
    # min over SᵀS = I of −tr(SᵀAS) is minus the sum of the q largest eigenvalues (Ky Fan).
    rng = np.random.default_rng(p)
    A = rng.standard_normal((p, p))
    A = A + A.T
    found = stiefel.minimise(
        lambda S: (-np.sum(S * (A @ S)), -2 * A @ S), stiefel.random_point(p, q, rng)
    )
    assert found.converged
    assert np.linalg.norm(found.point.T @ found.point - np.eye(q)) < 16 * EPS * p
    scale = np.linalg.norm(A)
    assert abs(found.value + np.sum(np.linalg.eigvalsh(A)[p - q :])) < 64 * EPS * scale


@pytest.mark.parametrize("seed", range(4))
def test_linear_objective_reaches_the_nuclear_norm(seed):
    rng = np.random.default_rng(seed)
    rho = rng.standard_normal((6, 3))
    found = stiefel.minimise(linear(rho), stiefel.random_point(6, 3, rng))
    assert found.converged
    assert found.gradient_norm <= 1e-12 * np.linalg.norm(rho)
    assert abs(found.value + np.linalg.norm(rho, "nuc")) < 64 * EPS * np.linalg.norm(rho, "nuc")


def test_square_search_stays_in_its_component():
    rng = np.random.default_rng(3)
    rho = rng.standard_normal((3, 3))
    d = np.linalg.svd(rho, compute_uv=False)
    sign = np.sign(np.linalg.det(rho))
    for determinant, best in ((sign, d.sum()), (-sign, d[0] + d[1] - d[2])):
        S0 = stiefel.random_point(3, 3, rng)
        S0[:, 0] *= determinant * np.sign(np.linalg.det(S0))
        found = stiefel.minimise(linear(rho), S0)
        assert found.converged
        assert np.sign(np.linalg.det(found.point)) == determinant
        assert abs(found.value + best) < 64 * EPS * d.sum()


def test_giving_up_is_said():
    rng = np.random.default_rng(1)
    rho = rng.standard_normal((6, 3))
    found = stiefel.minimise(linear(rho), stiefel.random_point(6, 3, rng), max_iterations=2)
    assert not found.converged
    assert found.iterations == 2


def test_constant_objective_is_already_flat():
    S0 = np.eye(3, 2)
    found = stiefel.minimise(lambda S: (1.0, np.zeros_like(S)), S0)
    assert found.converged and found.iterations == 0
    np.testing.assert_array_equal(found.point, S0)


@pytest.mark.parametrize("S0", [np.eye(2, 3), np.ones((3, 2)), np.ones(3), np.full((3, 2), np.nan)])
def test_bad_start(S0):
    with pytest.raises(ValueError, match="S0: got"):
        stiefel.minimise(linear(np.ones((3, 2))), S0)


def test_bad_sizes():
    with pytest.raises(ValueError, match="q: got 3; allowed is 0 to p = 2"):
        stiefel.random_point(2, 3, np.random.default_rng(0))
