import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.theory.committee.landscape import risk, solutions

EPS = np.finfo(float).eps
SIZES = [(7, 3, 2), (6, 2, 3), (5, 1, 1), (4, 6, 2)]


def draw(N, p, p_star, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((p, N)) / np.sqrt(N), rng.standard_normal((p_star, N)) / np.sqrt(N)


def wick_risk(V, V_star):
    # E[(zᵀ A z)²] by Isserlis' pairings, one product of four at a time.
    z = np.concatenate([V_star, V])
    A = np.concatenate([np.full(len(V_star), 1 / len(V_star)), np.full(len(V), -1 / len(V))])
    C = z @ z.T
    total = 0.0
    for i, j in itertools.product(range(len(z)), repeat=2):
        total += A[i] * A[j] * (C[i, i] * C[j, j] + C[i, j] * C[i, j] + C[i, j] * C[i, j])
    return total


def jax_risk(V, V_star):
    E = V_star.T @ V_star / len(V_star) - V.T @ V / len(V)
    return jnp.trace(E) ** 2 + 2 * jnp.sum(E**2)


@pytest.mark.parametrize("N, p, p_star", SIZES)
def test_risk_is_the_gaussian_average(N, p, p_star):
    V, V_star = draw(N, p, p_star)
    assert risk.risk(V, V_star) == pytest.approx(wick_risk(V, V_star), rel=64 * EPS)


def test_risk_as_printed_for_an_orthonormal_teacher():
    V, _ = draw(7, 3, 2)
    V_star = np.eye(2, 7)
    Q, rho = V @ V.T, V @ V_star.T
    d = np.diag(Q)
    pairs = sum(d[k] * d[j] + 2 * Q[k, j] ** 2 for k in range(3) for j in range(k + 1, 3))
    printed = 2 - 2 / 3 * d.sum() - 4 / 6 * np.sum(rho**2) + (3 * np.sum(d**2) + 2 * pairs) / 9
    assert risk.risk(V, V_star) == pytest.approx(printed, rel=64 * EPS)


def test_risk_is_the_average_loss_over_inputs():
    V, V_star = draw(5, 3, 2)
    x = np.random.default_rng(1).standard_normal((200_000, 5))
    loss = (((x @ V_star.T) ** 2).mean(1) - ((x @ V.T) ** 2).mean(1)) ** 2
    error = loss.std() / np.sqrt(len(x))
    assert abs(loss.mean() - risk.risk(V, V_star)) < 4 * error


@pytest.mark.parametrize("N, p, p_star", [(7, 3, 2), (4, 6, 2)])
def test_derivatives_are_those_of_autodiff(N, p, p_star):
    V, V_star = draw(N, p, p_star)
    with jax.enable_x64(True):
        G = np.asarray(jax.grad(jax_risk)(V, V_star))
        H = np.asarray(jax.hessian(jax_risk)(V, V_star)).reshape(p * N, p * N)
    assert np.abs(risk.gradient(V, V_star) - G).max() < 1e-13 * (1 + np.abs(G).max())
    assert np.abs(risk.hessian(V, V_star) - H).max() < 1e-13 * (1 + np.abs(H).max())


def test_gradient_is_that_of_finite_differences():
    V, V_star = draw(7, 3, 2)
    U = np.random.default_rng(2).standard_normal(V.shape)
    h = 1e-3
    values = [risk.risk(V + k * h * U, V_star) for k in (-2, -1, 1, 2)]
    # The risk is quartic along a line, for which this five-point rule is exact.
    slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    expected = np.sum(U * risk.gradient(V, V_star))
    assert abs(slope - expected) < 8 * EPS * max(values) / h


@pytest.mark.parametrize("N, p, p_star", SIZES)
def test_product_is_that_of_the_dense_hessian(N, p, p_star):
    V, V_star = draw(N, p, p_star)
    H = risk.hessian(V, V_star)
    assert np.array_equal(H, H.T)
    U = np.random.default_rng(3).standard_normal((p, N))
    product = risk.hessian_product(V, V_star, U)
    bound = 4 * p * N * EPS * np.linalg.norm(H) * np.linalg.norm(U)
    assert np.abs(product.ravel() - H @ U.ravel()).max() < bound


def test_gradient_flow_is_the_overlap_flow():
    # −∇R must move the overlaps as the O(η) part of the order-parameter equations, per t = η α.
    N, p, q = 9, 3, 2
    V, V_star = draw(N, p, q)
    Q, rho, T = V @ V.T, V @ V_star.T, V_star @ V_star.T
    m = np.trace(T) / q - np.trace(Q) / p
    velocity = -risk.gradient(V, V_star)
    drho = 4 / p * (m * rho + 2 * (rho @ T / q - Q @ rho / p))
    dQ = 8 / p * (m * Q + 2 * (rho @ rho.T / q - Q @ Q / p))
    assert np.abs(velocity @ V_star.T - drho).max() < 1e-13
    assert np.abs(velocity @ V.T + V @ velocity.T - dQ).max() < 1e-13


def test_bad_shapes():
    V, V_star = draw(7, 3, 2)
    with pytest.raises(ValueError, match=r"V_star: got shape \(2, 6\); allowed .* N = 7"):
        risk.risk(V, V_star[:, :6])
    with pytest.raises(ValueError, match=r"V: got shape \(7,\); allowed is \(units, N\)"):
        risk.gradient(V[0], V_star)
    with pytest.raises(ValueError, match=r"U: got shape \(2, 7\); allowed .* \(3, 7\)"):
        risk.hessian_product(V, V_star, V[:2])


def test_rounding_covers_the_risk_and_gradient_of_solutions():
    rng = np.random.default_rng(0)
    for p, p_star, N in [(3, 2, 6), (9, 4, 40)]:
        V_star = np.eye(p_star, N)
        bound = risk.rounding(risk.risk(np.zeros((p, N)), V_star))
        V = solutions.nearest_weights(rng.standard_normal((p, N)), V_star)
        assert abs(risk.risk(V, V_star)) < bound < 1e-13
        assert np.abs(risk.gradient(V, V_star)).max() < bound
