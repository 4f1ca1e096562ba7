"""A training time without the limit of wide layers (our own): Eq. 68 with constant β and φ = 0.

α then grows monotonically, and ε is a cubic polynomial of it:

    ε(α) = ε_tot − (α² + 2βα)/(η L_h n (1 + β)) + (α³/3 + βα)/L_h + 2βα²/(L_h L_y (1 + β)),
    T = ∫ dα / (η² L_h n (1 + β) ε(α)),    n = L_x L_y.

This agrees with the time of Eq. 68 within a few per cent at every width. Eq. 80 is right only for
very wide layers: at 100-1000-10 it is too long by a factor of 2.
"""

import numpy as np
import scipy
from numpy.polynomial import Polynomial

from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces


def error_of_norm(of: PerturbationSetting, start: Traces) -> Polynomial:
    """ε as a polynomial of α that passes through the start, without label noise."""
    beta, n = float(start.beta), float(of.L_x * of.L_y)
    pull = 1 / float(of.eta * of.L_h * n * (1 + beta))
    bend = 2 * beta / float(of.L_h * of.L_y * (1 + beta))
    L_h = float(of.L_h)
    shape = Polynomial([0.0, beta / L_h - 2 * beta * pull, bend - pull, 1 / (3 * L_h)])
    return shape + float(start.epsilon) - shape(float(start.alpha))


def training_time(of: PerturbationSetting, start: Traces, target: float) -> float:
    """Steps until ε is `target` times its initial value; infinite if it never is.

    Args:
        of: sizes and rate.
        start: where training begins.
        target: relative to the initial error.

    Returns:
        The number of steps.
    """
    alpha, aim = float(start.alpha), target * float(start.epsilon)
    epsilon = error_of_norm(of, start)
    roots = (epsilon - aim).roots()
    later = roots.real[(np.abs(roots.imag) <= 1e-9 * np.abs(roots)) & (roots.real > alpha)]
    if not later.size:
        return np.inf
    end, rate = later.min(), float(of.eta**2 * of.L_h * of.L_x * of.L_y * (1 + start.beta))
    # Near the end 1/ε is sharply peaked: α = end − width · (e^v − 1) spreads the peak over v.
    width = -aim / float(epsilon.deriv()(end))  # in α, of the last e-fold of the error
    integrand = lambda v: width * np.exp(v) / (rate * epsilon(end - width * np.expm1(v)))
    return scipy.integrate.quad(
        integrand, 0.0, np.log1p((end - alpha) / width), epsrel=1e-8, limit=200
    )[0]
