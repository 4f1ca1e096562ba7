"""The plateau of quadratic committees and the escape from it (bocchi2026escape), in its units.

Student output (1/p) Σ λ², teacher (1/p*) Σ u² with orthonormal teacher rows (T = I), loss
(y − ŷ)², inputs of unit covariance; time is t = η α throughout. `landmarks` carries these
over to any scales. `noise_strength` is η / batch, η in the formulas; 0 is the flow.
"""

import numpy as np

from learndyn.runtime.types import Array, Int


def norm_fixed_point(p: Int) -> float:
    """Q̄ = p/(p+2), which the student's norms approach first (Eq. 10)."""
    return p / (p + 2)


def growth_rate(p: Int, p_star: Int) -> float:
    """ω_ρ = 8/(p p*), the growth rate of ρ on the plateau (Eq. 12)."""
    return 8 / (p * p_star)


def decay_rate(p: Int) -> float:
    """ω_Q = 16/(p(p+2)), at which off-diagonal Q decays on the plateau.

    Eqs. 11 and 35 print growth, dQ/dt = +ω_Q Q; the sign there is wrong.
    """
    return 16 / (p * (p + 2))


def start_risk(p: Int, p_star: Int) -> float:
    """The risk at Q = I, ρ = 0."""
    return 2 / p_star + 2 / p


def plateau_risk(p: Int, p_star: Int) -> float:
    """The risk at Q = Q̄ I, ρ = 0."""
    return 2 / p_star + 2 / (p + 2)


def norm_path(t: Array | float, p: Int, q0: float = 1.0) -> Array:
    """q(t) of a start Q = q₀ I, ρ ≈ 0: a logistic curve that ends at Q̄."""
    q_bar = norm_fixed_point(p)
    return q_bar / (1 + (q_bar / q0 - 1) * np.exp(-8 * t / p))


def overlap_growth(t: Array | float, p: Int, p_star: Int, q0: float = 1.0) -> Array:
    """ρ(t)/ρ(0) of a start Q = q₀ I while ρ is small: e^(ω_ρ t) √(q(t)/q₀)."""
    return np.exp(growth_rate(p, p_star) * t) * np.sqrt(norm_path(t, p, q0) / q0)


def orthonormalised(Q: Array, rho: Array) -> Array:
    """Q^(-1/2) ρ, overlaps of a start with Q = I that leaves the plateau like the start (Q, ρ).

    While ρ is small, d log ρ_i/dt = ½ d log Q_i/dt + ω_ρ in the eigenbasis of Q, which does not
    turn: ρ(t) = e^(ω_ρ t) (Q(t)/Q(0))^½ ρ(0), and Q(t) goes to Q̄ I from every Q(0).

    Args:
        Q: student-student overlaps of the start, (p, p), positive definite.
        rho: its student-teacher overlaps, (p, p*).

    Returns:
        The overlaps, (p, p*).
    """
    values, vectors = np.linalg.eigh(Q)
    return (vectors / np.sqrt(values)) @ vectors.T @ rho


def overlap_square(t: Array | float, p: Int, p_star: Int, epsilon: float) -> Array:
    """|ρ(t)|² of starts on the plateau with ρ ~ N(0, ε²), the error of the linearisation."""
    growth = overlap_growth(t, p, p_star, q0=norm_fixed_point(p))
    return p * p_star * (epsilon * growth) ** 2


def settled_error(relaxations: float, overlap: Array | float) -> float:
    """The relative error of a relaxed norm: e^(−relaxations), plus |ρ|², which acts on it."""
    return float(np.exp(-relaxations) + np.max(np.square(overlap)))


def largest_stretch(Q: Array) -> float:
    """The most e-folds by which Q^(-1/2) stretches or shrinks a direction: max |½ log Q_i|."""
    return float(np.max(np.abs(np.log(np.linalg.eigvalsh(Q)))) / 2)


def unlike_left(t: Array | float, p: Int, Q: Array) -> Array:
    """‖Q − I‖ e^(−ω_Q t), the overlaps between students left at time t, in the spectral norm."""
    return np.linalg.norm(np.asarray(Q) - np.eye(len(Q)), 2) * np.exp(-decay_rate(p) * t)


def loss_time_scale(p_star: Int) -> float:
    """p*/16, the e-folding time of the loss reduction in t̃ = η α/p, for every p (Sec. 7.3)."""
    return p_star / 16


def loss_reduction(t: Array | float, p: Int, p_star: Int, epsilon: Array | float) -> Array:
    """⟨(R(0) − R(t))/R(0)⟩ of starts on the plateau with ρ ~ N(0, ε²) (Eq. 13).

    The paper's exponent 16 t/p* holds with its t = η α / p; here t = η α.
    """
    growth = np.expm1(2 * growth_rate(p, p_star) * t)
    return 4 * epsilon**2 * growth / plateau_risk(p, p_star)


