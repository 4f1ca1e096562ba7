"""The linear student at small learning rate, on a power-law spectrum (worschech2024scaling).

Units of the paper: K = M, λ_k = λ₊ k^-(1+β) for k = 1 … L with equal multiplicities, time
α = steps/N, the flow limit η → 0, averages over teacher and student. All functions take λ₊, L,
β, η and σ_J by name, and α as a number or an array. With s = β/(1+β) and x = 2 η λ₊ α the error
is a sum (Eq. 8), its integral an incomplete gamma function (Eq. 9), and inside the window
1 < x < Γ(1+s)^(1/s) L^(1+β) a power law α^-s.

App. B.2 prints f(k) without the factor 1/2 of Eq. 47; f below has it.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy import special

from learndyn.runtime.types import Array, Int

Real: TypeAlias = float | Int
Reals: TypeAlias = Real | Sequence[Real] | np.ndarray


def lam_plus(L: Int, beta: Real) -> float:
    """λ₊, the largest of L eigenvalues ∝ k^-(1+β) whose mean is 1."""
    return float(L / np.sum(_powers(L, beta)))


def exponent(beta: Real) -> float:
    """s = β/(1+β): inside the window the error falls as α^-s."""
    return float(beta / (1 + beta))


def overlaps(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> tuple[Array, Array]:
    """⟨R⟩ and ⟨Q⟩, summed over levels with λ_l (Eq. 7)."""
    lam = lam_plus * _powers(L, beta)
    decay = np.exp(-eta * np.multiply.outer(np.asarray(alpha, dtype=np.float64), lam))
    once, twice = decay @ lam / L, decay**2 @ lam / L
    return 1 - once, 1 + (1 + sigma_J**2) * twice - 2 * once


def error_sum(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> Array:
    """⟨ε⟩ = (1+σ_J²)/(2L) Σ_k λ_k exp(−2 η λ_k α) (Eqs. 8 and 47)."""
    lam = lam_plus * _powers(L, beta)
    decay = np.exp(-2 * eta * np.multiply.outer(np.asarray(alpha, dtype=np.float64), lam))
    return (1 + sigma_J**2) / (2 * L) * decay @ lam


def error_integral(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> Array:
    """The sum as an integral over k from 1 to L: two incomplete gamma functions (Eqs. 9, 50)."""
    return amplitude(lam_plus, L, sigma_J) * integral(alpha, 1, L, lam_plus, beta, eta)


def error_first_gamma(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> Array:
    """Eq. 50 without its second gamma function (Eq. 52), for 2 η λ₊ α > 1."""
    return amplitude(lam_plus, L, sigma_J) * integral(alpha, 0, L, lam_plus, beta, eta)


def error_power_law(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> Array:
    """The power law alone, L → ∞ in the gamma function (Eq. 53)."""
    s, x = exponent(beta), 2 * eta * lam_plus * np.asarray(alpha, dtype=np.float64)
    return amplitude(lam_plus, L, sigma_J) * special.gamma(s) / (1 + beta) * x**-s


def integral(alpha: Reals, first: Real, last: Real, lam_plus: Real, beta: Real, eta: Real) -> Array:
    """∫ k^-(1+β) exp(−x k^-(1+β)) dk from `first` to `last`, x = 2 η λ₊ α.

    It is x^-s [Γ(s, x/last^(1+β)) − Γ(s, x/first^(1+β))]/(1+β); at x = 0, where the two cancel,
    its limit is used. `first` may be 0 if x > 0.
    """
    s, x = exponent(beta), 2 * eta * lam_plus * np.asarray(alpha, dtype=np.float64)
    near, far = _argument(x, last, beta), _argument(x, first, beta)
    # Lower functions where both arguments are small, upper ones elsewhere: never a difference
    # of two numbers close to Γ(s).
    small = far < 1
    lower = special.gammainc(s, np.where(small, far, 1)) - special.gammainc(s, near)
    upper = special.gammaincc(s, near) - special.gammaincc(s, far)
    positive = np.where(x > 0, x, 1.0)
    value = special.gamma(s) / (1 + beta) * positive**-s * np.where(small, lower, upper)
    at_zero = (float(first) ** -beta - float(last) ** -beta) / beta if first > 0 else np.inf
    return np.where(x > 0, value, at_zero)


def window(*, lam_plus: Real, L: Int, beta: Real, eta: Real) -> tuple[float, float]:
    """(α_min, α_max) between which the error falls as a power law (Sec. 4.2, App. B.2).

    α_min = 1/(2 η λ₊), α_max = Γ((2β+1)/(1+β))^((1+β)/β) L^(1+β)/(2 η λ₊).
    """
    s, alpha_min = exponent(beta), 1 / (2 * eta * lam_plus)
    return float(alpha_min), float(
        special.gamma(1 + s) ** (1 / s) * float(L) ** (1 + beta) * alpha_min
    )


def local_exponent(alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real) -> Array:
    """−d ln ε/d ln α with the finite-L correction: s / (1 − (α/α_max)^s), for α < α_max.

    Γ(s, z) = Γ(s) − z^s/s + … makes Eq. 52 proportional to α^-s − α_max^-s. For small β the
    correction is large everywhere in the window.
    """
    s, alpha_max = exponent(beta), window(lam_plus=lam_plus, L=L, beta=beta, eta=eta)[1]
    return s / (1 - (np.asarray(alpha, dtype=np.float64) / alpha_max) ** s)


def end_correction(
    alpha: Reals, *, lam_plus: Real, L: Int, beta: Real, eta: Real, sigma_J: Real
) -> Array:
    """(f(1) + f(L))/2, the order 0 of Euler-Maclaurin's sum minus integral (Eq. 48).

    The gap differs from it by at most ∫|f''|/8. App. B.2 calls it an upper bound for
    2 η λ₊ α > 1, but the gap can exceed it by up to two percent of the error (β ≤ 1.5).
    """
    x = 2 * eta * lam_plus * np.asarray(alpha, dtype=np.float64)
    f = lambda k: float(k) ** -(1 + beta) * np.exp(-_argument(x, k, beta))
    return amplitude(lam_plus, L, sigma_J) * (f(1) + f(L)) / 2


def initial_gap(*, lam_plus: Real, L: Int, beta: Real, sigma_J: Real) -> float:
    """Sum minus integral at α = 0, its largest value, exactly.

    (1+σ_J²) λ₊/(2L) [Σ_{k≤L} k^-(1+β) − (1 − L^-β)/β].
    """
    bracket = np.sum(_powers(L, beta)) - (1 - float(L) ** -beta) / beta
    return float(amplitude(lam_plus, L, sigma_J) * bracket)


def _powers(L: Int, beta: Real) -> np.ndarray:
    return np.arange(1, L + 1, dtype=np.float64) ** -(1 + beta)


def amplitude(lam_plus: Real, L: Int, sigma_J: Real) -> float:
    """(1+σ_J²) λ₊/(2L), the factor of every sum over k^-(1+β)."""
    return float((1 + sigma_J**2) * lam_plus / (2 * L))


def _argument(x: Array, k: Real, beta: Real) -> Array:
    """x / k^(1+β); infinite for k = 0, the far end of the integral."""
    return x * float(k) ** -(1 + beta) if k > 0 else np.full_like(x, np.inf)
