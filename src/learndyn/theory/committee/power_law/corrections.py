"""Corrections to the power laws of the linear student (worschech2024scaling, App. B.2).

Units and arguments are those of `learning_curve`. For each approximation there, this file has the
first term that it neglects, as a bound if one is known.
"""

import numpy as np
from scipy import special

from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.power_law import learning_curve
from learndyn.theory.committee.power_law.learning_curve import Real, Reals


def sum_remainder(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> np.ndarray:
    """∫|f''| dk/8 over 1 … L, a bound on the distance of sum − integral from (f(1) + f(L))/2.

    The remainder of Eq. 48 at order 0 is −∫ f'' A with −1/8 ≤ A ≤ 0. With p = 1 + β and
    u = x k^-p the second derivative vanishes where p u² − (1 + 3p) u + 1 + p = 0, so that
    ∫|f''| is the variation of f' between these points and the ends.
    """
    p, x = 1 + float(beta), 2 * eta * lam_plus * np.asarray(alpha, dtype=np.float64)
    root = np.sqrt((1 + 3 * p) ** 2 - 4 * p * (1 + p))
    turns = [np.clip((x * 2 * p / (1 + 3 * p + sign * root)) ** (1 / p), 1, L) for sign in (1, -1)]
    ends = np.ones_like(x), np.full_like(x, float(L))
    k = np.stack([ends[0], *turns, ends[1]])
    u = x * k**-p
    slope = p * k ** -(p + 1) * np.exp(-u) * (u - 1)
    total = np.sum(np.abs(np.diff(slope, axis=0)), axis=0)
    return (1 + sigma_J**2) * lam_plus / (2 * L) * total / 8


def gamma_remainder(alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real) -> np.ndarray:
    """The first term of Eq. 52 beyond α^-s − α_max^-s, relative to it, for α < α_max.

    Γ(s, z) = Γ(s) − z^s/s + z^(1+s)/(1+s) − …, an alternating series for z < 1.
    """
    s, alpha_max = (
        learning_curve.exponent(beta),
        learning_curve.window(lam_plus=lam_plus, L=L, beta=beta, eta=eta)[1],
    )
    part = np.asarray(alpha, dtype=np.float64) / alpha_max
    z = 2 * eta * lam_plus * np.asarray(alpha, dtype=np.float64) / float(L) ** (1 + beta)
    return z ** (1 + s) / (1 + s) / (special.gamma(s) * (1 - part**s))


def decay_remainder(x: Real, *, beta: Real) -> float:
    """(1−s)/x², the correction to the decay rate 1 of the second gamma function of Eq. 50.

    Γ(s, x) x^-s = e^-x/x (1 − (1−s)/x + …), x = 2 η λ₊ α: its logarithm, with ln x added, has the
    slope −1 + (1−s)/x² + ….
    """
    return (1 - learning_curve.exponent(beta)) / x**2


def noise_factor(eta: Real) -> float:
    """2/(2 − η), the ratio of Eq. 6 to Eq. 8 if the error falls slowly (K = M, mean eigenvalue 1).

    Fluctuations add η² ∫ k(α − α') E(α') dα' to an error E, with ∫ k = 1/(2η). If E is constant
    over the memory of k, E = E_flow/(1 − η/2).
    """
    return float(2 / (2 - eta))


def noise_remainder(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> Array:
    """The relative correction to `noise_factor`, η/(2 − η) · ε(α)/ε(0), up to a constant.

    k = −F'/(2η) with F = ε_flow/ε(0), so that the transforms are Ê = F̂/(1 − η/2 + (η/2) p F̂)
    exactly. For F = c α^-s the second term is η/(2 − η) · c α^-s · Γ(1−s)²/Γ(1−2s), where the
    gammas are at most 1 in size for s ≤ 0.6. c α^-s is Eq. 53, without the finite-L term.
    """
    units = {"lam_plus": lam_plus, "L": L, "beta": beta, "eta": eta, "sigma_J": sigma_J}
    start = (1 + sigma_J**2) / 2
    return eta / (2 - eta) * learning_curve.error_power_law(alpha, **units) / start
