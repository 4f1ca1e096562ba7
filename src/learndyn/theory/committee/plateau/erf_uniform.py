"""Closed forms of the plateau and the escape of an erf committee, for uniform T.

All T_nn = T and every off-diagonal entry is D/(M − 1). D is the ROW SUM of the off-diagonal
entries, as in the main text of worschech2024scaling; "T_nm = D" of App. C.2 contradicts it. Scales
and letters are those of `erf`, which is exact for every T; without an index T and D stand for
l = 1.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.plateau.erf import square


def uniform_part(T: ArrayLike) -> tuple[float, float]:
    """(T, D) by which the paper replaces T_nm: mean diagonal entry and mean off-diagonal row sum.

    Examples:
        >>> uniform_part([[1.0, 0.25], [0.25, 1.5]])
        (1.25, 0.25)
    """
    T = square("T", T)
    return float(np.trace(T) / len(T)), float((T.sum() - np.trace(T)) / len(T))


def uniform_overlaps(T: float, D: float, M: Int) -> np.ndarray:
    """T_nm of uniform teachers: T on the diagonal, D/(M − 1) off it, (M, M)."""
    unit = np.eye(int(M))
    return T * unit + D / max(M - 1, 1) * (1 - unit)


def unevenness(T: ArrayLike) -> float:
    """How far T is from uniform: root mean square eigenvalue of T − uniform part, over T.

    Quantities that are independent of the order of the teachers depend on it only by its square.

    Examples:
        >>> unevenness([[1.25, 0.5], [0.5, 1.25]])
        0.0
    """
    T, (t, d) = square("T", T), uniform_part(T)
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

    The published factor is T^(l)/T, which is wrong for D ≠ 0 (`errata.printed_eq98`).
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
    """R*(l)_n and Q*(l), for any T (Eq. 96, with the factor 1/T^(1)_nn, not printed there).

    Args:
        Tl: T^(l), (M, M).
        T: T^(1), (M, M).

    Returns:
        R*(l) (M,) and Q*(l); exact for uniform T with D = 0.
    """
    R, Q = _row_by_row(T)
    factor = np.diag(square("Tl", Tl)) / np.diag(square("T", T))
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


def typical_escape_time(lam: ArrayLike, M: Int, eta: float) -> float:
    """τ_esc of a typical teacher, T = 1 and D = 0, on levels of one size (Eq. 15).

    T^(2) is the mean of λ_k²: for a power-law spectrum τ_esc grows as M² and falls as 1/L, for
    large M and L.
    """
    second = float(np.mean(np.asarray(lam, dtype=np.float64) ** 2))
    return escape_time(1.0, 0.0, second, 0.0, M, eta)


def overlap_escape(alpha: Array | float, r0: float, tau: float) -> Array:
    """r(α) = r0 e^(α/τ_esc) (Eq. 114, whose published exponent lacks λ_r)."""
    return r0 * np.exp(np.asarray(alpha) / tau)


def escape_depth(T: float, D: float, M: Int) -> float:
    """(ε* − ε_g)/r² for small r, with R_ii = R* + r and R_im = R* − r/(M−1) (Eq. 115, corrected).

    The published formula has T in place of ((1+T)/2)² (`errata.printed_eq115`).
    """
    S = T + D
    gap = ((1 + T) / 2) ** 2 - S**2 / (4 * M**2)
    return float(S * (M * (1 + T) - S) / (8 * np.pi * M * (M - 1) * gap**1.5))


def error_escape(alpha: Array | float, r0: float, tau: float, T: float, D: float, M: Int) -> Array:
    """ε* − ε_g = depth · r(α)², with e^(2α/τ_esc) (Eq. 115; published with e^(α/τ_esc))."""
    return escape_depth(T, D, M) * overlap_escape(alpha, r0, tau) ** 2


def plateau_length(tau: float, constant: float, sigma_J: float, N: Int) -> float:
    """α_P − α_0 = τ_esc (constant − ½ ln σ_J² + ½ ln N) (Eqs. 12 and 117).

    The constant, called D in the paper, is ln(B/c). With c = σ_P/σ_J from a measured σ_P, as in
    App. C.4, ½ ln N is counted twice, since σ_P ∝ 1/√N already contains it: use `escape_length`.
    """
    return float(tau * (constant - np.log(sigma_J) + np.log(N) / 2))


def escape_length(tau: float, B: float, sigma_P: float) -> float:
    """τ_esc ln(B/σ_P): the time in which a spread σ_P of R on the plateau grows to B.

    The consistent form of Eq. 117.
    """
    return float(tau * np.log(B / sigma_P))


def departure_size(R_star: float) -> float:
    """B = (e − 1) R* of App. C.4: students leave the plateau where R grows from R* to e R*."""
    return float((np.e - 1) * R_star)


def printed_extra_folds(N: Int) -> float:
    """½ ln N, the e-folds that Eq. 117 counts twice if σ_P already falls as 1/√N."""
    return float(np.log(N) / 2)


def length_remainder(M: Int) -> float:
    """1 + ln M, the error in e-folds of `escape_length` at the end of the plateau.

    The largest of M² deviations leaves first, and the end of the growth is not linear. This is an
    order of magnitude, not a bound.
    """
    return float(1 + np.log(M))


def _row_by_row(T: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    T = square("T", T)
    rows = [plateau_overlaps(T[n, n], total - T[n, n], len(T)) for n, total in enumerate(T.sum(1))]
    R, Q = np.array(rows).T
    return R, Q
