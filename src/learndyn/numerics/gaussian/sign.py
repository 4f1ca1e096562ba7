"""g(h) = sgn h, for teachers that classify."""

import jax.numpy as jnp

from learndyn.numerics.gaussian import hermite
from learndyn.numerics.gaussian.base import AbstractActivation
from learndyn.numerics.gaussian.pieces import Pieces
from learndyn.numerics.gaussian.steps import kinked_coefficients
from learndyn.runtime.types import Array


class Sign(AbstractActivation):
    """The sign, g(h) = sgn h. Its slope is zero almost everywhere, so that it cannot learn."""

    def __call__(self, h: Array) -> Array:
        return jnp.sign(h)

    @property
    def smooth(self) -> bool:
        return False

    @property
    def trainable(self) -> bool:
        return False

    @property
    def pieces(self) -> Pieces:
        return Pieces(weights=(1.0,), widths=(0.0,))

    def coefficients(self, mean: Array, std: Array, rule: hermite.Rule) -> hermite.Coefficients:
        return kinked_coefficients(self.pieces, mean, std, rule.terms)
