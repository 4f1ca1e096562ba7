"""The late stage of quadratic committees (bocchi2026escape): stability and tail, in its units.

Units are those of `plateau.quadratic`: T = I, time is t = η α, and `noise_strength` is η / batch,
η in the formulas; 0 is the flow.
"""

import numpy as np

from learndyn.numerics.types import Int


def critical_learning_rate(p: Int, p_star: Int) -> float:
    """η_c = p p*/(4 (p*+2)), above which zero-error solutions are unstable (batch 1)."""
    return p * p_star / (4 * (p_star + 2))


def trace_rate(p: Int, p_star: Int, noise_strength: float) -> float:
    """Rate of tr Q − |ρ|², the norm outside the teacher's span, at a zero-error solution.

    For a norm that the teacher's directions share alike: the first mode that becomes unstable.
    Within the span, see `scale_rate`.
    """
    return -16 / (p * p_star) * (1 - noise_strength / critical_learning_rate(p, p_star))


def scale_rate(p: Int, p_star: Int) -> float:
    """Rate −8 (p*+2)/(p p*) at which the student's scale returns to a zero-error solution.

    The fastest mode there, and the same at every learning rate.
    """
    return -8 * (p_star + 2) / (p * p_star)


def tail_risk(p: Int, p_star: Int, noise_strength: float) -> float:
    """lim R t² for p > p*: Hessian-null directions of quartic growth make the tail algebraic."""
    flow = (p - p_star) * p**2 * (p_star + 2) / (128 * (p + 2))
    return flow / (1 - (4 * noise_strength / p) / (1 - 8 * noise_strength / (p * p_star)))


def tail_norm(p: Int, p_star: Int) -> float:
    """lim q_⊥ t for p > p*: the student's norm in the p − p* directions that it must give up.

    At every stable learning rate: the terms of higher order in it are of order q_⊥³.
    """
    return p**2 * (p_star + 2) / (16 * (p + 2))


def tail_error(power: Int, delay: float, t: float, of: float = 1.0) -> float:
    """By how much a tail ∝ (t − t₀)^(−power), 0 ≤ t₀ ≤ delay, differs from `of` ∝ t^(−power).

    First order in t₀/t, relative and in the exponent alike: power · delay/t. 1/q_⊥ grows linearly
    once all directions are learned, so that the clock of `tail_norm` (power 1) and of `tail_risk`
    (power 2) starts between 0 and that time.
    """
    return of * power * delay / t


def linear_error(rate: float, risk: float) -> float:
    """|rate| √R: error of a linearised rate where the risk is R, at a distance of order √R."""
    return float(abs(rate) * np.sqrt(risk))


def disturbed_rate_error(p: Int, p_star: Int, delta: float) -> float:
    """By how much a disturbance δ, relative to Q, moves rates: δ times the fastest of them."""
    return abs(scale_rate(p, p_star)) * delta


def disturbed_bound_error(p: Int, p_star: Int, delta: float) -> float:
    """By how much δ moves the η at which `trace_rate` vanishes: its own error over its slope."""
    slope = -trace_rate(p, p_star, 0.0) / critical_learning_rate(p, p_star)
    return disturbed_rate_error(p, p_star, delta) * (1 / slope)


def approach_distance(p: Int, p_star: Int) -> float:
    """Lim t |rho(t) − rho_bar| of a start Q = q I for p > p*, p^(3/2) p* (p − p*)/(32 (p + 2)).

    On the way in, the outer norm q_⊥ decays as 1/t (`tail_norm`) and the inner
    overlaps follow it: rho = rho_bar (1 + p* m/4), m = 1 − tr Q/p = −2 (p − p*) q_⊥/(p (p* + 2)).
    The terms O(η²) of the equations enter at O(q_⊥²): the limit holds at every stable η. It is 0
    for p = p*, where the approach is exponential.

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

    That is p p* (p − p*)/(32 (p + 2)). With rho = rho_bar (1 − a) and |rho_bar|² = |rho'|² = p the
    squared distance to rho' is (1 − a) |rho_bar − rho'|² + p a², whatever rho' is, and t a has
    this limit.
    """
    return approach_distance(p, p_star) / float(np.sqrt(p))


def approach_correction(p: Int, p_star: Int, noise_strength: float = 0.0) -> float:
    """The next order k of that tail: growth rates are their limits times 1 − k/t + O(log t/t²).

    It is the same for 1/|rho − rho_bar| and for 1/sqrt(R), which are both linear in 1/q_⊥ to this
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
    """k over the beginning t/2 of a window that ends at t: relative error of the tail's rate."""
    return 2 * approach_correction(p, p_star, noise_strength) / t
