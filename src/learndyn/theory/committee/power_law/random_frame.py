"""N_l weights trained outside the eigenbasis, averaged over the frame (worschech2024scaling).

Eq. 88 needs a covariance in a given frame. Its average over random frames is not in the paper;
it follows from the deterministic equivalent of a random projection: with
Σ_k λ_k/(λ_k + κ) = N_l,

    ε = (1 + σ_J²)/(2N) Σ_k λ_k κ/(λ_k + κ) = (1 + σ_J²) κ N_l/(2N),

up to relative corrections of order 1/N_l. Units are those of `features`.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from learndyn.runtime.types import Int
from learndyn.theory.committee.power_law.features import asymptote
from learndyn.theory.committee.power_law.learning_curve import Real


def mean_asymptote(lam: ArrayLike, n_trainable: Int, *, sigma_J: Real) -> float:
    """Eq. 88 averaged over random orthogonal frames, to leading order in 1/N_l.

    Args:
        lam: all eigenvalues of the covariance, with repetitions, largest first, (N,).
        n_trainable: N_l, in 1 … N.
        sigma_J: standard deviation of the student's entries at the start.

    Returns:
        The error.
    """
    lam, n = np.asarray(lam, dtype=np.float64), int(n_trainable)
    least = asymptote(lam, n_trainable, sigma_J=sigma_J)  # checks N_l
    if n == len(lam):
        return least
    # In the logarithm of κ, which spans many orders of magnitude.
    excess = lambda log: np.sum(lam / (lam + np.exp(log))) - n
    # Σ λ/(λ+κ) is below Σλ/κ, and at least N λ_N/(λ_N + κ): equal for a flat spectrum.
    low = np.log(lam[-1] * (len(lam) - n) / n) - 1
    high = np.log(np.sum(lam) / n)
    root = scipy.optimize.root_scalar(excess, bracket=(low, high), xtol=1e-14, rtol=1e-14).root
    kappa = np.exp(root)
    return float((1 + sigma_J**2) * kappa * n / (2 * len(lam)))


def excess(beta: Real) -> float:
    """The ratio of the errors in a random frame and in the eigenbasis, 1 ≪ N_l ≪ N, power law.

    β C^(1+β) with C = (π/(1+β))/sin(π/(1+β)), from Σ_k → ∫_0^∞ dk: both fall as N_l^-β.
    """
    angle = np.pi / (1 + beta)
    return float(beta * (angle / np.sin(angle)) ** (1 + beta))
