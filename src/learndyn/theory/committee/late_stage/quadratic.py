"""The late stage of quadratic committees (bocchi2026escape): stability and tail, in its units.

Units are those of `plateau.quadratic`: T = I, time is t = η α, and `noise_strength` is η / batch,
η in the formulas; 0 is the flow.
"""

import numpy as np

from learndyn.runtime.types import Int


def critical_learning_rate(p: Int, p_star: Int) -> float:
    """η_c = p p*/(4 (p*+2)), above which zero-error solutions are unstable (batch 1)."""
    return p * p_star / (4 * (p_star + 2))


def trace_rate(p: Int, p_star: Int, noise_strength: float) -> float:
    """Rate of tr Q − |ρ|², the norm outside the teacher's span, at a zero-error solution.

    It holds for a norm shared equally by the teacher's directions, which is the first mode to
    become unstable. Within the span, see `scale_rate`.
    """
    return -16 / (p * p_star) * (1 - noise_strength / critical_learning_rate(p, p_star))


def scale_rate(p: Int, p_star: Int) -> float:
    """Rate −8 (p*+2)/(p p*) at which the student's scale returns to a zero-error solution.

    This is the fastest mode, and the rate is the same at every learning rate.
    """
    return -8 * (p_star + 2) / (p * p_star)


def tail_risk(p: Int, p_star: Int, noise_strength: float) -> float:
    """Lim R t² for p > p*: directions in which the risk is quartic make the tail algebraic."""
    flow = (p - p_star) * p**2 * (p_star + 2) / (128 * (p + 2))
    return flow / (1 - (4 * noise_strength / p) / (1 - 8 * noise_strength / (p * p_star)))


def tail_norm(p: Int, p_star: Int) -> float:
    """Lim q_⊥ t for p > p*: the student's norm in the p − p* directions that vanish in the end.

    It holds at every stable learning rate: terms of higher order in the rate are of order q_⊥³.
    """
    return p**2 * (p_star + 2) / (16 * (p + 2))


def tail_error(power: Int, delay: float, t: float, of: float = 1.0) -> float:
    """The largest difference of a tail ∝ (t − t₀)^(−power), 0 ≤ t₀ ≤ delay, from `of` ∝ t^(−power).

    To first order in t₀/t the relative difference, and that of the exponent, is power · delay/t.
    1/q_⊥ grows linearly once all directions are learned, so that the time of `tail_norm` (power 1)
    and of `tail_risk` (power 2) starts between 0 and that moment.
    """
    return of * power * delay / t


def linear_error(rate: float, risk: float) -> float:
    """|rate| √R, the error of a linearised rate at risk R, a distance of order √R away."""
    return float(abs(rate) * np.sqrt(risk))


def disturbed_rate_error(p: Int, p_star: Int, delta: float) -> float:
    """The shift of rates by a disturbance δ, relative to Q: δ times the fastest rate."""
    return abs(scale_rate(p, p_star)) * delta


def disturbed_bound_error(p: Int, p_star: Int, delta: float) -> float:
    """The shift by δ of the η at which `trace_rate` vanishes: error of the rate over its slope."""
    slope = -trace_rate(p, p_star, 0.0) / critical_learning_rate(p, p_star)
    return disturbed_rate_error(p, p_star, delta) * (1 / slope)


def approach_distance(p: Int, p_star: Int) -> float:
    """Lim t |rho(t) − rho_bar| for starts Q = q I and p > p*, p^(3/2) p* (p − p*)/(32 (p + 2)).

    The norm q_⊥ outside the span decays as 1/t (`tail_norm`), and the overlaps inside follow it:
    rho = rho_bar (1 + p* m/4), m = 1 − tr Q/p = −2 (p − p*) q_⊥/(p (p* + 2)). The O(η²) terms of
    the equations enter at O(q_⊥²), so the limit holds at every stable η. It is 0 for p = p*, where
    the approach is exponential.

    Args:
        p: number of student units, at least p*.
        p_star: number of teacher units.

    Returns:
        The limit, with t = η α.

    Examples:
        >>> round(approach_distance(6, 3), 4)
        0.5167
    """
    m = 2 * (p - p_star) * tail_norm(p, p_star) / (p * (p_star + 2))
    return float(np.sqrt(p) * p_star * m / 4)


def approach_share(p: Int, p_star: Int) -> float:
    """Lim t (1 − |rho(t) − rho'|²/|rho_bar − rho'|²) for another solution rho'.

    It is p p* (p − p*)/(32 (p + 2)). With rho = rho_bar (1 − a) and |rho_bar|² = |rho'|² = p the
    squared distance to any rho' is (1 − a) |rho_bar − rho'|² + p a², and t a has this limit.
    """
    return approach_distance(p, p_star) / float(np.sqrt(p))


def approach_correction(p: Int, p_star: Int, noise_strength: float = 0.0) -> float:
    """The next order k of the tail: growth rates are their limits times 1 − k/t + O(log t/t²).

    It is the same for 1/|rho − rho_bar| and for 1/sqrt(R), since both are linear in 1/q_⊥ to this
    order: dq_⊥/dt = −(16 (p + 2)/(p² (p* + 2))) q_⊥² [1 − κ q_⊥ + O(q_⊥²)] and k = κ lim t q_⊥,

        κ = { p² p*³ (p − p*) + 2 η p p* (p* + 2) [p*² + 2 p* + 8 − p (p* − 2)]
              − 16 η² (p* + 2)² (p + p* + 4) } / { p² (p* + 2)² [p p* − 4 η (p* + 2)] }.

    Args:
        p: number of student units, more than p*.
        p_star: number of teacher units.
        noise_strength: η / batch; 0 is the flow.

    Returns:
        The number k, in units of t = η α.
    """
    q, eta = p_star, noise_strength
    flow = p**2 * q**3 * (p - q)
    first = 2 * eta * p * q * (q + 2) * (q**2 + 2 * q + 8 - p * (q - 2))
    second = 16 * eta**2 * (q + 2) ** 2 * (p + q + 4)
    kappa = (flow + first - second) / (p**2 * (q + 2) ** 2 * (p * q - 4 * eta * (q + 2)))
    return float(kappa * tail_norm(p, q))


def approach_error(p: Int, p_star: Int, noise_strength: float, t: float) -> float:
    """Relative error of the tail's rate over a window from t/2 to t: k over the beginning, t/2."""
    return 2 * approach_correction(p, p_star, noise_strength) / t
