"""How one mode of a linear model learns, at any time at once.

Along an eigenvector of the tangent kernel, of the eigenvalue λ, a step of gradient descent on the
mean squared loss of n examples pulls the output towards its fixed point: its distance u from there
obeys

    u ← u − pull · u,        pull = 2 scale η λ / n + decay.

Heavy ball is v ← β v + pull · u and u ← u − v, and Nesterov's form u ← u − pull · u − β v with the
new v. Both are a matrix power, whose two eigenvalues z are the roots of

    z² − T z + P = 0:    heavy ball T = 1 + β − pull, P = β;
                         Nesterov   T = (1 + β)(1 − pull), P = β (1 − pull),

and with S(k) = (z₊^k − z₋^k)/(z₊ − z₋) the factor after t steps is u(t)/u(0) = S(t+1) − β S(t) in
both. Formulas are arranged so that no digits are lost for small pulls, where roots meet, and after
many steps. All functions take NumPy arrays of shapes that broadcast, and return float64.
"""

from typing import NamedTuple

import numpy as np

from learndyn.runtime.types import Number


class Law(NamedTuple):
    """What a rule does with a pull.

    Attributes:
        momentum: β, from 0 to below 1.
        nesterov: whether momentum is Nesterov's, in the form of optax and PyTorch.
        flow: whether to take the limit of a small pull, in which momentum is a rate that is
            1/(1 − β) times as large.
    """

    momentum: Number = 0.0
    nesterov: bool = False
    flow: bool = False


PLAIN = Law()


class Powers(NamedTuple):
    """The linear map of t steps, (u, v) → (own · u + kicked · v, driven · pull · u + kept · v).

    Attributes:
        own: the factor of u for a start at rest.
        kicked: of u per initial v.
        driven: of v per initial force, pull · u.
        kept: of v per initial v.
        gain: (1 − own)/pull, finite where the pull is zero: how far a constant force moves u.
    """

    own: np.ndarray
    kicked: np.ndarray
    driven: np.ndarray
    kept: np.ndarray
    gain: np.ndarray


def factor(pull: Number, t: Number, law: Law = PLAIN) -> np.ndarray:
    """u(t)/u(0) after t steps from rest.

    Args:
        pull: non-negative.
        t: non-negative whole numbers of steps; any non-negative numbers for a flow.
        law: momentum, or a flow.

    Returns:
        The factor, infinite where it overflows.

    Examples:
        >>> factor(0.5, 2), factor(0.5, 1, Law(momentum=0.9))
        (array(0.25), array(0.5))
    """
    return powers(pull, t, law).own


def gain(pull: Number, t: Number, law: Law = PLAIN) -> np.ndarray:
    """(1 − factor)/pull, without loss of digits for small pulls; at zero its limit.

    Divided by λ instead of the pull it is 2 scale η/n times this, for which λ may be zero.

    Args:
        pull: as in `factor`.
        t: as in `factor`.
        law: as in `factor`.

    Returns:
        The gain.

    Examples:
        >>> gain(0.5, 2), gain(0.0, 7)
        (array(1.5), array(7.))
    """
    return powers(pull, t, law).gain


def largest_pull(law: Law) -> float:
    """The pull above which modes grow without bound; infinite for a flow.

    2 without momentum, 2 (1 + β) for heavy ball and 2 (1 + β)/(1 + 2 β) for Nesterov's form.
    """
    beta = float(law.momentum)
    return np.inf if law.flow else 2 * (1 + beta) / (1 + 2 * beta if law.nesterov else 1)


def powers(pull: Number, t: Number, law: Law = PLAIN) -> Powers:
    """The map of t steps, for a start that moves already.

    Args:
        pull: as in `factor`.
        t: as in `factor`.
        law: as in `factor`.

    Returns:
        The map.
    """
    arrays = (np.asarray(each, dtype=np.float64) for each in (pull, t))
    x, steps = np.broadcast_arrays(*arrays)
    # NumPy turns what has no axes into scalars.
    parts = _powers(np.atleast_1d(x), np.atleast_1d(steps), law)
    return Powers(*(part.reshape(x.shape) for part in parts))


def _powers(pull: np.ndarray, t: np.ndarray, law: Law) -> Powers:
    with np.errstate(all="ignore"):  # modes that diverge overflow, and branches not taken are NaN
        if law.flow:
            speed = 1 / (1 - float(law.momentum))
            own = np.exp(-pull * speed * t)
            fall = np.where(pull > 0, -np.expm1(-pull * speed * t) / _safe(pull), speed * t)
            return _without_memory(own, fall)
        if not law.momentum:
            return _without_memory(_power(pull, t), _fall(pull, t))
        return _with_memory(pull, t, law)


