"""The learned map of a balanced deep linear network, in closed form.

With σ_i = σ̄^(1/d) in every layer, a mode of the map obeys (Eq. 21)

    dσ̄/dt = −η̄ (σ̄ − σ̄_*) σ̄^p,   p = 2 (1 − 1/d)(1 − power),   η̄ = η d^(1 − power),

with power = 1/q of the rule H^(−power) g: 0 is gradient descent, 1 the natural gradient. In
x = σ̄/σ̄_* and τ = η̄ σ̄_*^p t it is dx/dτ = (1 − x) x^p. Equation numbers are those of
curvature2020linear.
"""

import itertools

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import digamma, expit, lambertw, wrightomega

from learndyn.runtime import checks
from learndyn.runtime.types import Array, Number

_TERMS = 56  # of power series at x <= 1/2, where the remainder is below 2^-53


def stiffness(d: Number, power: Number) -> Array:
    """p = 2 (1 − 1/d)(1 − power) = 2 (d − 1)(q − 1)/(d q) (Eq. 21); d may be infinite.

    Examples:
        >>> float(stiffness(4, 1 / 2)), float(stiffness(4, 0)), float(stiffness(4, 1))
        (0.75, 1.5, 0.0)
    """
    d, power = _depth(d), _power(power)
    return 2 * (1 - 1 / d) * (1 - power)


def depth_calibrated_rate(eta: Number, d: Number, power: Number) -> Array:
    """η̄ = η d^(1 − power) (Eq. 21)."""
    d, power = _depth(d), _power(power)
    return eta * d ** (1 - power)


def effective_depth(d: Number, power: Number) -> Array:
    """d_eff = d q/(d + q − 1) (Eq. 22): the depth at which gradient descent is equally stiff.

    It is d for power 0, 1 for power 1, and tends to q = 1/power for d → ∞.

    Examples:
        >>> float(effective_depth(4, 1 / 2)), float(effective_depth(np.inf, 1 / 2))
        (1.6, 2.0)
    """
    d, power = _depth(d), _power(power)
    return 1 / (power + (1 - power) / d)


def spline_depth_error(step: Number, d: Number, power: Number) -> float:
    """Error of an effective depth that is measured as the slope of a cubic spline of the map.

    10 h³ d_eff²/2: h is the spline's step in τ, 10 bounds the derivatives of the curve, and
    d_eff²/2 converts an error of the stiffness into one of the depth (Eq. 22).
    """
    return float(10 * float(step) ** 3 * effective_depth(d, power) ** 2 / 2)


def map_velocity(sigma_bar: Number, target: Number, p: Number, eta_bar: Number) -> Array:
    """dσ̄/dt = −η̄ (σ̄ − σ̄_*) σ̄^p (Eq. 21), for σ̄ >= 0."""
    sigma_bar, eta_bar = _non_negative("sigma_bar", sigma_bar), _positive("eta_bar", eta_bar)
    return -eta_bar * (sigma_bar - np.asarray(target)) * sigma_bar ** _stiffness(p)


def solution(t: Number, target: Number, start: Number, p: Number, eta_bar: Number = 1.0) -> Array:
    """σ̄(t) of Eq. 21.

    With x_0 = start/σ̄_* and τ = η̄ σ̄_*^p t, x is 1 − (1 − x_0) e^(−τ) for p = 0,
    ((√x_0 + T)/(1 + √x_0 T))² with T = tanh(τ/2) for p = 1/2, x_0/(x_0 + (1 − x_0) e^(−τ)) for
    p = 1 and 1/(1 + W(v e^(v − τ))) with v = 1/x_0 − 1 for p = 2 (W is Lambert's). For other p,
    the implicit solution of `time_to` is inverted.

    A start of 0 is a fixed point for p > 0. For 0 < p < 1 the solution from there is not unique;
    as in the paper, it is the one that leaves 0 at t = 0.

    Args:
        t: times, non-negative.
        target: σ̄_*, positive.
        start: σ̄(0), non-negative.
        p: the stiffness, non-negative.
        eta_bar: η̄.

    Returns:
        σ̄(t), of the broadcast shape of t, target and start.

    Examples:
        >>> np.round(solution(np.array([0.0, 1.0, 4.0]), 1.7, 0.0, 0.5), 6).tolist()
        [0.0, 0.558084, 1.663457]
    """
    p, t = _stiffness(p), _non_negative("t", t)
    target, start = _positive("target", target), _non_negative("start", start)
    tau, x0 = np.broadcast_arrays(_positive("eta_bar", eta_bar) * target**p * t, start / target)
    closed = {0.0: _exponential, 0.5: _hyperbolic, 1.0: _logistic, 2.0: _lambert}
    return target * (closed[p](tau, x0) if p in closed else _inverted(tau, x0, p))


