"""What the mean-field recursions of node perturbation (Eq. 68) and SGD (Eqs. 88-94) share.

Both change the traces by the same terms of order η. In order η² they differ in the noise of α, β
and Θ, and in a factor c of the rest, which is 2 for node perturbation and 1 for SGD:

    δα = 2η L_y φ + noise of α
    δβ = 2η L_x φ + noise of β
    δε = −2η (α + β) ε − 2c η² φ (n ε + σ_t²) + Θ
    δφ = η (α + β)(ε − φ) + c η² (n φ (ε − φ) − σ_t² (ψ − φ)) − Θ

Equation numbers are those of hiratani2022perturbation.
"""

from learndyn.runtime.types import Array
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces

PLUS = 2.0  # the fourth moments of normal numbers add this to a size


def psi(now: Traces) -> Array:
    """ψ = tr PᵀP / (L_x L_y) (Eq. 66)."""
    return now.target - (now.epsilon + 2 * now.phi)


def moved(
    of: PerturbationSetting,
    now: Traces,
    *,
    alpha_noise: Array,
    beta_noise: Array,
    theta: Array,
    c: float,
    plus: float,
) -> Traces:
    """The next traces, α₂ unchanged.

    Args:
        of: sizes and rates.
        now: the traces.
        alpha_noise: the η² term of α, due to noise.
        beta_noise: the η² term of β, due to noise.
        theta: Θ.
        c: factor of the other η² terms, 2 for node perturbation and 1 for SGD.
        plus: 2 to keep what fourth moments add to every size, 0 to neglect it.

    Returns:
        The traces after one step.
    """
    eta, alpha, beta, epsilon, phi = of.eta, now.alpha, now.beta, now.epsilon, now.phi
    n = of.L_x * of.L_y * (1 + plus / of.L_y)  # of tr E tr P products (Eqs. 59, 65)
    drift = of.sigma_t2 * (psi(now) - phi)
    return Traces(
        alpha=alpha + 2 * eta * of.L_y * phi + alpha_noise,
        beta=beta + 2 * eta * of.L_x * phi + beta_noise,
        epsilon=epsilon
        - 2 * eta * (alpha + beta) * epsilon
        - 2 * c * eta**2 * phi * (n * epsilon + of.sigma_t2)
        + theta,
        phi=phi
        + eta * (alpha + beta) * (epsilon - phi)
        + c * eta**2 * (n * phi * (epsilon - phi) - drift)
        - theta,
        alpha2=now.alpha2,
        target=now.target,
    )


def with_alpha2(after: Traces, alpha2: Array) -> Traces:
    """The same traces with another α₂."""
    return Traces(after.alpha, after.beta, after.epsilon, after.phi, alpha2, after.target)
