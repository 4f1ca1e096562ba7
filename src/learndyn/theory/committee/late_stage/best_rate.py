"""The learning rate of least error for an erf committee near its teacher. Own derivation.

Scales and letters of `erf`, with T^(1) = I, equal shares φ_k = 1/L and Σ_k φ_k λ_k = 1. With the
η² term the overlaps e^k of J − B obey, to first order,

    ė^k = −(η/M) λ_k D e^k + (η/M)² λ_k φ_k Ω E,   E = Σ_j λ_j e^j,   ε_g = tr(D E)/(4M),

D e = Φ e + e Φ. What noise adds to level k decays at the rate of that level. If E changes more
slowly, E = F + (η/M) D⁻¹Ω E, where F is the remainder of the initial deviation. Inside the window
of a power-law spectrum F = (η α D)^(−s) F₀ with s = β/(1+β), so that

    ε_g ∝ η^(−s) tr D (1 − (η/M) D⁻¹Ω)⁻¹ D^(−s) I.

For M = 1 this is η^(−s)/(1 − η/η_c), with its minimum at η/η_c = s/(1+s) = β/(1+2β). Several units
have two decay rates and two noise gains, which shifts the minimum.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from learndyn.problems import PowerLaw
from learndyn.runtime.types import Int
from learndyn.theory.committee.late_stage.erf import critical_gain, symmetric_maps
from learndyn.theory.committee.late_stage.power_law import window
from learndyn.theory.committee.power_law import learning_curve


def critical_rate(M: Int) -> float:
    """η_c, the learning rate up to which the late stage is stable."""
    return M / critical_gain(M)


def asymptotic(beta: float, M: Int) -> float:
    """η/η_c at which the error is least, deep inside the window and for infinitely many levels."""
    drift, noise = symmetric_maps(M)
    s, gain = learning_curve.exponent(beta), critical_rate(M) / M * np.linalg.solve(drift, noise)
    decay, U = np.linalg.eigh(drift)
    left = U @ (decay**-s * U[0])

    def error(relative: float) -> float:
        return relative**-s * drift[0] @ np.linalg.solve(np.eye(len(drift)) - relative * gain, left)

    minimum = scipy.optimize.minimize_scalar(
        error, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}
    )
    return float(minimum.x)  # pyright: ignore


def omitted(alpha: float, *, L: Int, beta: float, M: Int) -> float:
    """The relative size of the terms that `asymptotic` leaves out at time α.

    The finite-L term replaces s by s/(1 − (α/α_max)^s) and shifts the minimum by
    (α/α_max)^s/(1+s). The noise of the initial stage adds a term of order (α_min/α)^s/(1+s).
    """
    s, eta = learning_curve.exponent(beta), asymptotic(beta, M) * critical_rate(M)
    first, last = window(L=L, beta=beta, M=M, eta=eta)
    return float(((alpha / last) ** s + (first / alpha) ** s) / (1 + s))


def error(
    alphas: ArrayLike, *, L: Int, beta: float, M: Int, eta: float, left: float = 1.0
) -> np.ndarray:
    """ε_g(α) of the late stage with noise, to first order, if all levels start equally unlearned.

    Args:
        alphas: steps / N since the start, (n,).
        L: number of eigenvalues of the power-law spectrum.
        beta: its exponent.
        M: number of units.
        eta: learning rate.
        left: e^k = left · t^k at α = 0.

    Returns:
        The error, (n,); it grows without bound above η_c.
    """
    (drift, noise), lam = symmetric_maps(M), PowerLaw(int(L), int(L), beta).values
    rate = float(eta) / M
    # Symmetric both in the levels and in the units, so the modes are real and orthogonal.
    matrix = rate**2 / L * np.kron(np.outer(lam, lam), noise) - rate * np.kron(np.diag(lam), drift)
    growth, modes = np.linalg.eigh(matrix)
    begin = np.kron(np.full(int(L), left / L), np.eye(len(drift))[0])
    weights = (np.kron(lam, drift[0] / 4) @ modes) * (begin @ modes)
    return np.exp(np.multiply.outer(np.asarray(alphas, dtype=np.float64), growth)) @ weights