def time_to(
    sigma_bar: Number, target: Number, start: Number, p: Number, eta_bar: Number = 1.0
) -> Array:
    """The time at which σ̄ is reached: τ = F_p(x) − F_p(x_0) with F_p = ∫ dx/((1 − x) x^p).

    F_p(x) = x^(1−p)/(1 − p) ₂F₁(1, 1−p; 2−p; x) for x < 1. Above the target, 1/x obeys the same
    equation with stiffness 1 − p.

    Args:
        sigma_bar: the value to reach, non-negative.
        target: σ̄_*, positive.
        start: σ̄(0), non-negative.
        p: the stiffness, non-negative.
        eta_bar: η̄.

    Returns:
        The time: negative for values that σ̄ passed before the start, infinite for values that it
        never reaches.
    """
    p, sigma_bar = _stiffness(p), _non_negative("sigma_bar", sigma_bar)
    target, start = _positive("target", target), _non_negative("start", start)
    sigma_bar, target, start = np.broadcast_arrays(sigma_bar, target, start)
    with np.errstate(invalid="ignore"):  # in the branch that `where` does not select
        below = _elapsed(_logit(sigma_bar, target), _logit(start, target), p)
        above = _elapsed(_logit(target, sigma_bar), _logit(target, start), 1 - p)
    tau = np.where(start > target, above, below)
    tau = np.where(sigma_bar == start, 0.0, np.where(start == target, np.inf, tau))
    return tau / (_positive("eta_bar", eta_bar) * target**p)


def half_maximum_time(target: Number, start: Number, p: Number, eta_bar: Number = 1.0) -> Array:
    """The time at which σ̄ = σ̄_*/2; from a start of 0 it is infinite for p >= 1."""
    return time_to(np.asarray(target) / 2, target, start, p, eta_bar)


def half_maximum_exponent_error(error: Number, targets: Array) -> float:
    """Error of the exponent of half-maximum times in σ̄_*, if x = σ̄/σ̄_* has the error `error`.

    d log τ = dx/(dx/dτ · τ) with dx/dτ = 2^(−1−p) at x = 1/2. This is at most 8 dx for p ≤ 2 and
    τ > 0.6, and occurs at both ends of the range of targets.
    """
    return 16 * float(error) / float(np.ptp(np.log(targets)))


def escape_time(target: Number, start: Number, p: Number, eta_bar: Number = 1.0) -> Array:
    """The leading term of `half_maximum_time` for small starts.

    In τ = η̄ σ̄_*^p t it is the finite F_p(1/2) − F_p(0) for p < 1, −log x_0 for p = 1 and
    x_0^(1−p)/(p − 1) for p > 1, with x_0 = start/σ̄_*. If p is close to 1 but not equal to it,
    x_0 must be very small for the leading term to dominate.

    Args:
        target: σ̄_*, positive.
        start: σ̄(0), non-negative.
        p: the stiffness, non-negative.
        eta_bar: η̄.

    Returns:
        The time.
    """
    p, target = _stiffness(p), _positive("target", target)
    start = _non_negative("start", start)
    if p < 1:
        return half_maximum_time(target, np.zeros_like(start), p, eta_bar)
    with np.errstate(divide="ignore"):
        tau = -np.log(start / target) if p == 1 else (start / target) ** (1 - p) / (p - 1)
    return tau / (_positive("eta_bar", eta_bar) * target**p)


def update_speed(alpha: Number, d: Number, power: Number) -> Array:
    """‖dw/dt‖/√L = √2 (d α^(2(d − 1)))^(1/2 − power) per η (S.I.16).

    Exact for square layers w_i = α O_i with orthogonal O_i and any target; L = ‖w̄ − w̄_*‖²/2.
    The paper gives the exponents only. For power 1/2 the speed is independent of α.
    """
    return np.sqrt(2) * _strength(alpha, d) ** (1 / 2 - _power(power))


