"""The symmetric plateau of an erf committee and the escape from it (worschech2024scaling).

Scales of the paper: student (√M/K) Σ g(x_i), teacher (1/√M) Σ g(y_n), loss (1/2)(ζ − σ)², flow
limit, K = M unless said otherwise. T^(l) = Σ_k λ_k^l t^k; without an index T and D stand for
l = 1.

Exact, for every T. On the plateau all students are one vector J = Σ_m w_m B_m with

    w_m = ratio · √[(1 + 2Q) / ((1 + Q)(1 + T_mm) − R_m²)],   R = T w,   Q = wᵀ T w,

where ratio = (teacher scale) / (K · student scale), 1/M in the paper. Deviations of the students
that sum to zero obey a closed linear equation in the M overlaps of each, whose matrix is that
of `escape_rates`: no level enters but through T^(1) and T^(2).

Closed forms, for uniform T: all T_nn = T and every off-diagonal entry D/(M − 1). D is the ROW
SUM of the off-diagonal entries, as in the main text; "T_nm = D" of App. C.2 contradicts it.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.numerics.types import Array, Int
from learndyn.theory.committee.state import Overlaps

MOST_ITERATIONS = 10_000


def plateau_weights(T: ArrayLike, ratio: float | None = None) -> np.ndarray:
    """w of J = Σ_m w_m B_m on the plateau, for any T (exact partner of Eq. 95).

    Iterated to rounding; for M = 1 the iteration contracts by T/(1 + 2T) < 1/2.

    Args:
        T: teacher-teacher overlaps T^(1), (M, M).
        ratio: teacher scale over K times student scale; None is the paper's 1/M.

    Returns:
        w, (M,).

    Raises:
        ValueError: where T is not square, or the iteration does not settle.
    """
    T = _square("T", T)
    ratio = 1 / len(T) if ratio is None else ratio
    w = np.full(len(T), ratio)
    for _ in range(MOST_ITERATIONS):
        last, w = w, ratio * _stretch(T, w)
        if np.abs(w - last).max() <= 4 * np.finfo(float).eps * np.abs(w).max():
            return w
    raise ValueError("T: got overlaps without a plateau; allowed are those of a teacher's weights")


def plateau_state(
    T_levels: ArrayLike, lam: ArrayLike, units: Int | None = None, ratio: float | None = None
) -> Overlaps:
    """The plateau by level, exact for any T: r^k_n = (t^k w)_n, q^k = wᵀ t^k w.

    Args:
        T_levels: t^k, (L, M, M).
        lam: eigenvalues λ_k, (L,).
        units: K; None is M.
        ratio: as in `plateau_weights`.

    Returns:
        The overlaps, a fixed point of the flow.
    """
    t, lam = np.asarray(T_levels, dtype=np.float64), np.asarray(lam, dtype=np.float64)
    if t.ndim != 3 or t.shape[:1] != lam.shape:
        raise ValueError(f"T_levels: got {t.shape} for lam {lam.shape}; allowed is (L, M, M), (L,)")
    w = plateau_weights(np.einsum("k,knm->nm", lam, t), ratio)
    K, r = (len(w) if units is None else int(units)), t @ w
    q = r @ w
    return Overlaps(np.tile(q[:, None, None], (1, K, K)), np.tile(r[:, None, :], (1, K, 1)), t)


def near_plateau(T_levels: ArrayLike, lam: ArrayLike, size: float) -> Overlaps:
    """The plateau (K = M) with every student moved to a teacher of its own.

    J_i = Σ_m w_m B_m + size · (B_i − mean of B): the deviations sum to zero.

    Args:
        T_levels: t^k, (L, M, M).
        lam: eigenvalues λ_k, (L,).
        size: how far.

    Returns:
        The overlaps.
    """
    t, lam = np.asarray(T_levels, dtype=np.float64), np.asarray(lam, dtype=np.float64)
    w = plateau_weights(np.einsum("k,knm->nm", lam, t))
    C = w + size * (np.eye(len(w)) - 1 / len(w))
    return Overlaps(C @ t @ C.T, C @ t, t)


def equal_students(state: Overlaps) -> Overlaps:
    """The projection on states in which all students are one vector, for `find_fixed_point`.

    It commutes with the drift there: Q becomes its mean over both students, R over the student.
    """
    Q, R = (a.mean(axes, keepdims=True) for a, axes in ((state.Q, (1, 2)), (state.R, 1)))
    return Overlaps(Q + 0 * state.Q, R + 0 * state.R, state.T)


def escape_rates(
    T1: ArrayLike, T2: ArrayLike, units: Int | None = None, ratio: float | None = None
) -> np.ndarray:
    """Rates of the symmetry-breaking deviations from the plateau, exact for any T.

    With Σ_i δJ_i = 0 and δR_i the overlaps of δJ_i, d δR_i/dt = T^(2) v_i / K, where v_i is
    linear in δR_i. The exact partner of Eq. 116: each rate belongs to K − 1 directions, and for
    uniform T the largest, 1/(η τ_esc), comes M − 1 times.

    Args:
        T1: T^(1), (M, M).
        T2: T^(2), (M, M).
        units: K; None is M.
        ratio: as in `plateau_weights`.

    Returns:
        The M rates per t = η α, fastest growth first, in the paper's scales; for others times
        2 · loss_scale · student scale · teacher scale · K.
    """
    T1, T2 = _square("T1", T1), _square("T2", T2)
    w, M = plateau_weights(T1, ratio), len(T1)
    ratio = 1 / M if ratio is None else ratio
    R, diagonal = T1 @ w, np.diag(T1)
    Q = w @ R
    E, F = (1 + Q) * (1 + diagonal) - R**2, 1 + 2 * Q
    beta, gamma = 2 / np.pi / np.sqrt(E), 2 / np.pi / np.sqrt(F)
    # Derivatives in δR_i, with δQ_ii = 2 w·δR_i: of β_i, of d_i, and of −(M/K) Σ_j γ_ij.
    d_beta = np.diag(beta * R / E) - np.outer(beta * (1 + diagonal) / E, w)
    d_bend = (-beta - R @ d_beta) / (1 + Q) + gamma / ratio / F * w
    d_slope = gamma / ratio / F * w
    v = d_beta + np.outer(w, d_bend + d_slope)
    rates = np.linalg.eigvals(T2 @ v).real / (M if units is None else int(units))
    return np.sort(rates)[::-1]


def uniform_part(T: ArrayLike) -> tuple[float, float]:
    """(T, D) by which the paper replaces T_nm: mean diagonal entry and mean off-diagonal row sum.

    Examples:
        >>> uniform_part([[1.0, 0.25], [0.25, 1.5]])
        (1.25, 0.25)
    """
    T = _square("T", T)
    return float(np.trace(T) / len(T)), float((T.sum() - np.trace(T)) / len(T))


def unevenness(T: ArrayLike) -> float:
    """How far T is from uniform: root mean square eigenvalue of T − uniform part, over T.

    What does not change with the order of the teachers is uniform up to the square of this.

    Examples:
        >>> unevenness([[1.25, 0.5], [0.5, 1.25]])
        0.0
    """
    T, (t, d) = _square("T", T), uniform_part(T)
    M = len(T)
    off = d / max(M - 1, 1)
    return float(np.linalg.norm(T - off - (t - off) * np.eye(M)) / np.sqrt(M) / t)


def plateau_overlaps(T: float, D: float, M: Int) -> tuple[float, float]:
    """(R*, Q*) of every entry, for uniform T (Eqs. 13 and 97).

    Q* = (T + D)/(M(1 + T) − T − D) and R* = √[(T + D) Q*/M].
    """
    Q = (T + D) / (M * (1 + T) - T - D)
    return float(np.sqrt((T + D) * Q / M)), float(Q)


def plateau_moments(
    Tl: Array | float, Dl: Array | float, T: float, D: float, M: Int
) -> tuple[Array | float, Array | float]:
    """(R*(l), Q*(l)) for uniform T: (R*, Q*) times (T^(l) + D^(l))/(T + D) (Eq. 98, corrected).

    The print has T^(l)/T, and is wrong for D ≠ 0 (`errata.printed_eq98`).
    """
    R, Q = plateau_overlaps(T, D, M)
    factor = (Tl + Dl) / (T + D)
    return factor * R, factor * Q


def plateau_error(T: float, D: float, M: Int) -> float:
    """The generalisation error on the plateau, for uniform T (Eq. 99, corrected and simplified).

    (1/π)[arcsin(T/(1+T)) + (M−1) arcsin(D/((M−1)(1+T))) − M arcsin((T+D)/(M(1+T)))].
    """
    pairs = (M - 1) * np.arcsin(D / ((M - 1) * (1 + T))) if M > 1 else 0.0
    both = np.arcsin(T / (1 + T)) + pairs - M * np.arcsin((T + D) / (M * (1 + T)))
    return float(both / np.pi)


def approximate_overlaps(T: ArrayLike) -> tuple[np.ndarray, float]:
    """R*_n, the same for all students, and Q*, for any T (Eq. 95): Eq. 97 row by row, its mean.

    Args:
        T: T^(1), (M, M).

    Returns:
        R* (M,) and Q*; exact for uniform T only (`plateau_weights` is exact for all).
    """
    R, Q = _row_by_row(T)
    return R, float(Q.mean())


def approximate_moments(Tl: ArrayLike, T: ArrayLike) -> tuple[np.ndarray, float]:
    """R*(l)_n and Q*(l), for any T (Eq. 96, with the factor 1/T^(1)_nn that the print lacks).

    Args:
        Tl: T^(l), (M, M).
        T: T^(1), (M, M).

    Returns:
        R*(l) (M,) and Q*(l); exact for uniform T with D = 0.
    """
    R, Q = _row_by_row(T)
    factor = np.diag(_square("Tl", Tl)) / np.diag(_square("T", T))
    return factor * R, float(np.mean(factor * Q))


def escape_gain(T: float, D: float, M: Int) -> float:
    """g_r of dr/dα = η g_r Ũ r, for uniform T (Eq. 112)."""
    S = T + D
    return float(2 / np.pi * S / np.sqrt(M * (1 + T) - S) / (M * (1 + T) + S) ** 1.5)


def escape_time(T: float, D: float, T2: float, D2: float, M: Int, eta: float) -> float:
    """τ_esc = 1/(η g_r λ_r), λ_r = T^(2) − D^(2)/(M−1), for uniform T (Eqs. 15, 113 and 116).

    The e-folding time in α of the ORDER PARAMETERS r; the error leaves its plateau twice as
    fast (`error_escape`). Exact: 1/τ_esc is the top eigenvalue of the Jacobian.
    """
    return float(1 / (eta * escape_gain(T, D, M) * (T2 - D2 / (M - 1))))


def overlap_escape(alpha: Array | float, r0: float, tau: float) -> Array:
    """r(α) = r0 e^(α/τ_esc) (Eq. 114, whose exponent lacks λ_r in print)."""
    return r0 * np.exp(np.asarray(alpha) / tau)


def escape_depth(T: float, D: float, M: Int) -> float:
    """(ε* − ε_g)/r² for small r, with R_ii = R* + r and R_im = R* − r/(M−1) (Eq. 115, corrected).

    The print has T in place of ((1+T)/2)² (`errata.printed_eq115`).
    """
    S = T + D
    gap = ((1 + T) / 2) ** 2 - S**2 / (4 * M**2)
    return float(S * (M * (1 + T) - S) / (8 * np.pi * M * (M - 1) * gap**1.5))


def error_escape(alpha: Array | float, r0: float, tau: float, T: float, D: float, M: Int) -> Array:
    """ε* − ε_g = depth · r(α)², with e^(2α/τ_esc) (Eq. 115; the print has e^(α/τ_esc))."""
    return escape_depth(T, D, M) * overlap_escape(alpha, r0, tau) ** 2


def plateau_length(tau: float, constant: float, sigma_J: float, N: Int) -> float:
    """α_P − α_0 = τ_esc (constant − ½ ln σ_J² + ½ ln N) (Eqs. 12 and 117).

    The constant is called D in the paper, ln(B/c). With c = σ_P/σ_J from a σ_P measured on R,
    as App. C.4 takes it, ½ ln N counts a second time what σ_P ∝ 1/√N holds already: use
    `escape_length`.
    """
    return float(tau * (constant - np.log(sigma_J) + np.log(N) / 2))


def escape_length(tau: float, B: float, sigma_P: float) -> float:
    """τ_esc ln(B/σ_P): the time in which a spread σ_P of R on the plateau grows to B.

    The consistent form of Eq. 117.
    """
    return float(tau * np.log(B / sigma_P))


def _stretch(T: np.ndarray, w: np.ndarray) -> np.ndarray:
    R = T @ w
    Q = w @ R
    return np.sqrt((1 + 2 * Q) / ((1 + Q) * (1 + np.diag(T)) - R**2))


def _row_by_row(T: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    T = _square("T", T)
    rows = [plateau_overlaps(T[n, n], total - T[n, n], len(T)) for n, total in enumerate(T.sum(1))]
    R, Q = np.array(rows).T
    return R, Q


def _square(name: str, T: ArrayLike) -> np.ndarray:
    T = np.asarray(T, dtype=np.float64)
    if T.ndim != 2 or T.shape[0] != T.shape[1]:
        raise ValueError(f"{name}: got shape {T.shape}; allowed is (M, M)")
    return T
