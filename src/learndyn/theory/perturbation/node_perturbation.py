"""The mean-field recursion of node perturbation (Eqs. 49-68).

With η, σ_t² of `Setting`, n = L_x L_y and noise w = L_x ε + σ_t², a step changes on average

    δα = 2η L_y φ + η² L_h L_y (1 + β) w                                                    (68a)
    δβ = 2η L_x φ + η² n α (1 + β) w                                                        (68b)
    δε = −2η (α + β) ε − 4η² φ (n ε + σ_t²) + Θ                                             (68c)
    δφ = η (α + β)(ε − φ) + 2η² (n φ (ε − φ) − σ_t² (ψ − φ)) − Θ                            (68d)
    Θ  = η² (L_y (1 + β)(α₂ + β) + 4αβ) w,    α₂ ≈ α²,    ψ = ‖A‖²/n − ε − 2φ               (66)

Fourth moments of normal numbers add 2 to every size; Eq. 68 neglects that, and α₂ − α². Order
"finite" keeps both, α₂ by Eq. 62, of which the paper prints the last bracket without its factor
1 + β and without a 2 (`errata.printed_eq62`). What both leave out is that traces of products are
not products of traces (Eqs. 52, 57; `factorisation`). Equation numbers are those of
hiratani2022perturbation.
"""

from learndyn.numerics.types import Array
from learndyn.theory.perturbation.setting import Setting
from learndyn.theory.perturbation.state import Traces

PLUS = 2.0  # what the fourth moment of a normal number adds to a size


def advance(of: Setting, now: Traces) -> Traces:
    """The next traces by Eq. 68."""
    return _advance(of, now, now.alpha**2, 0.0)


def advance_finite(of: Setting, now: Traces) -> Traces:
    """The next traces with the +2 of every size and with α₂ of its own (Eq. 62, corrected)."""
    after = _advance(of, now, now.alpha2, PLUS)
    moved = now.alpha2 + change_of_alpha2(of, now)
    return Traces(after.alpha, after.beta, after.epsilon, after.phi, moved, now.target)


def change_of_alpha2(of: Setting, now: Traces) -> Array:
    """δα₂ of Eq. 62, corrected, with the +2 of L_x.

    4η L_y α φ + 2η² (L_h + L_x) L_y α (1 + β) w, and the last bracket.
    """
    w = (of.L_x + PLUS) * now.epsilon + of.sigma_t2
    grows = (of.L_h + of.L_x) * now.alpha * (1 + now.beta) * w
    known = 4 * of.eta * of.L_y * now.alpha * now.phi + 2 * of.eta**2 * of.L_y * grows
    return known + bracket_of_alpha2(of, now)


def bracket_of_alpha2(of: Setting, now: Traces) -> Array:
    """The last bracket of Eq. 62, corrected: the mean of 2 tr[(W_1ᵀ δW_1)²] / L_x.

    2η² L_y (α (1 + β) w + 2 (n φ² + σ_t² ψ)).
    """
    w = (of.L_x + PLUS) * now.epsilon + of.sigma_t2
    along = of.L_x * of.L_y * now.phi**2 + of.sigma_t2 * psi(now)
    return 2 * of.eta**2 * of.L_y * (now.alpha * (1 + now.beta) * w + 2 * along)


def psi(now: Traces) -> Array:
    """ψ = tr PᵀP / (L_x L_y) (Eq. 66)."""
    return now.target - (now.epsilon + 2 * now.phi)


def _advance(of: Setting, now: Traces, alpha2: Array, plus: float) -> Traces:
    eta, L_x, L_h, L_y = of.eta, of.L_x, of.L_h, of.L_y
    alpha, beta, epsilon, phi, n = now.alpha, now.beta, now.epsilon, now.phi, L_x * L_y
    w = (L_x + plus) * epsilon + of.sigma_t2
    outputs = L_y * (1 + beta)
    theta = (
        eta**2
        * w
        * (  # Eq. 60: a, b, and c twice
            (outputs + plus) * alpha2 + (outputs + plus * beta) * beta + 4 * alpha * beta
        )
    )
    along = n * (1 + plus / L_y)  # of tr E tr P products (Eqs. 59, 65)
    return Traces(
        alpha=alpha + 2 * eta * L_y * phi + eta**2 * L_y * (L_h + (L_h + plus) * beta) * w,
        beta=beta + 2 * eta * L_x * phi + eta**2 * L_x * alpha * (outputs + plus) * w,
        epsilon=epsilon
        - 2 * eta * (alpha + beta) * epsilon
        - 4 * eta**2 * phi * (along * epsilon + of.sigma_t2)
        + theta,
        phi=phi
        + eta * (alpha + beta) * (epsilon - phi)
        + 2 * eta**2 * (along * phi * (epsilon - phi) - of.sigma_t2 * (psi(now) - phi))
        - theta,
        alpha2=now.alpha2,
        target=now.target,
    )
