"""The mean-field recursion of node perturbation (Eqs. 49-68).

With η and σ_t² of `PerturbationSetting`, n = L_x L_y and noise w = L_x ε + σ_t², the average change
in one step is

    δα = 2η L_y φ + η² L_h L_y (1 + β) w                                                    (68a)
    δβ = 2η L_x φ + η² n α (1 + β) w                                                        (68b)
    δε = −2η (α + β) ε − 4η² φ (n ε + σ_t²) + Θ                                             (68c)
    δφ = η (α + β)(ε − φ) + 2η² (n φ (ε − φ) − σ_t² (ψ − φ)) − Θ                            (68d)
    Θ  = η² (L_y (1 + β)(α₂ + β) + 4αβ) w,    α₂ ≈ α²,    ψ = ‖A‖²/n − ε − 2φ               (66)

Fourth moments of normal numbers add 2 to every size; Eq. 68 neglects this, and α₂ − α². Order
"finite" keeps both, with α₂ from Eq. 62. The last bracket of Eq. 62 lacks a factor 1 + β and a
factor 2 in the paper (`errata.printed_eq62`). Both orders neglect that traces of products are not
products of traces (Eqs. 52, 57; `factorisation`). Equation numbers are those of
hiratani2022perturbation.
"""

from learndyn.runtime.types import Array
from learndyn.theory.perturbation.recursion import PLUS, moved, psi, with_alpha2
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces


def advance(of: PerturbationSetting, now: Traces) -> Traces:
    """The next traces by Eq. 68."""
    return _advance(of, now, now.alpha**2, 0.0)


def advance_finite(of: PerturbationSetting, now: Traces) -> Traces:
    """The next traces with the +2 of every size, and α₂ as a variable (Eq. 62, corrected)."""
    after = _advance(of, now, now.alpha2, PLUS)
    return with_alpha2(after, now.alpha2 + change_of_alpha2(of, now))


def change_of_alpha2(of: PerturbationSetting, now: Traces) -> Array:
    """δα₂ of Eq. 62, corrected, with the +2 of L_x.

    4η L_y α φ + 2η² (L_h + L_x) L_y α (1 + β) w + the last bracket.
    """
    w = (of.L_x + PLUS) * now.epsilon + of.sigma_t2
    grows = (of.L_h + of.L_x) * now.alpha * (1 + now.beta) * w
    known = 4 * of.eta * of.L_y * now.alpha * now.phi + 2 * of.eta**2 * of.L_y * grows
    return known + bracket_of_alpha2(of, now)


def bracket_of_alpha2(of: PerturbationSetting, now: Traces) -> Array:
    """The last bracket of Eq. 62, corrected: the mean of 2 tr[(W_1ᵀ δW_1)²] / L_x.

    2η² L_y (α (1 + β) w + 2 (n φ² + σ_t² ψ)).
    """
    w = (of.L_x + PLUS) * now.epsilon + of.sigma_t2
    along = of.L_x * of.L_y * now.phi**2 + of.sigma_t2 * psi(now)
    return 2 * of.eta**2 * of.L_y * (now.alpha * (1 + now.beta) * w + 2 * along)


def _advance(of: PerturbationSetting, now: Traces, alpha2: Array, plus: float) -> Traces:
    eta, L_x, L_h, L_y, alpha, beta = of.eta, of.L_x, of.L_h, of.L_y, now.alpha, now.beta
    w = (L_x + plus) * now.epsilon + of.sigma_t2
    outputs = L_y * (1 + beta)
    # Eq. 60: a, b, and c twice
    both = (outputs + plus) * alpha2 + (outputs + plus * beta) * beta + 4 * alpha * beta
    return moved(
        of,
        now,
        alpha_noise=eta**2 * L_y * (L_h + (L_h + plus) * beta) * w,
        beta_noise=eta**2 * L_x * alpha * (outputs + plus) * w,
        theta=eta**2 * w * both,
        c=2.0,
        plus=plus,
    )
