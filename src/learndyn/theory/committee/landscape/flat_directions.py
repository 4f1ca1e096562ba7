"""Directions at a zero-error point in which the quadratic committee's risk is flat (Sec. 7.2.3).

Scaling and equation numbers are those of `risk`.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.landscape.risk import checked_weights


def null_directions(V: ArrayLike, V_star: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal bases of the Hessian's null space at a zero-error point (Sec. 7.2.3).

    At such a point V = sqrt(p/p*) S V*, and H[U] = 0 iff Vᵀ U is antisymmetric. The directions
    tangent to the manifold are U = δS V* with δS = S Ω + S_⊥ K, Ω antisymmetric and K free. The
    directions U = S_⊥ Z, with the rows of Z orthogonal to the teacher, are flat only to second
    order.

    Args:
        V: student weights at a zero-error point, shape (p, N), p >= p*.
        V_star: linearly independent teacher weights, shape (p*, N).

    Returns:
        (tangent, non_tangent), shapes (p p* − p*(p* + 1)/2, p, N) and ((p − p*)(N − p*), p, N).

    Raises:
        ValueError: if V is not a zero-error point, or the teacher rows are dependent.
    """
    V, V_star = checked_weights(V, V_star)
    S, S_perp = _solution_frame(V, V_star)
    inside, outside = _complete(V_star.T)
    tangent = np.concatenate([_rotations(S, V_star), _products(S_perp, inside)])
    return tangent, _products(S_perp, outside)


def quartic_growth(U: ArrayLike) -> float:
    """Fourth-order coefficient of the risk along a null direction that is not tangent.

    If U is orthogonal to V from the left and to V* from the right, as those of `null_directions`
    are, R(V + h U) = (|U|⁴ + 2 |U Uᵀ|²) h⁴/p² exactly, at every zero-error V.

    Args:
        U: the direction, shape (p, N).

    Returns:
        The coefficient of h⁴.
    """
    U = np.asarray(U, dtype=np.float64)
    return float((np.sum(U**2) ** 2 + 2 * np.sum((U @ U.T) ** 2)) / len(U) ** 2)


def _solution_frame(V, V_star):
    S = solutions.polar_factor(V @ V_star.T)
    gap = np.linalg.norm(V - np.sqrt(len(V) / len(V_star)) * S @ V_star) / np.linalg.norm(V)
    # The risk is quadratic in the gap: 1e-8 is where it becomes rounding.
    if not gap <= 1e-8:
        raise ValueError(f"V: got a point {gap:.1e} |V| off; allowed are zero-error points")
    return S, _complete(S)[1]


def _complete(columns):
    Q = np.linalg.qr(columns, mode="complete")[0]
    return Q[:, : columns.shape[1]], Q[:, columns.shape[1] :]


def _rotations(S, V_star):
    # These directions are independent, but for general T not orthogonal, hence the QR below.
    p_star = S.shape[1]
    rows, columns = np.triu_indices(p_star, 1)
    omega = np.zeros((len(rows), p_star, p_star))
    omega[range(len(rows)), rows, columns] = 1.0
    directions = S @ (omega - omega.transpose(0, 2, 1)) @ V_star
    basis = np.linalg.qr(directions.reshape(len(rows), V_star.shape[1] * len(S)).T)[0]
    return basis.T.reshape(directions.shape)


def _products(left, right):
    return np.einsum("ka,ib->abki", left, right).reshape(-1, left.shape[0], right.shape[0])
