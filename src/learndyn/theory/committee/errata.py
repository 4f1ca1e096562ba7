"""Forms that a paper prints and that are wrong, kept so that a study can show it."""

import numpy as np

from learndyn.numerics.types import Int


def printed_eq34_noise(Q: np.ndarray, rho: np.ndarray, eta: float) -> np.ndarray:
    """The η² term of dQ/dα as Eq. 34 of bocchi2026escape prints it (T = I).

    The bracket behind Q_kk' should be the risk R; it is printed as
    1 + 2/p* − (2p − 1)/p² (Σ Q_rr)² − (1/(p p*)) Σ ρ². All other terms are right.

    Args:
        Q: student-student overlaps (p, p).
        rho: student-teacher overlaps (p, p*).
        eta: learning rate.

    Returns:
        The printed term, (p, p).
    """
    p, p_star = rho.shape
    trace, cross = np.trace(Q), rho @ rho.T
    bracket = 1 + 2 / p_star - (2 * p - 1) / p**2 * trace**2 - np.sum(rho**2) / (p * p_star)
    others = (
        (4 / p_star + 8 / p_star**2 - 4 * trace / (p * p_star)) * cross
        + (4 * trace / p**2 - 4 / p) * Q @ Q
        + 8 / p**2 * Q @ Q @ Q
        - 8 / (p * p_star) * (cross @ Q + Q @ cross)
    )
    return 16 * eta**2 / p**2 * (Q * bracket + others)


def printed_extreme_ratio(N: Int, p_star: Int) -> float:
    """Negative over null eigenvalues of the plateau "up to p = N", as Sec. 7.2.2 prints it.

    A plateau needs p + p* ≤ N; the extreme is at p = N − p* (`negative_to_null_ratio`).
    """
    return float(p_star / (N / 2 - p_star - 1 / 2))
