"""Landmarks of committee learning, in the system's own units."""

from typing import Any

import numpy as np

from learndyn.numerics.precision import in_float64
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.landscape import dimensions
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.late_stage import quadratic as quadratic_late
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import quadratic as quadratic_plateau
from learndyn.theory.committee.setting import Setting

TIME = "learning rate × steps / N"  # t = η α
RATE = f"1 / ({TIME})"
UNITS = {
    "critical_learning_rate": "learning rate",
    "plateau_error": "1",
    "plateau_R": "1",
    "plateau_Q": "1",
    "plateau_norm": "1",
    "plateau_growth_rate": RATE,
    "escape_time_constant": TIME,
    "slow_rate": RATE,
    "fast_rate": RATE,
    "norm_fixed_point": "1",
    "growth_rate": RATE,
    "decay_rate": RATE,
    "tail_error": f"({TIME})²",  # lim error · t²
    "manifold_dimension": "1",
}


def of(setting: Setting) -> dict[str, float]:
    """Predicted landmarks at typical T, that is T^(l) = (1/N) tr Σ^l and no off-diagonal ones.

    Rates are per t = η α and times are in t (`UNITS`). Empty where none is known.
    """
    activation, trainable = setting.student.activation, setting.student.trainable
    if trainable is not None and trainable < setting.spectrum.dim:
        return {}
    known = {"linear": _linear, "quadratic": _quadratic, "erf": _erf}
    return known[activation](setting) if activation in known else {}


def _linear(setting: Setting) -> dict[str, float]:
    if not setting.rule.noise:
        return {}
    return {"critical_learning_rate": linear.critical_learning_rate(setting)}


def _erf(setting: Setting) -> dict[str, float]:
    """The plateau and the late stage in the flow limit (worschech2024scaling), for any scales.

    A plateau is escaped only where both networks have units to choose from; the late stage is
    that of a student that can become its teacher, K = M and equal scales.
    """
    _, student, teacher, _, _ = setting
    found = {}
    if student.units > 1 and teacher.units > 1:
        found |= _erf_plateau(setting)
    if student.units == teacher.units and np.isclose(student.scale, teacher.scale, rtol=1e-12):
        found |= _erf_late(setting)
    return {name: float(value) for name, value in found.items()}


@in_float64
def _erf_plateau(setting: Setting) -> dict[str, Any]:
    problem, student, teacher, _, _ = setting
    K, identity = student.units, teacher.init.variance * np.eye(teacher.units)
    T1, T2 = (_mean_power(setting, l) * identity for l in (1, 2))
    ratio = float(teacher.scale / (K * student.scale))
    state = erf_plateau.plateau_state(T1[None], [1.0], K, ratio)
    clock = 2 * problem.loss_scale * student.scale * teacher.scale * K
    rate = clock * erf_plateau.escape_rates(T1, T2, K, ratio)[0]
    return {
        "plateau_error": problem.committee_loss(student, state.gram[0]),
        "plateau_R": state.R[0, 0, 0],
        "plateau_Q": state.Q[0, 0, 0],
        "plateau_growth_rate": rate,
        "escape_time_constant": 1 / rate,
    }


def _erf_late(setting: Setting) -> dict[str, Any]:
    """Decay rates of the error, λ_l times an eigenvalue of Φ, and where η² makes one grow."""
    problem, student, teacher, rule, spectrum = setting
    M, lam, trace = teacher.units, spectrum.values, _mean_power(setting, 1)
    T = trace * teacher.init.variance
    clock = 2 * problem.loss_scale * student.scale**2
    f = np.linalg.eigvalsh(erf_late.slope_matrix(T * np.eye(M)))
    found = {"slow_rate": 2 * clock * lam[-1] * f[0], "fast_rate": 2 * clock * lam[0] * f[-1]}
    if rule.noise:
        gain = clock * trace * erf_late.critical_gain(M, T)
        found["critical_learning_rate"] = 1 / (rule.noise * gain)
    return found


def _quadratic(setting: Setting) -> dict[str, float]:
    """The forms of both modules `quadratic`, carried to the system's scales.

    With T = τ I and θ = b τ λ p*, the student's weights are √(θ/(a p λ)) times the paper's,
    the risk is loss_scale θ² times, and t runs loss_scale · θ · a · p · λ times as fast. For one
    level only.
    """
    if setting.spectrum.levels > 1:
        return {}
    problem, student, teacher, rule, spectrum = setting
    p, p_star, lam = student.units, teacher.units, spectrum.values[0]
    theta = teacher.scale * teacher.init.variance * lam * p_star
    norm, risk = theta / (student.scale * p * lam), problem.loss_scale * theta**2
    clock = problem.loss_scale * theta * student.scale * p * lam
    strength = clock * rule.learning_rate * rule.noise
    found = {
        "norm_fixed_point": norm * quadratic_plateau.norm_fixed_point(p),
        "plateau_error": risk * quadratic_plateau.plateau_risk(p, p_star),
        "growth_rate": clock * quadratic_plateau.growth_rate(p, p_star),
        "decay_rate": clock * quadratic_plateau.decay_rate(p),
    }
    if problem.label_noise == 0:
        found["plateau_norm"] = norm * quadratic_plateau.plateau_norm(p, p_star, strength)
        found["plateau_growth_rate"] = clock * quadratic_plateau.plateau_growth_rate(
            p, p_star, strength
        )
        if rule.noise:
            bound = quadratic_late.critical_learning_rate(p, p_star) / (rule.noise * clock)
            found["critical_learning_rate"] = bound
        if p > p_star:
            found["tail_error"] = risk * quadratic_late.tail_risk(p, p_star, strength) / clock**2
    if p >= p_star:
        found["manifold_dimension"] = dimensions.manifold_dimension(p, p_star)
    return {name: float(value) for name, value in found.items()}


def _mean_power(setting: Setting, l: int) -> float:
    """(1/N) tr Σ^l = Σ_k φ_k λ_k^l."""
    counts = setting.spectrum.counts
    return float(counts @ setting.spectrum.values**l / counts.sum())
