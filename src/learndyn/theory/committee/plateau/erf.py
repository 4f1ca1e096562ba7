"""The symmetric plateau of an erf committee and the escape from it (worschech2024scaling).

Scales of the paper: student (√M/K) Σ g(x_i), teacher (1/√M) Σ g(y_n), loss (1/2)(ζ − σ)², flow
limit, K = M unless stated otherwise. T^(l) = Σ_k λ_k^l t^k; without an index T stands for l = 1.

Everything here is exact for every T. On the plateau all students equal J = Σ_m w_m B_m with

    w_m = ratio · √[(1 + 2Q) / ((1 + Q)(1 + T_mm) − R_m²)],   R = T w,   Q = wᵀ T w,

where ratio = (teacher scale) / (K · student scale), 1/M in the paper. Deviations of the students
that sum to zero obey a closed linear equation in the M overlaps of each, whose matrix is that
of `escape_rates`: the levels enter only through T^(1) and T^(2). Closed forms for uniform T are
in `erf_uniform`.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.types import Int
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
        ValueError: if T is not square, or if the iteration does not converge.
    """
    T = square("T", T)
    ratio = 1 / len(T) if ratio is None else ratio
    w = np.full(len(T), ratio)
    for _ in range(MOST_ITERATIONS):
        last, w = w, ratio * _stretch(T, w)
        # A few units of rounding: an exact repetition might never come.
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


def equal_students_error(Q: float, R: ArrayLike, T: ArrayLike) -> float:
    """ε_g if all K = M students have overlaps Q with each other and R_n with teachers (Eq. 19).

    (1/π)[M arcsin(Q/(1+Q)) + (1/M) Σ_nm arcsin(T_nm/√((1+T_nn)(1+T_mm))) −
    2 Σ_n arcsin(R_n/√((1+Q)(1+T_nn)))], a correction of the published Eq. 19.

    Args:
        Q: Q^(1) of every pair of students.
        R: R^(1)_n of every student, (M,).
        T: T^(1), (M, M).

    Returns:
        The error; that of the plateau if Q and R are those of the plateau.
    """
    T, R = square("T", T), np.asarray(R, dtype=np.float64)
    M, edge = len(T), np.sqrt(1 + np.diag(T))
    teachers = np.arcsin(T / np.outer(edge, edge)).sum() / M
    both = np.arcsin(R / (np.sqrt(1 + Q) * edge)).sum()
    return float((M * np.arcsin(Q / (1 + Q)) + teachers - 2 * both) / np.pi)


def near_plateau(T_levels: ArrayLike, lam: ArrayLike, size: float) -> Overlaps:
    """The plateau (K = M) with every student moved towards its own teacher.

    J_i = Σ_m w_m B_m + size · (B_i − mean of B): the deviations sum to zero.

    Args:
        T_levels: t^k, (L, M, M).
        lam: eigenvalues λ_k, (L,).
        size: how far the students are moved.

    Returns:
        The overlaps.
    """
    t, lam = np.asarray(T_levels, dtype=np.float64), np.asarray(lam, dtype=np.float64)
    w = plateau_weights(np.einsum("k,knm->nm", lam, t))
    C = w + size * (np.eye(len(w)) - 1 / len(w))
    return Overlaps(C @ t @ C.T, C @ t, t)


def equal_students(state: Overlaps) -> Overlaps:
    """The projection on states with equal students, for `find_fixed_point`.

    Q is averaged over both students and R over the student. The drift keeps students equal.
    """
    Q, R = (a.mean(axes, keepdims=True) for a, axes in ((state.Q, (1, 2)), (state.R, 1)))
    # Adding zeros broadcasts the means, for NumPy and traced arrays alike.
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
    T1, T2 = square("T1", T1), square("T2", T2)
    w, M = plateau_weights(T1, ratio), len(T1)
    ratio = 1 / M if ratio is None else ratio
    R, diagonal = T1 @ w, np.diag(T1)
    Q = w @ R
    E, F = (1 + Q) * (1 + diagonal) - R**2, 1 + 2 * Q
    beta, gamma = 2 / np.pi / np.sqrt(E), 2 / np.pi / np.sqrt(F)
    # Derivatives in δR_i, with δQ_ii = 2 w·δR_i: of β_i, of d_i, and of −(M/K) Σ_j γ_ij.
    d_beta = np.diag(beta * R / E) - np.outer(beta * (1 + diagonal) / E, w)
    d_curvature = (-beta - R @ d_beta) / (1 + Q) + gamma / ratio / F * w
    d_slope = gamma / ratio / F * w
    v = d_beta + np.outer(w, d_curvature + d_slope)
    rates = np.linalg.eigvals(T2 @ v).real / (M if units is None else int(units))
    return np.sort(rates)[::-1]


def second_mode_remainder(tau: float, second: float, grown: float) -> float:
    """A bound on how far the growth rate of the students' spread is below 1/τ, relative to it.

    Two modes start equal and grow at the rates 1/τ and 1/τ₂. The second lowers the rate of their
    sum by at most (1 − ρ) grown^−(1−ρ), ρ = τ/τ₂, when the first has grown by the factor `grown`.

    Args:
        tau: e-folding time of the fastest mode.
        second: e-folding time of the next mode; negative if it decays.
        grown: growth factor of the fastest mode since both were equal.

    Returns:
        The bound.
    """
    slower = 1 - max(tau / second, 0)
    return float(slower * grown**-slower)


def _stretch(T: np.ndarray, w: np.ndarray) -> np.ndarray:
    R = T @ w
    Q = w @ R
    return np.sqrt((1 + 2 * Q) / ((1 + Q) * (1 + np.diag(T)) - R**2))


def square(name: str, T: ArrayLike) -> np.ndarray:
    """T in double precision; a ValueError if it is not (M, M)."""
    T = np.asarray(T, dtype=np.float64)
    if T.ndim != 2 or T.shape[0] != T.shape[1]:
        raise ValueError(f"{name}: got shape {T.shape}; allowed is (M, M)")
    return T
