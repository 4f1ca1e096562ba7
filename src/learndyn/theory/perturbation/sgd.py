"""The mean-field recursion of SGD in two linear layers (Eqs. 86-96).

With n = L_x L_y and noise w = L_x ε + σ_t², a step changes on average

    δα = 2η L_y φ + η² L_y β w                                                               (88)
    δβ = 2η L_x φ + η² L_x α w                                                               (89)
    δε = −2η (α + β) ε − 2η² φ (n ε + σ_t²) + Θ                                              (92)
    δφ = η (α + β)(ε − φ) + η² (n φ (ε − φ) − σ_t² (ψ − φ)) − Θ                              (93)
    Θ  = η² (α₂ + 2αβ + β₂) w ≈ η² (α + β)² w                                                (94)

Order "finite" keeps the 2 that fourth moments add to every size, and α₂. Both orders take β₂ ≈ β²,
which is too small by a fraction (L_y + 1)/L_h only. Nothing here grows with L_h. Equation numbers
are those of hiratani2022perturbation; the recursion of α₂ is our own.
"""

import numpy as np

from learndyn.runtime.types import Array, Scalar
from learndyn.theory.perturbation.recursion import PLUS, moved, psi, with_alpha2
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces


def advance(of: PerturbationSetting, now: Traces) -> Traces:
    """The next traces by Eqs. 88-94."""
    return _advance(of, now, now.alpha**2, 0.0)


def advance_finite(of: PerturbationSetting, now: Traces) -> Traces:
    """The next traces with the +2 of every size, and α₂ as a variable."""
    after = _advance(of, now, now.alpha2, PLUS)
    return with_alpha2(after, now.alpha2 + change_of_alpha2(of, now))


def change_of_alpha2(of: PerturbationSetting, now: Traces) -> Array:
    """δα₂ = 4η L_y α φ + 2η² L_y (αβ w + n φ² + ψ (L_x w + σ_t²)).

    From 2 tr N δNδ, with tr[M C_N], X(P) and tr[P Pᵀ C_1] of `one_step`.
    """
    w = (of.L_x + PLUS) * now.epsilon + of.sigma_t2
    n = of.L_x * of.L_y
    noise = now.alpha * now.beta * w + n * now.phi**2 + psi(now) * (of.L_x * w + of.sigma_t2)
    return 4 * of.eta * of.L_y * now.alpha * now.phi + 2 * of.eta**2 * of.L_y * noise


def error_factor(of: PerturbationSetting, alpha: Scalar, beta: Scalar) -> Scalar:
    """The factor of ε per step without label noise (Eq. 95): 1 − 2ηs + η² s² L_x, s = α + β."""
    s = alpha + beta
    return 1 - 2 * of.eta * s + of.eta**2 * s**2 * of.L_x


def optimal_learning_rate(L_x: Scalar, alpha: Scalar, beta: Scalar) -> Scalar:
    """η = 1/(L_x (α + β)), at which the error falls fastest (Eq. 96)."""
    return 1 / (L_x * (alpha + beta))


def critical_learning_rate(L_x: Scalar, alpha: Scalar, beta: Scalar) -> Scalar:
    """η = 2/(L_x (α + β)), at and above which the error of Eq. 95 does not fall."""
    return 2 * optimal_learning_rate(L_x, alpha, beta)


def minimal_time(L_x: Scalar, target: Scalar) -> Scalar:
    """Steps until the error is `target` times the initial one, L_x log(1/target) (Eq. 96).

    Under Eq. 95 it is log(target)/log(1 − 1/L_x), which is shorter by a fraction 1/(2 L_x).
    """
    return L_x * np.log(1 / target)


def _advance(of: PerturbationSetting, now: Traces, alpha2: Array, plus: float) -> Traces:
    alpha, beta = now.alpha, now.beta
    w = (of.L_x + plus) * now.epsilon + of.sigma_t2
    return moved(
        of,
        now,
        alpha_noise=of.eta**2 * of.L_y * beta * w,
        beta_noise=of.eta**2 * of.L_x * alpha * w,
        theta=of.eta**2 * w * (alpha2 + 2 * alpha * beta + beta**2),
        c=1.0,
        plus=plus,
    )
