"""Population risk of the quadratic teacher-student committee, as a function of its weights.

Scaling of Sec. 7.2 of Bocchi et al., arXiv:2604.03068, whose equation numbers are used: the rows
of V (p, N) and V* (p*, N) act on x ~ N(0, I) without 1/sqrt(N),

    ŷ = (1/p) Σ_k (v_k·x)²,   y = (1/p*) Σ_l (v*_l·x)²,   R = E[(y − ŷ)²],
    Q = V Vᵀ,   rho = V V*ᵀ,   T = V* V*ᵀ.

The weights elsewhere in this package are W = sqrt(N) V, with overlaps W Wᵀ/N = Q. One SGD step
changes V by −(η/N) times the gradient here, so that gradient flow is dV/dt = −∇R in t = η α,
α = steps/N: eigenvalues of the Hessian here are rates per t. The paper has T = I; T is general
here, with (tr T)/p* in place of 1 in Eqs. 24 and 25.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.theory.committee import solutions


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
    V, V_star = _weights(V, V_star)
    p, p_star = len(V), len(V_star)
    Q, rho, T = V @ V.T, V @ V_star.T, V_star @ V_star.T
    spread = np.sum(T**2) / p_star**2 - 2 * np.sum(rho**2) / (p * p_star) + np.sum(Q**2) / p**2
    return float(_mean_gap(V, V_star) ** 2 + 2 * spread)


def gradient(V: ArrayLike, V_star: ArrayLike) -> np.ndarray:
    """Gradient of the population risk in the student weights (Eq. 24 for general T).

    ∇R = −(4/p) [m V + 2 (rho V*/p* − Q V/p)].

    Args:
        V: student weights, shape (p, N).
        V_star: teacher weights, shape (p*, N).

    Returns:
        ∇R, shape (p, N).
    """
    V, V_star = _weights(V, V_star)
    return -4 / len(V) * (_mean_gap(V, V_star) * V + 2 * _times_gap(V, V, V_star))


def hessian_product(V: ArrayLike, V_star: ArrayLike, U: ArrayLike) -> np.ndarray:
    """Hessian of the population risk applied to a direction (Eq. 25 for general T).

    H[U] = −(4/p) { m U + 2 (U V*ᵀ V*/p* − U Vᵀ V/p) − (2/p) [tr(V Uᵀ) V + V Uᵀ V + Q U] },
    without forming H: O(p (p + p*) N) operations.

    Args:
        V: student weights, shape (p, N).
        V_star: teacher weights, shape (p*, N).
        U: direction, shape (p, N).

    Returns:
        H[U], shape (p, N).
    """
    V, V_star = _weights(V, V_star)
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
    V, V_star = _weights(V, V_star)
    p, N = V.shape
    identity, outer = np.eye(N), np.einsum("mi,nj->minj", V, V)
    H = np.einsum("mn,ij->minj", V @ V.T, identity) + outer + outer.transpose(2, 1, 0, 3)
    own = _mean_gap(V, V_star) * identity
    own += 2 * (V_star.T @ V_star / len(V_star) - V.T @ V / p)
    H = -2 / p * H + np.einsum("mn,ij->minj", np.eye(p), own)
    return -4 / p * H.reshape(p * N, p * N)


def spectrum(matrix: ArrayLike, tolerance: float = 1e-9) -> list[tuple[float, int]]:
    """Distinct eigenvalues of a symmetric matrix with their multiplicities.

    Args:
        matrix: symmetric, shape (n, n).
        tolerance: eigenvalues closer than this, relative to the largest modulus, are one; the
            default lies far above the rounding of the solver, about n · 1e-16.

    Returns:
        (eigenvalue, multiplicity), ascending; an eigenvalue within tolerance of zero is 0.0.

    Examples:
        >>> spectrum([[2.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 2.0]])
        [(-1.0, 1), (2.0, 2)]
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix: got shape {matrix.shape}; allowed is square, (n, n)")
    values = np.linalg.eigvalsh(matrix)
    width = tolerance * np.max(np.abs(values), initial=0.0)
    groups = np.split(values, np.flatnonzero(np.diff(values) > width) + 1)
    means = [0.0 if abs(g.mean()) <= width else float(g.mean()) for g in groups]
    return [(mean, len(g)) for mean, g in zip(means, groups, strict=True)]


def null_directions(V: ArrayLike, V_star: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal bases of the Hessian's null space at a zero-error point (Sec. 7.2.3).

    There V = sqrt(p/p*) S V*, and H[U] = 0 iff Vᵀ U is antisymmetric. Tangent to the manifold
    are U = δS V* with δS = S Ω + S_⊥ K, Ω antisymmetric and K free; flat to second order only
    are U = S_⊥ Z with the rows of Z orthogonal to the teacher.

    Args:
        V: student weights at a zero-error point, shape (p, N), p >= p*.
        V_star: linearly independent teacher weights, shape (p*, N).

    Returns:
        (tangent, non_tangent), shapes (p p* − p*(p* + 1)/2, p, N) and ((p − p*)(N − p*), p, N).

    Raises:
        ValueError: if V is not a zero-error point, or the teacher rows are dependent.
    """
    V, V_star = _weights(V, V_star)
    S, S_perp = _solution_frame(V, V_star)
    inside, outside = _complete(V_star.T)
    tangent = np.concatenate([_rotations(S, V_star), _products(S_perp, inside)])
    return tangent, _products(S_perp, outside)


def quartic_growth(U: ArrayLike) -> float:
    """Fourth-order coefficient of the risk along a null direction that is not tangent.

    With U orthogonal to V from the left and to V* from the right, as `null_directions` gives
    them, R(V + h U) = (|U|⁴ + 2 |U Uᵀ|²) h⁴/p² exactly, at every zero-error V.

    Args:
        U: the direction, shape (p, N).

    Returns:
        The coefficient of h⁴.
    """
    U = np.asarray(U, dtype=np.float64)
    return float((np.sum(U**2) ** 2 + 2 * np.sum((U @ U.T) ** 2)) / len(U) ** 2)


def _weights(V, V_star):
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
    return np.sum(V_star**2) / len(V_star) - np.sum(V**2) / len(V)


def _times_gap(U, V, V_star):
    return (U @ V_star.T) @ V_star / len(V_star) - (U @ V.T) @ V / len(V)


def _solution_frame(V, V_star):
    S = solutions.polar_factor(V @ V_star.T)
    gap = np.linalg.norm(V - np.sqrt(len(V) / len(V_star)) * S @ V_star) / np.linalg.norm(V)
    if not gap <= 1e-8:
        raise ValueError(f"V: got a point {gap:.1e} |V| off; allowed are zero-error points")
    return S, _complete(S)[1]


def _complete(columns):
    Q = np.linalg.qr(columns, mode="complete")[0]
    return Q[:, : columns.shape[1]], Q[:, columns.shape[1] :]


def _rotations(S, V_star):
    # Independent, but for general T not orthogonal, hence the QR.
    p_star = S.shape[1]
    rows, columns = np.triu_indices(p_star, 1)
    omega = np.zeros((len(rows), p_star, p_star))
    omega[range(len(rows)), rows, columns] = 1.0
    directions = S @ (omega - omega.transpose(0, 2, 1)) @ V_star
    basis = np.linalg.qr(directions.reshape(len(rows), V_star.shape[1] * len(S)).T)[0]
    return basis.T.reshape(directions.shape)


def _products(left, right):
    return np.einsum("ka,ib->abki", left, right).reshape(-1, left.shape[0], right.shape[0])