def loss_rate(alpha: Number, d: Number, power: Number) -> Array:
    """(dL/dt)/L = −2 (d α^(2(d − 1)))^(1 − power) per η (S.I.17), for w_i = α O_i."""
    return -2 * _strength(alpha, d) ** (1 - _power(power))


def largest_rate_exponent(d: Number, power: Number) -> Array:
    """The exponent of the largest stable learning rate in the scale α of small starts.

    The first step has the length η |Δ| (d α^(2(d − 1)))^(1/2 − power) (S.I.16). It must not exceed
    the weights that realise the target, which are of order 1: η ∝ α^((d − 1)(2 power − 1)) for
    powers above 1/2. For smaller powers the steps near the target are the tighter bound, and α
    does not enter. With blocks the lengths differ by constants only.

    Examples:
        >>> float(largest_rate_exponent(3, 1)), float(largest_rate_exponent(3, 1 / 2))
        (2.0, 0.0)
    """
    return (_depth(d) - 1) * np.maximum(2 * _power(power) - 1, 0)


def imbalance_exponent(power: Number, *, blocks: bool) -> Array:
    """The exponent with which the growth of layer imbalances depends on the scale α of the start.

    Without blocks, σ_i² − σ_k² is conserved (Eq. 7). With blocks, |σ_i|^a − |σ_k|^a is conserved,
    where a = 2 − 2 power (after Eq. 25). So σ_i² − σ_k² is of order α² at a small start and ends
    at order α^a: it grows by a factor α^(−2 power).

    Args:
        power: 1/q of the rule.
        blocks: whether each layer is corrected separately.

    Returns:
        The exponent, 0 or negative.
    """
    return -2 * _power(power) if blocks else 0 * _power(power)


def line_is_singular(begin: Array, target: Array) -> bool:
    """Whether (1 − s) begin + s target is singular for some s between 0 and 1.

    NGD moves the map along this line (Eq. 9), and its velocity diverges where the map is singular.

    Args:
        begin: a square map that is not singular.
        target: a map of the same shape.
    """
    # (1 − s) I + s begin⁻¹ target is singular for an eigenvalue −(1 − s)/s, which is not positive.
    turned = np.linalg.eigvals(np.linalg.solve(np.asarray(begin), np.asarray(target)))
    return bool(np.any((turned.imag == 0) & (turned.real <= 0)))


def conserved(weights: tuple[Array, ...]) -> list[Array]:
    """w_i w_iᵀ − w_{i+1}ᵀ w_{i+1} for i = 1 … d − 1 (Theorem 1).

    Constant under every update −ℓ_iᵀ Λ r_iᵀ: for all powers, damped or not, without blocks.
    """
    return [w @ w.T - above.T @ above for w, above in itertools.pairwise(weights)]


def _exponential(tau, x0):
    # expm1 keeps the digits of small times.
    return x0 * np.exp(-tau) - np.expm1(-tau)


def _hyperbolic(tau, x0):
    root, T = np.sqrt(x0), np.tanh(tau / 2)
    return ((root + T) / (1 + root * T)) ** 2


def _logistic(tau, x0):
    safe = np.where(x0 > 0, x0, 1)
    return np.where(x0 > 0, safe / (safe + (1 - safe) * np.exp(-tau)), 0.0)


def _lambert(tau, x0):
    v = 1 / np.where(x0 > 0, x0, 1) - 1
    # For positive v, W(e^z) instead of W(v e^(v − τ)): e^v overflows for starts below 1/700.
    large = wrightomega(np.log(np.where(v > 0, v, 1)) + v - tau)
    small = lambertw(np.minimum(v, 0) * np.exp(np.minimum(v, 0) - tau)).real
    return np.where(x0 > 0, 1 / (1 + np.where(v > 0, large, small)), 0.0)


def _inverted(tau, x0, p):
    x = np.where(x0 == 1, 1.0, 0.0)
    grows = (x0 < 1) & (tau > 0) & ((x0 > 0) | (p < 1))
    x[grows] = expit(_logit_after(tau[grows], _logit(x0[grows], 1.0), p))
    falls = (x0 > 1) & (tau > 0)
    x[falls] = 1 / expit(_logit_after(tau[falls], _logit(1.0, x0[falls]), 1 - p))
    return np.where(tau > 0, x, x0)