def _without_memory(own: np.ndarray, fall: np.ndarray) -> Powers:
    none = np.zeros_like(own)
    return Powers(own, none, none, none, fall)


def _with_memory(pull: np.ndarray, t: np.ndarray, law: Law) -> Powers:
    beta = float(law.momentum)
    now, after = _ladder(pull, t, law), _ladder(pull, t + 1, law)
    own = after - beta * now
    kept = after - (1 - pull * (1 + beta if law.nesterov else 1)) * now
    # Where both roots are far apart 1 − own is a sum of small terms, so that no digits are lost;
    # elsewhere the pull is not small.
    apart = pull < _meeting(law) / 2
    small = np.where(apart, pull, 0)
    slow, fast = _falls(small, law)
    slow_root, fast_root = 1 - slow, 1 - fast
    sums = slow_root * _fall(slow, t) - fast_root * _fall(fast, t)
    summed = sums / (slow_root - fast_root) + (beta * _ladder(small, t, law) if law.nesterov else 0)
    moved = np.where(apart, summed, (1 - own) / _safe(pull))
    return Powers(own, -(beta ** (2 if law.nesterov else 1)) * now, now, kept, moved)


def _ladder(pull: np.ndarray, k: np.ndarray, law: Law) -> np.ndarray:
    """S(k), by the sine where roots are complex, and by the larger root where they are real."""
    trace, product, square = _quadratic(pull, law)
    radius, width = np.sqrt(_positive(product)), np.sqrt(_positive(-square))
    # Angles are those of −z where the real part is negative: sin loses its digits near π.
    alternating = np.where((trace < 0) & (k % 2 == 0), -1.0, 1.0)
    angle = np.arctan2(width, np.abs(trace))
    turning = radius ** (k - 1) * np.sin(k * angle) / (width / (2 * radius))
    gap = np.sqrt(_positive(square))
    larger, slow = (np.abs(trace) + gap) / 2, 2 * pull / (2 - trace + gap)
    grown = np.where(trace < 0, larger ** (k - 1), _power(slow, k - 1))
    apart = gap / larger  # one minus the ratio of the roots
    both = np.where(gap > 0, (1 - _power(apart, k)) / apart, k)
    near = (gap > 0) & (apart < 0.5)
    both = np.where(near, -np.expm1(k * np.log1p(-apart)) / apart, both)
    found = alternating * np.where(square < 0, turning, grown * both)
    return np.where(k == 0, 0.0, np.where(k == 1, 1.0, found))


def _quadratic(pull: np.ndarray, law: Law) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T, P, and the discriminant T² − 4 P as a product, which is exact where roots meet."""
    beta = float(law.momentum)
    if law.nesterov:
        left = 1 - pull
        square = (1 + beta) ** 2 * left * (_meeting(law) - pull)
        return (1 + beta) * left, beta * left, square
    root = np.sqrt(beta)
    square = (pull - _meeting(law)) * (pull - (1 + root) ** 2)
    return 1 + beta - pull, np.full_like(pull, beta), square


def _meeting(law: Law) -> float:
    """The smallest pull at which the two roots meet."""
    beta = float(law.momentum)
    if law.nesterov:
        return ((1 - beta) / (1 + beta)) ** 2
    return float((1 - beta) / (1 + np.sqrt(beta))) ** 2


def _falls(pull: np.ndarray, law: Law) -> tuple[np.ndarray, np.ndarray]:
    """1 − z of both roots, the smaller first, for pulls below the one where they meet."""
    trace, _, square = _quadratic(pull, law)
    fast = (2 - trace + np.sqrt(square)) / 2
    return pull / fast, fast


def _power(fall: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(1 − fall)^t, also for falls of the size of rounding and many steps."""
    below = np.exp(t * np.log1p(-np.minimum(fall, 0.5)))
    sign = np.where((fall > 1) & (t % 2 == 1), -1.0, 1.0)
    return np.where(fall < 0.5, below, sign * np.abs(1 - fall) ** t)


def _fall(fall: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(1 − (1 − fall)^t)/fall, which is t at zero."""
    small = -np.expm1(t * np.log1p(-np.minimum(fall, 0.5))) / _safe(fall)
    plain = np.where(fall < 0.5, small, (1 - _power(fall, t)) / _safe(fall))
    return np.where(fall == 0, t, plain)


def _safe(array: np.ndarray) -> np.ndarray:
    """The array with 1 in place of 0, as a divisor that a `where` leaves out."""
    return np.where(array == 0, 1.0, array)


def _positive(array: np.ndarray) -> np.ndarray:
    return np.maximum(array, 0.0)
