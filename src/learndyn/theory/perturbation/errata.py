"""Formulas as printed in hiratani2022perturbation that are wrong, for studies that show this."""

import numpy as np

from learndyn.runtime.types import Array, Scalar
from learndyn.theory.perturbation.recursion import psi
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces


def printed_eq62(of: PerturbationSetting, now: Traces) -> Array:
    """δα₂ as Eq. 62 prints it; `node_perturbation.change_of_alpha2` is the corrected one."""
    eta, L_x, L_y, alpha = of.eta, of.L_x, of.L_y, now.alpha
    w = L_x * now.epsilon + of.sigma_t2
    grows = 2 * eta**2 * (of.L_h + L_x) * L_y * w * alpha * (1 + now.beta)
    return 4 * eta * L_y * alpha * now.phi + grows + printed_eq62_bracket(of, now)


def printed_eq62_bracket(of: PerturbationSetting, now: Traces) -> Array:
    """The last bracket of Eq. 62 as printed, 2η² L_y (L_x (L_y φ² + α ε) + σ_t² (α + ψ)).

    It lacks the factor 1 + β in front of α (L_x ε + σ_t²) and a factor 2 in front of the rest;
    `node_perturbation.bracket_of_alpha2` has both.
    """
    L_x, L_y, alpha = of.L_x, of.L_y, now.alpha
    last = L_x * (L_y * now.phi**2 + alpha * now.epsilon) + of.sigma_t2 * (alpha + psi(now))
    return 2 * of.eta**2 * L_y * last


def printed_eq73b_signal(eta_o: Scalar, L_h: Scalar, L_x: Scalar, phi: Scalar) -> Array:
    """The first term of Eq. 73b as printed, η_o L_h^(−ρ) L_x φ: half of Eq. 68b's."""
    return np.asarray(eta_o * L_h ** (-1 / 3) * L_x * phi)


def printed_eq104(L_x: Scalar, L_y: Scalar, target: Scalar) -> Array:
    """T_np of linear regression as Eq. 104 prints it, L_x L_y log(ε_tg/ε_o): negative."""
    return np.asarray(L_x * L_y * np.log(target))