def late_loss_reduction(t: Array | float, p: Int, p_star: Int, epsilon: Array | float) -> Array:
    """⟨(R_plateau − R(t))/R_plateau⟩ of starts Q = I (Eq. 8), once the norms have settled.

    Smaller by Q̄ than Eq. 13: ρ shrinks by √Q̄ while the norms do.
    """
    growth = np.exp(2 * growth_rate(p, p_star) * t) * norm_fixed_point(p)
    return 4 * epsilon**2 * growth / plateau_risk(p, p_star)


def half_loss_time(p: Int, p_star: Int, epsilon: float) -> float:
    """t at which the late loss reduction, extrapolated, brings the risk to half its start."""
    drop = plateau_risk(p, p_star) - start_risk(p, p_star) / 2
    return np.log(drop / (4 * epsilon**2 * norm_fixed_point(p))) / (2 * growth_rate(p, p_star))


def risk_of_norm(p: Int, p_star: Int, q: float) -> float:
    """2/p* + 2 q²/p + (1 − q)², the risk at Q = q I, ρ = 0."""
    return 2 / p_star + 2 * q**2 / p + (1 - q) ** 2


def plateau_norm(p: Int, p_star: Int, noise_strength: float, label_variance: float = 0.0) -> float:
    """The norm q of the plateau at a finite learning rate; NaN if there is no plateau.

    s = q (p+2)/p is the smaller root of
    1 − s + (2η/p) [1 + 2/p* + σ² − 2 s + (p+4)/(p+2) s²] = 0.

    Args:
        p: student units.
        p_star: teacher units.
        noise_strength: η / batch.
        label_variance: σ², of the noise on labels.

    Returns:
        The norm.
    """
    k = 2 * noise_strength / p
    constant = 1 + k * (1 + 2 / p_star + label_variance)
    quadratic = [k * (p + 4) / (p + 2), -1 - 2 * k, constant]
    # At rate 0 the leading coefficient is 0, which `np.roots` strips: the equation is then linear.
    roots = np.roots(quadratic)
    real = roots[np.isreal(roots)].real
    return float(real.min() * norm_fixed_point(p)) if len(real) else float("nan")


def plateau_growth_rate(
    p: Int, p_star: Int, noise_strength: float, label_variance: float = 0.0
) -> float:
    """ω_ρ(η) = (4/p) [1 + 2/p* − s] at finite learning rate, s as in `plateau_norm`."""
    s = plateau_norm(p, p_star, noise_strength, label_variance) / norm_fixed_point(p)
    return 4 / p * (1 + 2 / p_star - s)


def plateau_norm_rate(p: Int, p_star: Int, noise_strength: float) -> float:
    """Rate at which the norm returns to `plateau_norm`: −(8/p) s (1 + 2k − 2k s (p+4)/(p+2)).

    With k = 2η/p; the flow has −8/p, and the rate vanishes at `plateau_end`.
    """
    k, s = 2 * noise_strength / p, plateau_norm(p, p_star, noise_strength) / norm_fixed_point(p)
    return -8 / p * s * (1 + 2 * k - 2 * k * s * (p + 4) / (p + 2))


def trapping_learning_rate(p: Int, p_star: Int) -> float:
    """η₀ = p p* (p+2)/(2 (p*+2)(p+p*+4)), where ω_ρ(η) = 0 and above which no student escapes.

    It equals `late_stage.quadratic.critical_learning_rate` for p = p* and is up to twice as large
    for p > p*. For p* = 2 it is `plateau_end`. For p* = 1 the plateau ends at a smaller rate, and
    the result is NaN.
    """
    if p_star < 2:
        return float("nan")
    return p * p_star * (p + 2) / (2 * (p_star + 2) * (p + p_star + 4))


def plateau_end(p: Int, p_star: Int) -> float:
    """The η at which the two roots of `plateau_norm` meet: above it norms grow without bound."""
    A, B = 1 + 2 / p_star, (p + 4) / (p + 2)
    root = np.sqrt((B - 1) ** 2 + A * B - 1)
    return float(p * (root - B + 1) / (4 * (A * B - 1)))


def fastest_learning_rate(p: Int, p_star: Int) -> float:
    """The η of the largest growth η ω_ρ(η) per sample: optimal for small starts, ε → 0.

    With A = 1 + 2/p* and B = (p+4)/(p+2), η ω_ρ(η) ∝ (s−1)(A−s)/(A − 2s + B s²) is largest at
    the positive root of (B (A+1) − 2) s² − 2 A (B−1) s − A (A−1) = 0.
    """
    A, B = 1 + 2 / p_star, (p + 4) / (p + 2)
    a, b, c = B * (A + 1) - 2, A * (B - 1), A * (A - 1)
    s = (b + np.sqrt(b**2 + a * c)) / a
    return float(p / 2 * (s - 1) / (A - 2 * s + B * s**2))
