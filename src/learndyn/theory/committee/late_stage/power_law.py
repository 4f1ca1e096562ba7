"""The late stage of an erf committee on a power-law spectrum (worschech2024scaling, Sec. 5.2).

The teacher is typical, T^(1) = I and N = L, and every level is unlearned at α = 0: r^k = q^k = 0.
Each of the two groups of Eq. 17 is then a sum like Eq. 8 with its own learning rate, and falls as
α^(−β/(1+β)) inside its window. Scales are those of `erf`.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.problems import PowerLaw
from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.late_stage import erf_symmetric
from learndyn.theory.committee.late_stage.erf import slope_matrix
from learndyn.theory.committee.power_law import learning_curve


def group_rates(M: Int, eta: float) -> tuple[float, float]:
    """The learning rates, slow and fast, at which the groups of Eq. 17 are sums like Eq. 8.

    They are η/M times the smallest and the largest eigenvalue of Φ at T^(1) = I.
    """
    slow, fast = np.linalg.eigvalsh(slope_matrix(np.eye(int(M))))[[0, -1]] * (float(eta) / M)
    return float(slow), float(fast)


def error(alphas: ArrayLike, *, L: Int, beta: float, M: Int, eta: float) -> np.ndarray:
    """ε_g(α) of the late stage from unlearned levels, to first order (Eq. 17, corrected).

    Args:
        alphas: steps / N since the start, (n,).
        L: number of eigenvalues, N = L.
        beta: exponent of the spectrum.
        M: number of units.
        eta: learning rate.

    Returns:
        The error, (n,).
    """
    nothing, unlearned = np.zeros(int(L)), np.full(int(L), -1 / L)
    lam, parts = PowerLaw(int(L), int(L), beta).values, (unlearned, nothing, unlearned, nothing)
    groups = erf_symmetric.late_groups(alphas, *parts, lam, M, eta)
    return groups.slow + groups.fast


def window(*, L: Int, beta: float, M: Int, eta: float) -> tuple[float, float]:
    """(α_min, α_max) between which both groups fall as a power law.

    It begins with the window of the slow group and ends with that of the fast one.
    """
    slow, fast = group_rates(M, eta)
    sizes = {"lam_plus": PowerLaw(int(L), int(L), beta).values[0], "L": L, "beta": beta}
    ends = (learning_curve.window(**sizes, eta=rate) for rate in (slow, fast))
    (first, _), (_, last) = ends
    return first, last


def local_exponent(alpha: ArrayLike, *, L: Int, beta: float, M: Int, eta: float) -> Array:
    """−d ln ε/d ln α of the fast group with its finite-L correction, the larger of the two."""
    lam_plus = float(PowerLaw(int(L), int(L), beta).values[0])
    rate, alpha = group_rates(M, eta)[1], np.asarray(alpha, dtype=np.float64)
    return learning_curve.local_exponent(alpha, lam_plus=lam_plus, L=L, beta=beta, eta=rate)
