"""g(h) = sin h: averages of products of waves are exponentials of variances."""

import itertools

import jax.numpy as jnp

from learndyn.numerics.gaussian.base import AbstractClosedForm, Covariance
from learndyn.runtime.types import Array


class Sine(AbstractClosedForm):
    """The sine, g(h) = sin h."""

    def __call__(self, h: Array) -> Array:
        return jnp.sin(h)

    # (cosh c) e^{-(q+p)/2} would overflow for large c; both exponents below are at most 0.
    def I2(self, C: Covariance) -> Array:
        same, opposite = _waves(C)
        return (same - opposite) / 2

    def slopes(self, C: Covariance) -> Array:
        same, opposite = _waves(C)
        return (same + opposite) / 2

    def curvature_times_value(self, C: Covariance) -> Array:
        return -self.I2(C)

    def I4(self, C: Covariance) -> Array:
        """⅛ Σ_{s,t=±1} (E cos(u + s v + t (w − z)) − E cos(u + s v + t (w + z)))."""

        def wave(*signs: int) -> Array:
            pairs = itertools.product(range(4), repeat=2)
            return jnp.exp(-sum(signs[i] * signs[j] * C[i][j] for i, j in pairs) / 2)

        every = itertools.product((1, -1), repeat=2)
        return sum((wave(1, s, t, -t) - wave(1, s, t, t) for s, t in every), jnp.zeros(())) / 8


def _waves(C: Covariance) -> tuple[Array, Array]:
    """E[cos(u − v)] and E[cos(u + v)]."""
    mean = (C[0][0] + C[1][1]) / 2
    return jnp.exp(C[0][1] - mean), jnp.exp(-C[0][1] - mean)
