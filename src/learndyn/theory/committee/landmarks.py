"""Landmarks of committee learning, in the system's own units."""

from learndyn.networks import AbstractInitialisation, Normal, Orthonormal
from learndyn.rules import SGD
from learndyn.theory.committee import quadratic, solutions
from learndyn.theory.committee.parts import Parts


def of(parts: Parts) -> dict[str, float]:
    """Predicted landmarks at typical T; rates per t = η α. Empty where none is known."""
    if parts.spectrum.levels > 1:
        return {}
    activation = parts.student.activation
    if activation == "quadratic":
        return _quadratic(parts)
    return _linear(parts) if activation == "linear" else {}


def _linear(parts: Parts) -> dict[str, float]:
    """D error/dα ∝ −2 s + s²/batch with s = 2 · loss_scale · η · scale² · K · λ."""
    problem, student, _, rule, spectrum = parts
    if not isinstance(rule, SGD):
        return {}
    gain = problem.loss_scale * student.scale**2 * student.units * spectrum.values[0]
    return {"critical_learning_rate": float(rule.batch / gain)}


def _quadratic(parts: Parts) -> dict[str, float]:
    """The forms of `quadratic`, carried to the system's scales.

    With T = τ I and θ = b τ λ p*, the student's weights are √(θ/(a p λ)) times the paper's,
    the risk is loss_scale θ² times, and t runs loss_scale · θ · a · p · λ times as fast.
    """
    problem, student, teacher, rule, spectrum = parts
    p, p_star, lam = student.units, teacher.units, spectrum.values[0]
    theta = teacher.scale * _row_variance(teacher.init) * lam * p_star
    norm, risk = theta / (student.scale * p * lam), problem.loss_scale * theta**2
    clock = problem.loss_scale * theta * student.scale * p * lam
    kick = clock * rule.learning_rate / rule.batch if isinstance(rule, SGD) else 0.0
    found = {
        "norm_fixed_point": norm * quadratic.norm_fixed_point(p),
        "plateau_error": risk * quadratic.plateau_risk(p, p_star),
        "growth_rate": clock * quadratic.growth_rate(p, p_star),
        "decay_rate": clock * quadratic.decay_rate(p),
    }
    if problem.label_noise == 0:
        found["plateau_norm"] = norm * quadratic.plateau_norm(p, p_star, kick)
        found["plateau_growth_rate"] = clock * quadratic.plateau_growth_rate(p, p_star, kick)
        if isinstance(rule, SGD):
            bound = rule.batch * quadratic.critical_learning_rate(p, p_star) / clock
            found["critical_learning_rate"] = bound
        if p > p_star:
            found["tail_error"] = risk * quadratic.tail_risk(p, p_star, kick) / clock**2
    if p >= p_star:
        found["manifold_dimension"] = solutions.manifold_dimension(p, p_star)
    return {name: float(value) for name, value in found.items()}


def _row_variance(init: AbstractInitialisation) -> float:
    """τ of the typical teacher overlap T = τ I."""
    if isinstance(init, Normal):
        return float(init.std**2)
    return float(init.norm**2) if isinstance(init, Orthonormal) else 1.0
