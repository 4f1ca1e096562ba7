"""Population risk of the quadratic teacher-student committee, as a function of its weights.

Scaling of Sec. 7.2 of Bocchi et al., arXiv:2604.03068, whose equation numbers are used: the rows
of V (p, N) and V* (p*, N) act on x ~ N(0, I) without 1/sqrt(N),

    ŷ = (1/p) Σ_k (v_k·x)²,   y = (1/p*) Σ_l (v*_l·x)²,   R = E[(y − ŷ)²],
    Q = V Vᵀ,   rho = V V*ᵀ,   T = V* V*ᵀ.

The weights elsewhere in this package are W = sqrt(N) V, with overlaps W Wᵀ/N = Q. One SGD step
changes V by −(η/N) times this gradient, so that gradient flow is dV/dt = −∇R in t = η α,
α = steps/N, and eigenvalues of this Hessian are rates per t. The paper has T = I; here T is
general, with (tr T)/p* in place of 1 in Eqs. 24 and 25.
"""

import numpy as np
from numpy.typing import ArrayLike


def risk(V: ArrayLike, V_star: ArrayLike) -> float:
    """Population risk (Eq. 23 for general T).

    R = m² + 2 [|T|²/p*² − 2 |rho|²/(p p*) + |Q|²/p²], m = (tr T)/p* − (tr Q)/p, with Frobenius
    norms. At a zero-error point its rounding error is a few units of 1e-16 (1 + R(V=0)).

    Args:
        V: student weights, shape (p, N).
        V_star: teacher weights, shape (p*, N).

    Returns:
        R, the loss (y − ŷ)² averaged over inputs.

    Examples:
        >>> risk([[0.0, 0.0]], [[1.0, 0.0]])
        3.0
    """
    V, V_star = checked_weights(V, V_star)
    p, p_star = len(V), len(V_star)
    Q, rho, T = V @ V.T, V @ V_star.T, V_star @ V_star.T
    spread = np.sum(T**2) / p_star**2 - 2 * np.sum(rho**2) / (p * p_star) + np.sum(Q**2) / p**2
    return float(_mean_gap(V, V_star) ** 2 + 2 * spread)


def rounding(risk_at_zero: float) -> float:
    """64 ε (1 + R(V=0)), the rounding error of a risk that is zero, or of a gradient entry."""
    return 64 * float(np.finfo(np.float64).eps) * (1 + risk_at_zero)


def gradient(V: ArrayLike, V_star: ArrayLike) -> np.ndarray:
    """Gradient of the population risk in the student weights (Eq. 24 for general T).

    ∇R = −(4/p) [m V + 2 (rho V*/p* − Q V/p)].

    Args:
        V: student weights, shape (p, N).
        V_star: teacher weights, shape (p*, N).

    Returns:
        ∇R, shape (p, N).
    """
    V, V_star = checked_weights(V, V_star)
    return -4 / len(V) * (_mean_gap(V, V_star) * V + 2 * _times_gap(V, V, V_star))


def hessian_product(V: ArrayLike, V_star: ArrayLike, U: ArrayLike) -> np.ndarray:
    """Hessian of the population risk applied to a direction (Eq. 25 for general T).

    H[U] = −(4/p) { m U + 2 (U V*ᵀ V*/p* − U Vᵀ V/p) − (2/p) [tr(V Uᵀ) V + V Uᵀ V + Q U] },
    in O(p (p + p*) N) operations, without forming H.

    Args:
        V: student weights, shape (p, N).
        V_star: teacher weights, shape (p*, N).
        U: direction, shape (p, N).

    Returns:
        H[U], shape (p, N).
    """
    V, V_star = checked_weights(V, V_star)
    U = np.asarray(U, dtype=np.float64)
    if U.shape != V.shape:
        raise ValueError(f"U: got shape {U.shape}; allowed is that of V, {V.shape}")
    own = _mean_gap(V, V_star) * U + 2 * _times_gap(U, V, V_star)
    shared = np.sum(U * V) * V + (V @ U.T) @ V + (V @ V.T) @ U
    return -4 / len(V) * (own - 2 / len(V) * shared)


def hessian(V: ArrayLike, V_star: ArrayLike) -> np.ndarray:
    """Dense Hessian of the population risk, from the N × N blocks of Eq. 25 for general T.

    H_mn = −(4/p) { −(2/p)(Q_nm I + v_n v_mᵀ + v_m v_nᵀ)
                    + δ_mn [m I + (2/p*) Σ_l v*_l v*_lᵀ − (2/p) Σ_k v_k v_kᵀ] }.

    Args:
        V: student weights, shape (p, N).
        V_star: teacher weights, shape (p*, N).

    Returns:
        H, shape (p N, p N); row m N + i is component i of student m.
    """
    V, V_star = checked_weights(V, V_star)
    p, N = V.shape
    identity, outer = np.eye(N), np.einsum("mi,nj->minj", V, V)
    H = np.einsum("mn,ij->minj", V @ V.T, identity) + outer + outer.transpose(2, 1, 0, 3)
    own = _mean_gap(V, V_star) * identity
    own += 2 * (V_star.T @ V_star / len(V_star) - V.T @ V / p)
    H = -2 / p * H + np.einsum("mn,ij->minj", np.eye(p), own)
    return -4 / p * H.reshape(p * N, p * N)


def checked_weights(V: ArrayLike, V_star: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Student and teacher weights in double precision; a ValueError if their shapes do not fit."""
    V, V_star = np.asarray(V, dtype=np.float64), np.asarray(V_star, dtype=np.float64)
    for name, matrix in (("V", V), ("V_star", V_star)):
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(f"{name}: got shape {matrix.shape}; allowed is (units, N)")
    if V.shape[1] != V_star.shape[1]:
        raise ValueError(
            f"V_star: got shape {V_star.shape}; allowed is (p*, N) with N = {V.shape[1]} as in V"
        )
    return V, V_star


def _mean_gap(V, V_star):
    # m of the docstrings: the mean of target − output.
    return np.sum(V_star**2) / len(V_star) - np.sum(V**2) / len(V)


def _times_gap(U, V, V_star):
    # Products from left to right: an N × N matrix is never formed.
    return (U @ V_star.T) @ V_star / len(V_star) - (U @ V.T) @ V / len(V)
