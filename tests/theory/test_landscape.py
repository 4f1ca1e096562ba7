import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics import linalg
from learndyn.theory.committee.landscape import flat_directions, risk, solutions, stationary

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


def test_spectrum_groups_and_counts():
    frame = np.linalg.qr(np.random.default_rng(4).standard_normal((6, 6)))[0]
    values = [-2.0, -2.0, 0.0, 0.0, 0.0, 3.0]
    found = linalg.distinct_eigenvalues(frame @ np.diag(values) @ frame.T)
    assert [count for _, count in found] == [2, 3, 1]
    np.testing.assert_allclose([value for value, _ in found], [-2, 0, 3], atol=1e-13)
    assert found[1][0] == 0.0
    assert linalg.distinct_eigenvalues(np.zeros((3, 3))) == [(0.0, 3)]


def zero_error_point(N, p, p_star, general=False):
    V, V_star = stationary.realise(stationary.stationary_point(p, p_star, p_star, 0), N, seed=5)
    if not general:
        return V, V_star
    V_star = np.random.default_rng(6).standard_normal((p_star, p_star)) @ V_star
    S = solutions.polar_factor(np.random.default_rng(7).standard_normal((p, p_star)))
    return np.sqrt(p / p_star) * S @ V_star, V_star


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("N, p, p_star", [(12, 3, 2), (10, 2, 2), (9, 4, 1), (4, 6, 2), (5, 1, 1)])
def test_null_directions_span_the_null_space(N, p, p_star, general):
    V, V_star = zero_error_point(N, p, p_star, general)
    tangent, other = flat_directions.null_directions(V, V_star)
    assert tangent.shape == (p * p_star - p_star * (p_star + 1) // 2, p, N)
    assert other.shape == ((p - p_star) * (N - p_star), p, N)
    basis = np.concatenate([tangent, other]).reshape(-1, p * N)
    assert np.linalg.norm(basis @ basis.T - np.eye(len(basis))) < 1e-13
    H = risk.hessian(V, V_star)
    assert np.linalg.norm(H @ basis.T) < 1e-13 * np.linalg.norm(H)
    found = linalg.distinct_eigenvalues(H)
    assert found[0] == (0.0, len(basis)) or (not len(basis) and found[0][0] > 0)


def test_tangent_directions_keep_the_risk_and_the_others_do_not():
    V, V_star = zero_error_point(8, 4, 2)
    tangent, other = flat_directions.null_directions(V, V_star)
    rng = np.random.default_rng(8)
    step = np.tensordot(rng.standard_normal(len(tangent)), tangent, 1)
    for h in (1e-2, 1e-1):
        # Back on the manifold by the polar factor: for a tangent step that moves V by O(h²).
        S = solutions.polar_factor((V + h * step) @ V_star.T)
        moved = np.sqrt(2) * S @ V_star
        assert np.linalg.norm(moved - V - h * step) < h**2 * np.linalg.norm(step) ** 2
        assert risk.risk(moved, V_star) < 64 * EPS
    U = np.tensordot(rng.standard_normal(len(other)), other, 1)
    # There U ⊥ V and U ⊥ V*, so that the risk is purely quartic: (|U|⁴ + 2 |UUᵀ|²) h⁴/p².
    quartic = (np.sum(U**2) ** 2 + 2 * np.sum((U @ U.T) ** 2)) / 16
    for h in (0.1, 0.3):
        assert abs(risk.risk(V + h * U, V_star) - quartic * h**4) < 64 * EPS * (1 + quartic)


@pytest.mark.parametrize("N, p, p_star", [(8, 4, 2), (9, 4, 1), (4, 6, 2)])
def test_quartic_growth(N, p, p_star):
    V, V_star = zero_error_point(N, p, p_star, general=True)
    other = flat_directions.null_directions(V, V_star)[1]
    U = np.tensordot(np.random.default_rng(9).standard_normal(len(other)), other, 1)
    expected = flat_directions.quartic_growth(U)
    scale = 1 + risk.risk(0 * V, V_star) + expected
    for h in (0.3, 1.0, -2.0):
        assert abs(risk.risk(V + h * U, V_star) - expected * h**4) < 64 * EPS * scale * 16


def test_null_directions_want_a_solution():
    V, V_star = zero_error_point(8, 4, 2)
    with pytest.raises(ValueError, match=r"V: got a point .* allowed are zero-error points"):
        flat_directions.null_directions(1.01 * V, V_star)
    with pytest.raises(ValueError, match="allowed is full column rank"):
        flat_directions.null_directions(V, np.ones((2, 8)))


def test_bad_shapes():
    V, V_star = draw(7, 3, 2)
    with pytest.raises(ValueError, match=r"V_star: got shape \(2, 6\); allowed .* N = 7"):
        risk.risk(V, V_star[:, :6])
    with pytest.raises(ValueError, match=r"V: got shape \(7,\); allowed is \(units, N\)"):
        risk.gradient(V[0], V_star)
    with pytest.raises(ValueError, match=r"U: got shape \(2, 7\); allowed .* \(3, 7\)"):
        risk.hessian_product(V, V_star, V[:2])
    with pytest.raises(ValueError, match=r"matrix: got shape \(3, 7\); allowed is square"):
        linalg.distinct_eigenvalues(V)
