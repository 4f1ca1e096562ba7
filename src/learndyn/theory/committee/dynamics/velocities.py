"""What momentum makes of a step, as a linear map of weights and velocities."""

from typing import NamedTuple

import jax.numpy as jnp

from learndyn.rules.law import Inertia
from learndyn.runtime.types import Array

Part = Array | None  # outputs or biases, where they are part of the state


class Momentum(NamedTuple):
    """V ← β V + x/η and w ← w + η V, for the step x that the weights w would take without momentum.

    In Nesterov's form w ← w + x + η β V, with the new V. With x = (k − 1) w + δ ξ it is a linear
    map of the rows (w, V), and adds δ ξ to both of them with a factor each. V may have any unit: a
    constant rate may be replaced by 1.

    Attributes:
        rate: η.
        momentum: β.
        ahead: 1 in Nesterov's form, otherwise 0.
        kept: k, of every level or a number.
    """

    rate: Array | float
    momentum: Array
    ahead: int
    kept: Array | float

    @staticmethod
    def of(inertia: Inertia, rate: Array | float, kept: Array | float) -> "Momentum":
        """The momentum of a rule."""
        return Momentum(rate, jnp.asarray(inertia.momentum), int(inertia.nesterov), kept)

    @property
    def _factors(self) -> tuple[Array | float, Array | float]:
        """Of x in w and in V."""
        return 1 + self.ahead * self.momentum, 1 / self.rate

    def rows(self, Z: Array, axis: int = 0) -> Array:
        """The linear map of rows (w, V) along an axis."""
        w, V = jnp.split(Z, 2, axis=axis)
        (into_w, into_V), pull = self._factors, self.kept - 1
        carried = self.rate * self.momentum ** (1 + self.ahead)
        rows = (1 + into_w * pull) * w + carried * V, into_V * pull * w + self.momentum * V
        return jnp.concatenate(rows, axis=axis)

    def doubled(self, step: Array, axis: int) -> Array:
        """A step δ ξ of w as one of the rows (w, V) along an axis."""
        return jnp.concatenate([factor * step for factor in self._factors], axis=axis)

    def parts(
        self, old: tuple[Part, Part], velocities: tuple[Part, Part], new: tuple[Part, Part]
    ) -> tuple[tuple[Part, Part], tuple[Part, Part]]:
        """Outputs and biases after steps that would take them to `new`, and their velocities."""
        each = zip(old, velocities, new, strict=True)
        (outputs, of_outputs), (biases, of_biases) = (self._part(*part) for part in each)
        return (outputs, biases), (of_outputs, of_biases)

    def _part(self, old: Part, velocity: Part, new: Part) -> tuple[Part, Part]:
        if old is None or velocity is None or new is None:
            return None, None
        into_w, into_V = self._factors
        step, carried = new - old, self.rate * self.momentum ** (1 + self.ahead)
        return old + into_w * step + carried * velocity, self.momentum * velocity + into_V * step
