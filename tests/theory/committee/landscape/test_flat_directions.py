import numpy as np
import pytest

from learndyn.numerics import linalg
from learndyn.theory.committee.landscape import flat_directions, risk, solutions, stationary

EPS = np.finfo(float).eps


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
