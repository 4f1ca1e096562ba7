"""g(h) = h."""

import jax.numpy as jnp

from learndyn.numerics.gaussian.base import AbstractClosedForm, Covariance
from learndyn.numerics.gaussian.pieces import Pieces
from learndyn.runtime.types import Array


class Linear(AbstractClosedForm):
    """The identity, g(h) = h."""

    def __call__(self, h: Array) -> Array:
        return h

    @property
    def pieces(self) -> Pieces:
        return Pieces(linear=1.0)

    def I2(self, C: Covariance) -> Array:
        return C[0][1]

    def slopes(self, C: Covariance) -> Array:
        return jnp.ones_like(C[0][1])

    def curvature_times_value(self, C: Covariance) -> Array:
        return jnp.zeros_like(C[0][1])

    def I4(self, C: Covariance) -> Array:
        return C[2][3]

    def weighted_noise(self, C: Array, c: Array, units: int) -> Array:
        return jnp.full((units, units), c @ C @ c)
