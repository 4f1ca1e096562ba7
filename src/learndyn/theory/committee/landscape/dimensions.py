"""Dimensions of the set of matrices WᵀW and of the zero-error manifold (Sec. 7.5).

Equation numbers are those of Bocchi et al., arXiv:2604.03068.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime import checks
from learndyn.runtime.types import Int


def degrees_of_freedom(N: Int, p: Int) -> int:
    """Dimension of the set of matrices WᵀW that p units reach in N dimensions (Sec. 7.5.1).

    N p − p(p − 1)/2 for p <= N, and N(N + 1)/2, all symmetric matrices, for p >= N.

    Args:
        N: input dimension.
        p: number of student units.

    Returns:
        The number of degrees of freedom.

    Examples:
        >>> degrees_of_freedom(7, 3), degrees_of_freedom(4, 6)
        (18, 10)
    """
    N, k = checks.positive_int("N", N), checks.positive_int("p", p)
    k = min(k, N)
    return N * k - k * (k - 1) // 2


def manifold_dimension(p: Int, p_star: Int, N: Int | None = None) -> int:
    """Dimension of the zero-error manifold (Sec. 7.5.2).

    It is p(p − 1)/2 − (p − k)(p − k − 1)/2 with k = min(p*, N), the rank of the teacher; for
    p* <= N this is p p* − p*(p* + 1)/2.

    Args:
        p: number of student units, at least k.
        p_star: number of teacher units.
        N: input dimension; by default any N >= p*.

    Returns:
        The dimension.

    Raises:
        ValueError: if p < k, where there is no zero-error solution.

    Examples:
        >>> manifold_dimension(3, 2), manifold_dimension(5, 1)
        (3, 4)
    """
    p, k = checks.positive_int("p", p), checks.positive_int("p_star", p_star)
    if N is not None:
        k = min(k, checks.positive_int("N", N))
    if p < k:
        raise ValueError(f"p: got {p}; allowed is at least min(p_star, N) = {k}")
    # Rotations of all p units, less those of the p − k units that a solution may leave at zero.
    return (p * (p - 1) - (p - k) * (p - k - 1)) // 2


def gram_jacobian(V: ArrayLike) -> np.ndarray:
    """Jacobian of V -> VᵀV, whose rank counts the directions in which VᵀV moves (Sec. 7.5).

    Args:
        V: shape (p, n).

    Returns:
        dG_ij/dV_kl for i <= j, shape (n(n + 1)/2, p n).
    """
    V = np.asarray(V, dtype=np.float64)
    p, n = V.shape
    half = np.einsum("ki,jl->ijkl", V, np.eye(n))
    rows, columns = np.triu_indices(n)
    return (half + half.swapaxes(0, 1))[rows, columns].reshape(len(rows), p * n)


def rotation_directions(V: ArrayLike) -> np.ndarray:
    """Directions in which the rotations V -> exp(Ω) V move V, one per pair of units.

    All solutions are rotations of a single one, so the rank of these directions at a solution is
    the dimension of the zero-error manifold (Sec. 7.5.2).

    Args:
        V: shape (p, N).

    Returns:
        Ω V, shape (p(p − 1)/2, p N).
    """
    V = np.asarray(V, dtype=np.float64)
    p, N = V.shape
    rows, columns = np.triu_indices(p, 1)
    moves = np.zeros((len(rows), p, N))
    moves[range(len(rows)), rows] = V[columns]
    moves[range(len(rows)), columns] = -V[rows]
    return moves.reshape(len(rows), p * N)
