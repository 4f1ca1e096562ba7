"""g(h) = h²: every average is a sum over Wick pairings."""

import jax.numpy as jnp

from learndyn.numerics.gaussian.base import AbstractClosedForm, Covariance
from learndyn.runtime.types import Array


class Quadratic(AbstractClosedForm):
    """The square, g(h) = h²."""

    def __call__(self, h: Array) -> Array:
        return h**2

    def I2(self, C: Covariance) -> Array:
        return C[0][0] * C[1][1] + 2 * C[0][1] ** 2

    def slopes(self, C: Covariance) -> Array:
        return 4 * C[0][1]

    def curvature_times_value(self, C: Covariance) -> Array:
        # E[2 v²]; the sum gives a table its full shape.
        return 2 * C[1][1] + 0 * C[0][1]

    def I4(self, C: Covariance) -> Array:
        both = C[0][1] * (C[2][2] * C[3][3] + 2 * C[2][3] ** 2)
        same = 2 * C[0][2] * C[1][2] * C[3][3] + 2 * C[0][3] * C[1][3] * C[2][2]
        crossed = 4 * C[2][3] * (C[0][2] * C[1][3] + C[0][3] * C[1][2])
        return 4 * (both + same + crossed)

    def weighted_noise(self, C: Array, c: Array, units: int) -> Array:
        # With A = diag(c) and m = tr(AC): 4 {C E[Δ²] + 4 m CAC + 8 CACAC}.
        CA = C * c
        m = jnp.trace(CA)
        CAC = CA @ C
        power = m**2 + 2 * jnp.sum(CA * CA.T)
        return (4 * (power * C + 4 * m * CAC + 8 * CA @ CAC))[:units, :units]
