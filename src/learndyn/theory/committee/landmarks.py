"""Landmarks of a committee that learns from a committee, in the system's own units."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from learndyn.runtime.precision import in_float64
from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics import linear, overlaps
from learndyn.theory.committee.dynamics.realisation import LAWS
from learndyn.theory.committee.landscape import dimensions
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.late_stage import quadratic as quadratic_late
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_finite_rate
from learndyn.theory.committee.plateau import quadratic as quadratic_plateau
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps, from_gram

TIME = "learning rate × steps / N"  # t = η α
RATE = f"1 / ({TIME})"
LIMIT = ", in the limit learning rate → 0"
UNITS = {
    "critical_learning_rate": "learning rate",
    "plateau_error": "1",
    "plateau_error_full": "1",
    "plateau_R": "1",
    "plateau_Q": "1",
    "plateau_norm": "1",
    "plateau_growth_rate": RATE,
    "plateau_growth_rate_full": RATE,
    "escape_time_constant": TIME,
    "escape_time_constant_full": TIME,
    "slow_rate": RATE,
    "fast_rate": RATE,
    "norm_fixed_point": "1",
    "growth_rate": RATE,
    "decay_rate": RATE,
    "tail_error": f"({TIME})²",  # lim error · t²
    "manifold_dimension": "1",
}
# Landmarks of the limit of a small learning rate, independent of the system's own rate.
LIMITS = {
    "linear": (),
    "quadratic": ("plateau_error", "norm_fixed_point", "growth_rate", "decay_rate"),
    "erf": (
        "plateau_error", "plateau_R", "plateau_Q", "plateau_growth_rate", "escape_time_constant",
        "slow_rate", "fast_rate",
    ),
}  # fmt: skip


def of(setting: CommitteeSetting) -> dict[str, float]:
    """Predicted landmarks, explained in `CommitteeTheory.landmarks`; empty if none is known."""
    activation, trainable = setting.student.activation, setting.student.trainable
    # The closed forms assume that all directions of the inputs are learned, and equal, fixed output
    # weights.
    if setting.special or (trainable is not None and trainable < setting.spectrum.dim):
        return {}
    if activation == "linear":
        return _linear(setting)
    # The other landmarks assume independent teachers; a user's own distribution may differ.
    known = {"quadratic": _quadratic, "erf": _erf} if type(setting.teacher.init) in LAWS else {}
    return known[activation](setting) if activation in known else {}


def units_of(setting: CommitteeSetting, names: Iterable[str]) -> dict[str, str]:
    """The units of landmarks, marked if they hold in the limit of a small learning rate."""
    limits = LIMITS.get(setting.student.activation, ())
    return {name: UNITS[name] + (LIMIT if name in limits else "") for name in names}


def _linear(setting: CommitteeSetting) -> dict[str, float]:
    if not setting.rule.noise:
        return {}
    return {"critical_learning_rate": linear.critical_learning_rate(setting)}


def _erf(setting: CommitteeSetting) -> dict[str, float]:
    """The plateau and the late stage in the flow limit (worschech2024scaling), for any scales.

    There is a plateau to escape from only if both networks have more than one unit. The late
    stage is that of a student that can match its teacher: K = M and equal scales.
    """
    student, teacher = setting.student, setting.teacher
    marks = {}
    if student.units > 1 and teacher.units > 1:
        marks |= _erf_plateau(setting)
    if student.units == teacher.units and np.isclose(student.scale, teacher.scale, rtol=1e-12):
        marks |= _erf_late(setting)
    return {name: float(value) for name, value in marks.items()}


@in_float64
def _erf_plateau(setting: CommitteeSetting) -> dict[str, Any]:
    problem, student, teacher, *_ = setting
    K, identity = student.units, teacher.init.variance * np.eye(teacher.units)
    T1, T2 = (_mean_power(setting, l) * identity for l in (1, 2))
    ratio = float(teacher.scale / (K * student.scale))
    state = erf_plateau.plateau_state(T1[None], [1.0], K, ratio)
    clock = 2 * problem.loss_scale * student.scale * teacher.scale * K
    rate = clock * erf_plateau.escape_rates(T1, T2, K, ratio)[0]
    error = overlaps.error(setting, _state(setting, state.gram[0]), state.gram[0])
    return {
        "plateau_error": error,
        "plateau_R": state.R[0, 0, 0],
        "plateau_Q": state.Q[0, 0, 0],
        "plateau_growth_rate": rate,
        "escape_time_constant": 1 / rate,
        **_erf_plateau_full(setting, error, rate),
    }


def _erf_plateau_full(setting: CommitteeSetting, error: Any, rate: Any) -> dict[str, Any]:
    """The same at the system's own learning rate. Without sampling noise the limit is exact."""
    if setting.rule.noise:
        plateau = erf_finite_rate.plateau(setting)
        if plateau is None:
            return {}
        sigma = plateau.covariance
        error = overlaps.error(setting, _state(setting, sigma), sigma)
        rate = plateau.growth_rate
    # At large learning rates no deviation grows, and there is no time to escape.
    times = {"escape_time_constant_full": 1 / rate} if rate > 0 else {}
    return {"plateau_error_full": error, "plateau_growth_rate_full": rate, **times}


