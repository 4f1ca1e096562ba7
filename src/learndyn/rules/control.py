"""When to raise a learning rate past the critical one, for rules, optax and PyTorch alike."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from learndyn.runtime.checks import positive, positive_int
from learndyn.runtime.types import Array, Number
from learndyn.runtime.values import Value

GUARD = 1 - 1e-6  # clipped rates are this part of the limit, to be below it after rounding


class Steering(NamedTuple):
    """The state of a `CatapultControl`.

    Attributes:
        rate: η of the next step.
        critical: the last η_crit.
        quiet: steps in a row with η ≤ η_crit.
        raised: how many times the rate was raised.
        step: steps taken.
        clipped: whether the rate was reduced to the limit.

    Example:
        >>> import learndyn as ld
        >>> control = ld.rules.CatapultControl(1.0, times=1.5, rest=1)
        >>> steering = control.advance(control.begin(2.0), 2.0)
        >>> float(steering.rate), int(steering.raised)
        (3.0, 1)
    """

    rate: Array
    critical: Array
    quiet: Array
    raised: Array
    step: Array
    clipped: Array


class CatapultControl(Value):
    """Raises a learning rate past the critical one, repeatedly (Sec. 4.3 of zhu2024catapults).

    A catapult lowers the tangent kernel, so that η_crit ends above the rate. After `rest` steps in
    a row with η ≤ η_crit the rate becomes `times` · η_crit and is then kept. With a `period` it
    instead rises and falls linearly between `learning_rate` and `times` · η_crit.

    No rate exceeds `limit` · η_crit: it is clipped if the kernel has grown or the first rate is too
    large, and `Steering.clipped` is then true. The limit is 2 for quadratic models with small
    targets (a theorem for target 0) and larger for relu networks: about 6 according to the thesis,
    of which we have confirmed 4.

    Args:
        learning_rate: the first rate, and the lower end of cycles.
        times: the rate is raised to `times` · η_crit; above 1, below `limit`.
        rest: steps in a row with η ≤ η_crit before the rate is raised.
        catapults: how many times the rate is raised; None for no limit.
        period: steps of a cycle; None raises the rate and keeps it.
        limit: the rate from which on training diverges, in units of η_crit.

    Raises:
        ValueError: for `times` outside 1 to `limit`, a rate that is not positive, and
            counts that are not positive integers.

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
        """The state before the first step, at weights with the critical rate `critical`."""
        return self.advance(self._before(_library(critical)), critical)

    def _before(self, xp: Any) -> Steering:
        rate, zero = xp.asarray(self.learning_rate, float), xp.zeros((), int)
        # Step −1, since `begin` advances once to reach the state before step 0.
        return Steering(rate, xp.full_like(rate, np.inf), zero, zero, zero - 1, zero > 0)

    def advance(self, now: Steering, critical: Any) -> Steering:
        """The state with the rate of the next step, at weights with the critical rate `critical`.

        Args:
            now: the present state, from `begin` or `advance`.
            critical: η_crit; if it is not finite, the rate is not raised.

        Returns:
            The next state.
        """
        xp = _library(critical, now)
        critical = xp.asarray(critical, float)
        known, step = xp.isfinite(critical), now.step + 1
        usable = xp.where(known, critical, now.rate)  # keeps NaN out of the comparisons
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
        # A triangle: 0 at the beginning of a period, 1 in its middle.
        height = 1 - abs(2 * (step % self.period) / self.period - 1)
        if self.catapults is not None:
            height = xp.where(step < self.period * self.catapults, height, 0.0)
        top = xp.where(critical > 0, self.times * critical, self.learning_rate)
        return self.learning_rate + height * (top - self.learning_rate)

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """The control as an optax transformation, for your own training loop.

        `update(gradients, state, params, critical_rate=…)` returns −η · gradients. Give it
        η_crit at the present weights, for example from `probes.critical_learning_rate`. The state
        is a `Steering`.
        """

        def init(params: Any) -> Steering:
            del params
            return self._before(jnp)

        def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
            del params
            if "critical_rate" not in extra:
                raise ValueError("critical_rate: got none; allowed is update(…, critical_rate=…)")
            state = self.advance(state, jnp.asarray(extra["critical_rate"], float))
            scale = lambda u: (-state.rate).astype(u.dtype) * u
            return jax.tree.map(scale, updates), state

        return optax.GradientTransformationExtraArgs(init, update)


def checked_times(times: Number, limit: Number) -> tuple[np.ndarray, np.ndarray]:
    """`times` and `limit`, or a one-line error."""
    times, limit = positive("times", times), positive("limit", limit)
    if not times > 1:
        raise ValueError(f"times: got {times:g}; allowed are numbers above 1, the critical rate")
    if not times < limit:
        raise ValueError(
            f"times: got {times:g}, at which training diverges; allowed are numbers below "
            f"limit={limit:g}, which you may raise"
        )
    return times, limit


def _library(*trees: Any) -> Any:
    """`jax.numpy` if any leaf is a JAX array, else NumPy."""
    return jnp if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(trees)) else np
