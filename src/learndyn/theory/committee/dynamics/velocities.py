"""What momentum makes of a step, as a linear map of weights and velocities."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from learndyn.rules.law import Inertia
from learndyn.runtime.types import Array

Part = Array | None  # outputs or biases, where they are part of the state


class Momentum(NamedTuple):
    """V ← β V + x/η and w ← w + η V, for the step x that the weights w would take without momentum.

    In Nesterov's form w ← w + x + η β V, with the new V. With x = (k − 1) w + δ ξ it is a linear
    map of the rows (w, V), and adds δ ξ to both of them with a factor each. V may have any unit: a
    constant rate may be replaced by 1. If the rate changes, what does not scale with it, such as
    (k − 1) w, is in a velocity U of its own, in units of w: rows are then (w, V, U).

    Attributes:
        rate: η.
        momentum: β.
        ahead: 1 in Nesterov's form, otherwise 0.
        kept: k, of every level or a number.
        split: whether there is a U.
    """

    rate: Array | float
    momentum: Array
    ahead: int
    kept: Array | float
    split: bool = False

    @staticmethod
    def of(
        inertia: Inertia, rate: Array | float, kept: Array | float, split: bool = False
    ) -> "Momentum":
        """The momentum of a rule."""
        return Momentum(rate, jnp.asarray(inertia.momentum), int(inertia.nesterov), kept, split)

    @property
    def _factors(self) -> tuple[Array | float, ...]:
        """Of δ ξ in w, in V and in U."""
        both = 1 + self.ahead * self.momentum, 1 / self.rate
        return (*both, 0.0) if self.split else both

    @property
    def _carried(self) -> Array:
        """What w moves by of a velocity before the step, in units of w."""
        return self.momentum ** (1 + self.ahead)

    def rows(self, Z: Array, axis: int = 0) -> Array:
        """The linear map of rows (w, V), or (w, V, U), along an axis."""
        w, V, *rest = jnp.split(Z, 2 + self.split, axis=axis)
        into_w, pull = self._factors[0], (self.kept - 1) * w
        moved = w + into_w * pull + self.rate * self._carried * V
        if not self.split:
            return jnp.concatenate([moved, pull / self.rate + self.momentum * V], axis=axis)
        (U,) = rest
        velocities = self.momentum * V, self.momentum * U + pull
        return jnp.concatenate([moved + self._carried * U, *velocities], axis=axis)

    def spread(self, step: Array, axis: int) -> Array:
        """A step δ ξ of w as one of all rows along an axis."""
        return jnp.concatenate([factor * step for factor in self._factors], axis=axis)

    def part(self, old: Part, velocities: Part, step: Any, kept: Any) -> tuple[Part, Part]:
        """Outputs or biases after a step, and their V and U, (2, …).

        Args:
            old: before the step.
            velocities: V and U before it.
            step: what the gradient adds without momentum.
            kept: what decay leaves of `old`; None is 1.
        """
        if old is None or velocities is None:
            return None, None
        pull, (V, U) = 0.0 if kept is None else (kept - 1) * old, velocities
        moved = old + self._factors[0] * (step + pull) + self._carried * (self.rate * V + U)
        return moved, jnp.stack([self.momentum * V + step / self.rate, self.momentum * U + pull])