def _erf_late(setting: CommitteeSetting) -> dict[str, Any]:
    """Decay rates of the error, λ_l times an eigenvalue of Φ, and the critical learning rate."""
    problem, student, teacher, rule, spectrum, _ = setting
    M, lam, trace = teacher.units, spectrum.values, _mean_power(setting, 1)
    T = trace * teacher.init.variance
    clock = 2 * problem.loss_scale * student.scale**2
    # The error is quadratic in the deviations and decays twice as fast as they do, hence 2 · clock.
    f = np.linalg.eigvalsh(erf_late.slope_matrix(T * np.eye(M)))
    marks = {"slow_rate": 2 * clock * lam[-1] * f[0], "fast_rate": 2 * clock * lam[0] * f[-1]}
    if rule.noise:
        gain = clock * trace * erf_late.critical_gain(M, T)
        marks["critical_learning_rate"] = 1 / (rule.noise * gain)
    return marks


def _quadratic(setting: CommitteeSetting) -> dict[str, float]:
    """The closed forms of both `quadratic` modules, converted to the system's scales.

    With T = τ I and θ = b τ λ p*, the student's weights are √(θ/(a p λ)) times the paper's,
    the risk is loss_scale θ² times the paper's, and t runs loss_scale · θ · a · p · λ times as
    fast. Only for a single level.
    """
    if setting.spectrum.levels > 1:
        return {}
    problem, student, teacher, rule, spectrum, _ = setting
    p, p_star, lam = student.units, teacher.units, spectrum.values[0]
    theta = teacher.scale * teacher.init.variance * lam * p_star
    norm, risk = theta / (student.scale * p * lam), problem.loss_scale * theta**2
    clock = problem.loss_scale * theta * student.scale * p * lam
    strength = clock * rule.learning_rate * rule.noise
    marks = {
        "norm_fixed_point": norm * quadratic_plateau.norm_fixed_point(p),
        "plateau_error": risk * quadratic_plateau.plateau_risk(p, p_star),
        "growth_rate": clock * quadratic_plateau.growth_rate(p, p_star),
        "decay_rate": clock * quadratic_plateau.decay_rate(p),
    }
    noisy = strength, problem.label_noise**2 / theta**2
    q = quadratic_plateau.plateau_norm(p, p_star, *noisy)
    if np.isfinite(q):  # otherwise norms grow without bound
        rate = clock * quadratic_plateau.plateau_growth_rate(p, p_star, *noisy)
        marks |= {"plateau_norm": norm * q, "plateau_growth_rate": rate}
        marks["plateau_growth_rate_full"] = rate
        marks["plateau_error_full"] = risk * quadratic_plateau.risk_of_norm(p, p_star, q)
    # With noisy labels the student never reaches zero error, which these two assume.
    if problem.label_noise == 0:
        if rule.noise:
            bound = quadratic_late.critical_learning_rate(p, p_star) / (rule.noise * clock)
            marks["critical_learning_rate"] = bound
        if p > p_star:
            marks["tail_error"] = risk * quadratic_late.tail_risk(p, p_star, strength) / clock**2
    if p >= p_star:
        marks["manifold_dimension"] = dimensions.manifold_dimension(p, p_star)
    return {name: float(value) for name, value in marks.items()}


def _state(setting: CommitteeSetting, gram: Array) -> Overlaps:
    return from_gram(gram[None], setting.student.units)


def _mean_power(setting: CommitteeSetting, l: int) -> float:
    """(1/N) tr Σ^l = Σ_k φ_k λ_k^l."""
    counts = setting.spectrum.counts
    return float(counts @ setting.spectrum.values**l / counts.sum())
