"""Deviations of students from their teachers, computed from the overlaps by level, K = M."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from learndyn.theory.committee.state import Overlaps


def deviation(state: Overlaps) -> np.ndarray:
    """e^k = q^k − r^k − r^kᵀ + t^k, (L, M, M): overlaps of the differences J_i − B_i."""
    R = np.asarray(state.R)
    if R.shape[1] != R.shape[2]:
        raise ValueError(f"state: got R of shape {R.shape}; allowed is K = M")
    return np.asarray(state.Q) - R - R.swapaxes(1, 2) + np.asarray(state.T)


def in_teachers_order(state: Overlaps, lam: ArrayLike) -> Overlaps:
    """The same state with students renumbered so that Σ_i R^(1)_ii is largest, K = M."""
    R1 = np.einsum("k,kij->ij", np.asarray(lam, dtype=np.float64), state.R)
    # The Hungarian method: trying all M! orders would be slow from M = 10 on.
    student = scipy.optimize.linear_sum_assignment(-R1.T)[1]
    Q = np.asarray(state.Q)[:, student[:, None], student]
    return Overlaps(Q, np.asarray(state.R)[:, student], state.T)


def mean_deviations(
    state: Overlaps,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(r, s, q, c) by level, (L,) each: mean deviations from t^k.

    r and q are the means over the diagonals of r^k and q^k, s and c over the other entries (M > 1).
    """
    M, T = state.T.shape[1], np.asarray(state.T)
    mean_on = lambda X: np.trace(X, axis1=1, axis2=2) / M
    mean_off = lambda X: (X.sum(axis=(1, 2)) - M * mean_on(X)) / (M * (M - 1))
    r, q = np.asarray(state.R) - T, np.asarray(state.Q) - T
    return mean_on(r), mean_off(r), mean_on(q), mean_off(q)


def distance(state: Overlaps, lam: ArrayLike) -> float:
    """|J − B|/|B| in the metric of the inputs: √(Σ_k λ_k tr e^k / Σ_k λ_k tr t^k)."""
    lam = np.asarray(lam, dtype=np.float64)
    size = lambda X: lam @ np.trace(X, axis1=1, axis2=2)
    return float(np.sqrt(size(deviation(state)) / size(np.asarray(state.T))))


def alignments(state: Overlaps, lam: ArrayLike) -> np.ndarray:
    """R_nn/√(Q_nn T_nn) of the level sums, (M,); 1 for a student parallel to its teacher."""
    sums = (np.einsum("k,kii->i", np.asarray(lam), X) for X in (state.Q, state.R, state.T))
    Q, R, T = sums
    return R / np.sqrt(Q * T)
