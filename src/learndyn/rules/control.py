"""When to raise a learning rate past the critical one: one logic for rules, optax and PyTorch."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from learndyn.numerics.checks import positive, positive_int
from learndyn.numerics.types import Array, Number
from learndyn.numerics.values import Value

GUARD = 1 - 1e-6  # of the limit: what a clipped rate is set to, below it also after rounding


class Steering(NamedTuple):
    """Where a control stands.

    Attributes:
        rate: η of the step that follows.
        critical: the last η_crit.
        quiet: steps in a row with η ≤ η_crit.
        raised: how often the rate was raised.
        step: steps taken.
        clipped: whether the limit holds the rate down.
    """

    rate: Array
    critical: Array
    quiet: Array
    raised: Array
    step: Array
    clipped: Array


class CatapultControl(Value):
    """Raises a rate past the critical one, again and again (Sec. 4.3 of zhu2024catapults).

    A catapult lowers the kernel, and η_crit ends above the rate. Once η ≤ η_crit has held for
    `rest` steps, the rate becomes `times` · η_crit, and stays. With a `period` it goes up and down
    instead, in straight lines, between `learning_rate` and `times` · η_crit.

    No rate ever exceeds `limit` · η_crit: where it would, since the kernel has grown or the first
    rate is too large, it is clipped, which `Steering.clipped` says. The limit is 2 for quadratic
    models with small targets (a theorem for target 0), and larger for relu networks: about 6 by the
    thesis, of which 4 was seen to hold.

    Args:
        learning_rate: the first rate, and the lower end of cycles.
        times: what the rate is raised to, in units of η_crit; above 1, below `limit`.
        rest: steps in a row with η ≤ η_crit before the rate is raised.
        catapults: how often it is raised; None for no end.
        period: steps of a cycle; None raises the rate and leaves it.
        limit: what diverges, in units of η_crit.

    Example:
        >>> import learndyn as ld
        >>> control = ld.rules.CatapultControl(1.0, times=1.5, rest=2)
        >>> now = control.begin(2.0)
        >>> for critical in (2.0, 2.0, 4.0):
        ...     now = control.advance(now, critical)
        >>> float(now.rate), int(now.raised)  # raised to 1.5 · 2, then η_crit rose to 4
        (3.0, 1)
    """

    learning_rate: np.ndarray
    times: np.ndarray
    rest: int = eqx.field(static=True)
    catapults: int | None = eqx.field(static=True)
    period: int | None = eqx.field(static=True)
    limit: np.ndarray

    def __init__(
        self,
        learning_rate: Number,
        *,
        times: Number = 1.5,
        rest: int = 10,
        catapults: int | None = None,
        period: int | None = None,
        limit: Number = 2.0,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.times, self.limit = checked_times(times, limit)
        self.rest = positive_int("rest", rest)
        self.catapults = None if catapults is None else positive_int("catapults", catapults)
        self.period = None if period is None else positive_int("period", period)

    def begin(self, critical: Any) -> Steering:
        """Before the first step, at weights with the given η_crit."""
        return self.advance(self._before(_library(critical)), critical)

    def _before(self, xp: Any) -> Steering:
        rate, zero = xp.asarray(self.learning_rate, float), xp.zeros((), int)
        return Steering(rate, xp.full_like(rate, np.inf), zero, zero, zero - 1, zero > 0)

    def advance(self, now: Steering, critical: Any) -> Steering:
        """The rate of the next step, at weights with the given η_crit.

        Args:
            now: where the control stands, from `begin` or `advance`.
            critical: η_crit; where it is not finite nothing is raised.

        Returns:
            Where it stands then.
        """
        xp = _library(critical, now)
        critical = xp.asarray(critical, float)
        known, step = xp.isfinite(critical), now.step + 1
        usable = xp.where(known, critical, now.rate)
        quiet = xp.where(now.rate > usable, 0, now.quiet + (step > 0))
        left = True if self.catapults is None else now.raised < self.catapults
        if self.period is None:
            up = (quiet >= self.rest) & known & left
            rate = xp.where(up, self.times * usable, now.rate)
        else:
            up = (step % self.period == 0) & left
            rate = self._in_cycle(xp, step, xp.where(known, usable, 0))
        allowed = xp.where(known, self.limit * GUARD * usable, np.inf)
        clipped = rate > allowed
        quiet = xp.where(up, 0, quiet)
        rate = xp.where(clipped, allowed, rate)
        return Steering(rate, critical, quiet, now.raised + up, step, clipped)

    def _in_cycle(self, xp: Any, step: Any, critical: Any) -> Any:
        assert self.period is not None
        height = 1 - abs(2 * (step % self.period) / self.period - 1)
        if self.catapults is not None:
            height = xp.where(step < self.period * self.catapults, height, 0.0)
        top = xp.where(critical > 0, self.times * critical, self.learning_rate)
        return self.learning_rate + height * (top - self.learning_rate)

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """The control for a loop of one's own, as an optax transformation.

        `update(gradients, state, params, critical_rate=…)` gives −η · gradients, with η_crit at the
        present weights, say by `probes.critical_learning_rate`; `state` is a `Steering`.
        """

        def init(params: Any) -> Steering:
            del params
            return self._before(jnp)

        def update(updates: Any, state: Any, params: Any = None, **given: Any) -> Any:
            del params
            if "critical_rate" not in given:
                raise ValueError("critical_rate: got none; allowed is update(…, critical_rate=…)")
            state = self.advance(state, jnp.asarray(given["critical_rate"], float))
            scale = lambda u: (-state.rate).astype(u.dtype) * u
            return jax.tree.map(scale, updates), state

        return optax.GradientTransformationExtraArgs(init, update)


def checked_times(times: Number, limit: Number) -> tuple[np.ndarray, np.ndarray]:
    """What the rate is raised to and what diverges, or a one-line error."""
    times, limit = positive("times", times), positive("limit", limit)
    if not times > 1:
        raise ValueError(f"times: got {times:g}; allowed is above 1, the critical rate")
    if not times < limit:
        raise ValueError(
            f"times: got {times:g}, at which training diverges; allowed is below limit={limit:g}, "
            "which may be given"
        )
    return times, limit


def _library(*given: Any) -> Any:
    """NumPy, or JAX where something is an array of it."""
    return jnp if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(given)) else np