def _logit_after(tau, z0, p):
    """The z with `_elapsed(z, z0, p)` = tau, where z0 = −∞ only for p < 1."""
    from scipy.optimize import elementwise  # here, as SciPy's optimisers take long to import

    if not tau.size:
        return tau
    low = z0
    if p < 1:  # from a start at 0, F_p(x) <= 2 x^(1−p)/(1 − p) for x <= 1/2 gives a bracket
        low = np.where(np.isneginf(z0), np.minimum(np.log((1 - p) * tau / 2) / (1 - p), 0), z0)
    high = np.maximum(z0, 0) + 2 ** max(1 - p, 0) * tau + 1
    root = elementwise.find_root(
        lambda z, tau, z0: _elapsed(z, z0, p) - tau, (low, high), args=(tau, z0)
    )
    return root.x


def _logit(part, whole):
    """Log(x/(1 − x)) of x = part/whole, and ∞ for x >= 1."""
    gap = np.where(part < whole, whole - part, 0.0)
    with np.errstate(divide="ignore"):
        return np.where(gap > 0, np.log(part) - np.log(gap), np.inf)


def _elapsed(z, z0, p):
    """τ = F_p(x) − F_p(x_0) for z = log(x/(1 − x)); m steps of F_p = x^(1−p)/(1−p) + F_{p−1}.

    The steps leave F_{p−m} with p − m < 0, which is as small as x^(1−p+m) near 0. All terms that
    are singular at 0, or have a pole at p = 1, are in the steps, where they are subtracted without
    loss of digits.
    """
    m = max(int(np.floor(p)) + 1, 0)
    log_x, log_x0 = -np.logaddexp(0, -z), -np.logaddexp(0, -z0)
    tau = _beta(z, 1 - p + m) - _beta(z0, 1 - p + m)
    for k in range(m):
        tau = tau + _power_difference(log_x, log_x0, 1 - p + k)
    return tau


def _power_difference(log_x, log_x0, a):
    """(x^a − x_0^a)/a, which is log(x/x_0) for a = 0."""
    if a == 0:
        return log_x - log_x0
    # x_0 = 0 has log −∞, for which the difference below would be NaN: it is a case of its own.
    from_zero = np.exp(a * log_x) / a if a > 0 else np.inf
    x0 = np.where(np.isneginf(log_x0), 0.0, log_x0)
    with np.errstate(over="ignore"):
        difference = np.exp(a * x0) * np.expm1(a * (log_x - x0)) / a
    return np.where(np.isneginf(log_x0), from_zero, difference)


def _beta(z, a):
    """The incomplete beta function B_x(a, 0) = ∫_0^x s^(a−1)/(1 − s) ds for a > 1."""
    k = np.arange(1, _TERMS)
    x, gap = np.minimum(expit(z), 0.5), np.minimum(expit(-z), 0.5)
    small = x**a * polyval(x, 1 / (a + np.arange(_TERMS)))
    # SciPy's hyp2f1 fails near x = 1; there the expansion in 1 − x takes over.
    series = polyval(gap, np.concatenate([[0.0], np.cumprod((k - a) / k) / k]))
    return np.where(z <= 0, small, np.logaddexp(0, z) - digamma(a) - np.euler_gamma - series)


def _strength(alpha, d):
    d = _depth(d)
    return d * _positive("alpha", alpha) ** (2 * (d - 1))


def _depth(d):
    return _checked("d", d, lambda d: d >= 1, "a depth of at least 1")


def _power(power):
    allowed = "from 0 to 1, that is q of at least 1"
    return _checked("power", power, lambda power: (power >= 0) & (power <= 1), allowed)


def _stiffness(p):
    return float(checks.non_negative("p", p))


def _positive(name, value):
    allowed = "positive and finite"
    return _checked(name, value, lambda v: (v > 0) & np.isfinite(v), allowed)


def _non_negative(name, value):
    allowed = "non-negative and finite"
    return _checked(name, value, lambda v: (v >= 0) & np.isfinite(v), allowed)


def _checked(name, value, is_allowed, allowed):
    array = np.asarray(value, dtype=np.float64)
    bad = array[~is_allowed(array)]
    if bad.size:
        raise ValueError(f"{name}: got {bad.flat[0]:g}; allowed is {allowed}")
    return array
