"""How a linear model learns under a squared loss: outputs at any time at once.

Weights stay in w(t) = c(t) w(0) + Jᵀ U α(t), where weight decay moves c, and α has one number for
each mode of the kernel. With q the outputs above those of zero weights, b the targets above them,
and both in the basis U, a step of the rate η adds to α the force

    −g (c q(0) + λ α − b) − decay · α,        g = 2 scale η P / n,

so that modes learn independently, with pull = g λ + decay (`modes.py`). Outputs on any examples x'
follow from α: f(x') = o(x') + c q'(0) + K(x', X) U α.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from learndyn.theory.linearised.modes import Law, powers


class Modes(NamedTuple):
    """A linear model and a rule, mode by mode.

    Attributes:
        values: λ, (modes,).
        force: g per learning rate, (modes,).
        start: q(0), (modes,).
        target: b, (modes,).
        decay: per step.
        law: momentum, or a flow.
        rates: learning rates, (pieces,).
        changes: first steps of all pieces but the first.
    """

    values: np.ndarray
    force: np.ndarray
    start: np.ndarray
    target: np.ndarray
    decay: float
    law: Law
    rates: np.ndarray
    changes: np.ndarray

    @property
    def pulls(self) -> np.ndarray:
        """Pulls per step at each of the rates, (pieces, modes)."""
        return self.rates[:, None] * self.force * self.values + self.decay


class Course(NamedTuple):
    """Where weights are at some times, relative to the start.

    Attributes:
        kept: c, (times,).
        alpha: (times, modes).
        kept_velocity: of c, per step, (times,).
        velocity: of α, per step; zero without momentum.
    """

    kept: np.ndarray
    alpha: np.ndarray
    kept_velocity: np.ndarray
    velocity: np.ndarray


def course(modes: Modes, t: np.ndarray) -> Course:
    """The course from rest, after t steps.

    Args:
        modes: the model and the rule.
        t: non-decreasing numbers of steps, (times,).

    Returns:
        The course.
    """
    none = np.zeros(1), np.zeros((1, len(modes.values)))
    at = Course(np.ones(1), none[1], *none)
    parts = []
    for rate, first, end, ratio in _pieces(modes):
        inside = t[(t >= first) & (t < end)]
        parts.append(_moved(modes, rate, at, inside - first))
        if not np.any(t >= end):
            break
        at = _moved(modes, rate, at, np.array([end - first]))
        # The velocity of a rule is that of gradients; what moves weights is η times it.
        at = at._replace(kept_velocity=ratio * at.kept_velocity, velocity=ratio * at.velocity)
    return Course(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _pieces(modes: Modes) -> Iterator[tuple[float, float, float, float]]:
    """Rate, first step, end, and the ratio of the next rate to this one."""
    edges = [0.0, *(float(step) for step in modes.changes), np.inf]
    after = [*modes.rates[1:], modes.rates[-1]]
    for i, rate in enumerate(modes.rates):
        yield float(rate), edges[i], edges[i + 1], float(after[i] / rate)


def _moved(modes: Modes, rate: float, at: Course, t: np.ndarray) -> Course:
    """The course t steps later, at one rate."""
    decay, law, g = modes.decay, modes.law, rate * modes.force
    own = powers(g * modes.values + decay, t[:, None], law)
    rest = powers(decay, t, law)  # of what no example sees
    with np.errstate(all="ignore"):  # modes that diverge overflow
        kept = rest.own * at.kept + rest.kicked * at.kept_velocity
        kept_velocity = rest.driven * decay * at.kept + rest.kept * at.kept_velocity
        error = at.kept * modes.start + modes.values * at.alpha - modes.target
        force = g * error + decay * at.alpha
        alpha = at.alpha - own.gain * force + own.kicked * at.velocity
        velocity = own.driven * force + own.kept * at.velocity
        if decay:
            pulled, moving = decay * at.kept, at.kept_velocity
            apart = lambda name: getattr(own, name) - getattr(rest, name)[:, None]
            per_value = np.where(modes.values > 0, modes.start, 0) / _safe(modes.values)
            alpha += (apart("kicked") * moving - apart("gain") * pulled) * per_value
            velocity += (apart("driven") * pulled + apart("kept") * moving) * per_value
    return Course(kept, alpha, kept_velocity, velocity)


def _safe(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1.0)
