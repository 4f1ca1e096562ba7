"""Functions with one slope on either side of 0: relu, leaky_relu and abs."""

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics.gaussian import hermite
from learndyn.numerics.gaussian.base import AbstractActivation
from learndyn.numerics.gaussian.pieces import Pieces
from learndyn.numerics.gaussian.steps import kinked_coefficients
from learndyn.runtime.types import Array


class Ramp(AbstractActivation):
    """g(h) = h for h > 0, slope · h for h < 0.

    Args:
        slope: 0 for relu, −1 for abs.
    """

    slope: float = eqx.field(static=True, default=0.0)

    def __call__(self, h: Array) -> Array:
        # The slope at 0 is 0 for relu, and that of the left side for the others.
        return jax.nn.relu(h) if self.slope == 0 else jnp.where(h > 0, h, self.slope * h)

    @property
    def smooth(self) -> bool:
        return False

    @property
    def pieces(self) -> Pieces:
        return Pieces(linear=(1 + self.slope) / 2, absolute=(1 - self.slope) / 2)

    def coefficients(self, mean: Array, std: Array, rule: hermite.Rule) -> hermite.Coefficients:
        return kinked_coefficients(self.pieces, mean, std, rule.terms)
