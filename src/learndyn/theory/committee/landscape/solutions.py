"""The zero-error manifold of the quadratic teacher-student committee, and the point reached on it.

With p student and p* teacher units of overlaps Q = WWᵀ/N, rho = WW*ᵀ/N, T = W*W*ᵀ/N, the networks
agree on every input iff WᵀW/p = W*ᵀW*/p* (Eq. 15), that is W = sqrt(p/p*) S W* with SᵀS = I
(Eq. 16). Equation numbers are those of Bocchi et al., arXiv:2604.03068. The paper has T = I;
general T is allowed here, and None means T = I.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.numerics import stiefel


def polar_factor(rho: ArrayLike) -> np.ndarray:
    """S = rho (rhoᵀ rho)^(-1/2) (Eqs. 19 and 22): the nearest solution to a student at rho.

    It minimises `distance` over SᵀS = I for every T. It is computed as U Vᵀ from rho = U d Vᵀ,
    which loses no digits by squaring rho.

    Args:
        rho: student-teacher overlaps, shape (..., p, p*) with p >= p* and full column rank.

    Returns:
        S, of the shape of rho, with SᵀS = I.

    Raises:
        ValueError: if p < p*, or if a rho is rank deficient, so that S is not unique.

    Examples:
        >>> polar_factor([[3.0, 0.0], [0.0, 0.5], [0.0, 0.0]]).tolist()
        [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    rho = _tall("rho", rho)
    U, d, Vt = np.linalg.svd(rho, full_matrices=False)
    _check_full_rank("rho", d, rho.shape[-2])
    return U @ Vt


def solution_overlaps(S: ArrayLike, T: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps of the solution W = sqrt(p/p*) S W* (Eqs. 20 and 21).

    rho_bar = sqrt(p/p*) S T and Q_bar = (p/p*) S T Sᵀ.

    Args:
        S: shape (..., p, p*), with SᵀS = I.
        T: teacher overlaps, shape (p*, p*); None is the paper's T = I.

    Returns:
        (rho_bar, Q_bar), shapes (..., p, p*) and (..., p, p).
    """
    S = _tall("S", S)
    p, p_star = S.shape[-2:]
    ST = S @ _teacher(T, p_star)
    return np.sqrt(p / p_star) * ST, (p / p_star) * ST @ np.swapaxes(S, -1, -2)


def distance(S: ArrayLike, rho0: ArrayLike, Q0: ArrayLike, T: ArrayLike | None = None) -> float:
    """Squared Euclidean distance D(S)/N from the start to the solution of S (Eq. 17).

    D(S)/N = (p/p*) tr(S T Sᵀ) − 2 sqrt(p/p*) tr(Sᵀ rho0) + tr Q0, per input dimension and in the
    weights with w·w = N Q.

    Args:
        S: shape (p, p*). Off the manifold SᵀS = I the formula still holds.
        rho0: student-teacher overlaps of the start, shape (p, p*).
        Q0: student-student overlaps of the start, shape (p, p).
        T: teacher overlaps, shape (p*, p*); None is the paper's T = I.

    Returns:
        D(S)/N.
    """
    rho0, Q0, T = _overlaps(rho0, Q0, T)
    S = np.asarray(S, dtype=np.float64)
    if S.shape != rho0.shape:
        raise ValueError(f"S: got shape {S.shape}; allowed is that of rho0, {rho0.shape}")
    ratio = S.shape[0] / S.shape[1]
    return float(ratio * np.sum((S @ T) * S) - 2 * np.sqrt(ratio) * np.sum(S * rho0) + np.trace(Q0))


def distance_gradient(S: ArrayLike, rho0: ArrayLike, T: ArrayLike | None = None) -> np.ndarray:
    """Euclidean gradient of `distance` in S: 2 (p/p*) S T − 2 sqrt(p/p*) rho0.

    Args:
        S: shape (p, p*).
        rho0: student-teacher overlaps of the start, shape (p, p*).
        T: teacher overlaps, shape (p*, p*); None is the paper's T = I.

    Returns:
        The gradient, shape (p, p*).
    """
    S, rho0 = _tall("S", S), _tall("rho0", rho0)
    ratio = S.shape[0] / S.shape[1]
    return 2 * ratio * S @ _teacher(T, S.shape[1]) - 2 * np.sqrt(ratio) * rho0


def least_distance(
    rho0: ArrayLike,
    Q0: ArrayLike,
    T: ArrayLike | None,
    descents: int,
    rng: np.random.Generator,
) -> float:
    """The least `distance` over all solutions, by descents that do not use the closed form.

    For p = p* the S form two components, and a descent stays in its own, so each random S is
    used with both signs of its first column.

    Args:
        rho0: student-teacher overlaps of the start, shape (p, p*).
        Q0: student-student overlaps of the start, shape (p, p).
        T: teacher overlaps, shape (p*, p*); None is the paper's T = I.
        descents: number of random S to start from.
        rng: the random generator.

    Returns:
        The least D(S)/N of all descents.
    """
    both = lambda S: (distance(S, rho0, Q0, T), distance_gradient(S, rho0, T))
    p, p_star = np.shape(rho0)
    distances = []
    for _ in range(descents):
        S = stiefel.random_point(p, p_star, rng)
        for sign in (1, -1):
            S[:, 0] *= sign
            distances.append(stiefel.minimise(both, S).value)
    return min(distances)


def norm_outside(Q: ArrayLike, rho: ArrayLike) -> np.ndarray:
    """tr Q − |rho|², the student's norm outside the span of a teacher with T = I, (...,)."""
    Q, rho = np.asarray(Q, dtype=np.float64), np.asarray(rho, dtype=np.float64)
    return np.einsum("...kk->...", Q) - np.sum(rho**2, axis=(-2, -1))


def spare_norm(Q: ArrayLike, p_star: int) -> np.ndarray:
    """Mean of the p − p* smallest eigenvalues of Q, (...,), which vanish at a solution (T = I).

    NaN for p = p*, where there are none.
    """
    Q = np.asarray(Q, dtype=np.float64)
    spare = np.linalg.eigvalsh(Q)[..., : Q.shape[-1] - p_star]
    return spare.mean(-1) if spare.shape[-1] else np.full(Q.shape[:-2], np.nan)


def nearest_weights(V: ArrayLike, V_star: ArrayLike) -> np.ndarray:
    """The zero-error student nearest to V: sqrt(p/p*) S V*, S = polar_factor(V V*ᵀ) (Eqs. 16, 19).

    Args:
        V: student weights, shape (p, N), p >= p*.
        V_star: teacher weights, shape (p*, N).

    Returns:
        The weights of the solution, shape (p, N).
    """
    V, V_star = np.asarray(V, dtype=np.float64), np.asarray(V_star, dtype=np.float64)
    return np.sqrt(len(V) / len(V_star)) * polar_factor(V @ V_star.T) @ V_star


def is_conserved(
    Q0: ArrayLike, rho0: ArrayLike, T: ArrayLike | None = None, tol: float = 1e-8
) -> bool:
    """Whether S(t) = polar_factor(rho(t)) stays at S(0) under the overlap equations (Sec. 7.4).

    Let rho0 = S P with P = (rho0ᵀ rho0)^(1/2). S is conserved if Q0 leaves the column space of
    rho0 invariant and SᵀQ0S, P and T commute pairwise; in terms of overlaps, if Q0, rho0 rho0ᵀ and
    rho0 T rho0ᵀ commute pairwise. This holds at every learning rate, since both the O(η) and the
    O(η²) terms stay in the commuting algebra. The paper's start, Q0 = I with T = I, is an example.

    For T ∝ I the condition is [Q0, rho0 rho0ᵀ] = 0, and it is also necessary: dS/dt = 0 at t = 0
    iff SᵀQ0S/p + T/p* commutes with P and Q0 leaves the column space invariant. For other T the
    two non-commuting terms may cancel at t = 0, but S then leaves S(0) in general. The paper's
    claim about the nearest solution holds if this function returns True.

    Args:
        Q0: student-student overlaps, shape (p, p).
        rho0: student-teacher overlaps, shape (p, p*), p >= p*, full column rank.
        T: teacher overlaps, shape (p*, p*); None is the paper's T = I.
        tol: largest non-commuting part that counts as zero, relative to |Q0| and |T|.

    Returns:
        Whether S is conserved.
    """
    rho0, Q0, T = _overlaps(rho0, Q0, T)
    U, d, Vt = np.linalg.svd(rho0)
    _check_full_rank("rho0", d, rho0.shape[0])
    Q, T = U.T @ Q0 @ U / np.linalg.norm(Q0), Vt @ T @ Vt.T / np.linalg.norm(T)
    q = len(d)
    # dS/dt weighs an entry (i, j) by (d_i − d_j)/(d_i + d_j), not by d_i − d_j: a pair of small
    # singular values rotates as fast as a pair of large ones.
    turn = np.subtract.outer(d, d) / np.add.outer(d, d)
    A = Q[:q, :q]
    parts = (Q[q:, :q], turn * A, turn * T, A @ T - T @ A)
    return bool(max(np.linalg.norm(part) for part in parts) <= tol)


def _tall(name, matrix):
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim < 2 or matrix.shape[-2] < matrix.shape[-1] or matrix.shape[-1] < 1:
        raise ValueError(f"{name}: got shape {matrix.shape}; allowed is (..., p, p*) with p >= p*")
    return matrix


def _check_full_rank(name, d, p):
    if not np.all(d[..., -1] > p * np.finfo(float).eps * d[..., 0]):
        worst = np.min(d[..., -1])
        raise ValueError(
            f"{name}: got smallest singular value {worst:.1e}; allowed is full column rank"
        )


def _teacher(T, p_star):
    T = np.eye(p_star) if T is None else np.asarray(T, dtype=np.float64)
    if T.shape != (p_star, p_star):
        raise ValueError(f"T: got shape {T.shape}; allowed is {(p_star, p_star)}")
    return T


def _overlaps(rho0, Q0, T):
    rho0, Q0 = _tall("rho0", rho0), np.asarray(Q0, dtype=np.float64)
    if rho0.ndim != 2:
        raise ValueError(f"rho0: got shape {rho0.shape}; allowed is (p, p*)")
    p, p_star = rho0.shape
    if Q0.shape != (p, p):
        raise ValueError(f"Q0: got shape {Q0.shape}; allowed is {(p, p)}")
    return rho0, Q0, _teacher(T, p_star)
