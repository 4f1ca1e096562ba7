"""The zero-error manifold of the quadratic teacher-student committee, and which point is reached.

With p student and p* teacher units of overlaps Q = WWᵀ/N, rho = WW*ᵀ/N, T = W*W*ᵀ/N, the networks
agree on every input iff WᵀW/p = W*ᵀW*/p* (Eq. 15), that is W = sqrt(p/p*) S W* with SᵀS = I
(Eq. 16). Equation numbers are those of Bocchi et al., arXiv:2604.03068. The paper has T = I;
general T is allowed here, and None means T = I.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.numerics import checks
from learndyn.numerics.types import Int
from learndyn.theory.committee import quadratic


def polar_factor(rho: ArrayLike) -> np.ndarray:
    """S = rho (rhoᵀ rho)^(-1/2) (Eqs. 19 and 22): the nearest solution to a student at rho.

    It minimises `distance` over SᵀS = I for every T. Computed as U Vᵀ from rho = U d Vᵀ, which
    loses no digits to the square in rhoᵀ rho.

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


def approach_distance(p: Int, p_star: Int) -> float:
    """Lim t |rho(t) − rho_bar| of a start Q = q I for p > p*, p^(3/2) p* (p − p*)/(32 (p + 2)).

    On the way in, the outer norm q_⊥ decays as 1/t (`quadratic.tail_norm`) and the inner
    overlaps follow it: rho = rho_bar (1 + p* m/4), m = 1 − tr Q/p = −2 (p − p*) q_⊥/(p (p* + 2)).
    The terms O(η²) of the equations enter at O(q_⊥²): the limit holds at every stable η. It is 0
    for p = p*, where the approach is exponential.

    Args:
        p: number of student units, at least p*.
        p_star: number of teacher units.

    Returns:
        The limit, with t = η α.

    Examples:
        >>> round(approach_distance(6, 3), 4)
        0.5167
    """
    m = 2 * (p - p_star) * quadratic.tail_norm(p, p_star) / (p * (p_star + 2))
    return float(np.sqrt(p) * p_star * m / 4)


def approach_correction(p: Int, p_star: Int, kick: float = 0.0) -> float:
    """The next order k of that tail: growth rates are their limits times 1 − k/t + O(log t/t²).

    It is the same for 1/|rho − rho_bar| and for 1/sqrt(R), which are both linear in 1/q_⊥ to this
    order: dq_⊥/dt = −(16 (p + 2)/(p² (p* + 2))) q_⊥² [1 − κ q_⊥ + O(q_⊥²)] and k = κ lim t q_⊥,

        κ = { p² p*³ (p − p*) + 2 η p p* (p* + 2) [p*² + 2 p* + 8 − p (p* − 2)]
              − 16 η² (p* + 2)² (p + p* + 4) } / { p² (p* + 2)² [p p* − 4 η (p* + 2)] }.

    Args:
        p: number of student units, more than p*.
        p_star: number of teacher units.
        kick: η / batch, the strength of the sampling noise; 0 is the flow.

    Returns:
        The number k, in units of t = η α.
    """
    q, eta = p_star, kick
    flow = p**2 * q**3 * (p - q)
    first = 2 * eta * p * q * (q + 2) * (q**2 + 2 * q + 8 - p * (q - 2))
    second = 16 * eta**2 * (q + 2) ** 2 * (p + q + 4)
    kappa = (flow + first - second) / (p**2 * (q + 2) ** 2 * (p * q - 4 * eta * (q + 2)))
    return float(kappa * quadratic.tail_norm(p, q))


def is_conserved(
    Q0: ArrayLike, rho0: ArrayLike, T: ArrayLike | None = None, tol: float = 1e-8
) -> bool:
    """Whether S(t) = polar_factor(rho(t)) stays at S(0) under the overlap equations (Sec. 7.4).

    With rho0 = S P, P = (rho0ᵀ rho0)^(1/2): it does if Q0 leaves the column space of rho0
    invariant and SᵀQ0S, P and T commute pairwise; in overlaps, if Q0, rho0 rho0ᵀ and
    rho0 T rho0ᵀ commute pairwise. That holds at every learning rate, since both the O(η) and the
    O(η²) terms stay in the commuting algebra. Q0 = I with T = I, the paper's start, is a case.

    Where T ∝ I the condition, then [Q0, rho0 rho0ᵀ] = 0, is also necessary: dS/dt = 0 at t = 0
    iff SᵀQ0S/p + T/p* commutes with P and Q0 leaves the column space invariant. For other T a
    start may cancel the two non-commuting terms at t = 0, but then leaves S(0) in general.
    The paper's nearest-solution claim holds where this function says True.

    Args:
        Q0: student-student overlaps, shape (p, p).
        rho0: student-teacher overlaps, shape (p, p*), p >= p*, full column rank.
        T: teacher overlaps, shape (p*, p*); None is the paper's T = I.
        tol: largest non-commuting part that counts as none, relative to |Q0| and |T|.

    Returns:
        True where S is conserved.
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

    p(p − 1)/2 − (p − k)(p − k − 1)/2 with k = min(p*, N), the rank of the teacher; for p* <= N
    it is p p* − p*(p* + 1)/2.

    Args:
        p: number of student units, at least k.
        p_star: number of teacher units.
        N: input dimension; None is any N >= p*.

    Returns:
        The dimension.

    Raises:
        ValueError: if p < k: then there is no zero-error solution.

    Examples:
        >>> manifold_dimension(3, 2), manifold_dimension(5, 1)
        (3, 4)
    """
    p, k = checks.positive_int("p", p), checks.positive_int("p_star", p_star)
    if N is not None:
        k = min(k, checks.positive_int("N", N))
    if p < k:
        raise ValueError(f"p: got {p}; allowed is at least min(p_star, N) = {k}")
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
    """Directions in which the rotations V -> exp(Ω) V move V, one for each pair of units.

    All solutions are rotations of one, so that their rank at a solution is the dimension of the
    zero-error manifold (Sec. 7.5.2).

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
