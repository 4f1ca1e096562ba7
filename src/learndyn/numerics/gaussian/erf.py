"""g(h) = erf(h/√2): the averages of Saad and Solla (1995), with the arguments of I4 corrected.

The corrected A₀, A₁, A₂ of I4 differ from Eq. 91 of Worschech and Rosenow (2024).
"""

import jax.numpy as jnp
from jax.scipy.special import erf

from learndyn.numerics.gaussian.base import AbstractClosedForm, Covariance
from learndyn.numerics.gaussian.pieces import Pieces
from learndyn.runtime.types import Array


class Erf(AbstractClosedForm):
    """The error function, g(h) = erf(h/√2)."""

    def __call__(self, h: Array) -> Array:
        return erf(h / 2**0.5)

    @property
    def pieces(self) -> Pieces:
        return Pieces(weights=(1.0,), widths=(1.0,))

    def I2(self, C: Covariance) -> Array:
        return 2 / jnp.pi * jnp.arcsin(C[0][1] / jnp.sqrt((1 + C[0][0]) * (1 + C[1][1])))

    def slopes(self, C: Covariance) -> Array:
        return 2 / jnp.pi / jnp.sqrt((1 + C[0][0]) * (1 + C[1][1]) - C[0][1] ** 2)

    def curvature_times_value(self, C: Covariance) -> Array:
        return -C[0][1] * self.slopes(C) / (1 + C[0][0])

    def I4(self, C: Covariance) -> Array:
        A4 = (1 + C[0][0]) * (1 + C[1][1]) - C[0][1] ** 2

        def A(k: int, l: int, unit: int) -> Array:
            return (
                A4 * (unit + C[k][l])
                - C[1][k] * C[1][l] * (1 + C[0][0])
                - C[0][k] * C[0][l] * (1 + C[1][1])
                + C[0][1] * (C[0][k] * C[1][l] + C[0][l] * C[1][k])
            )

        A0, A1, A2 = A(2, 3, 0), A(2, 2, 1), A(3, 3, 1)
        return 4 / jnp.pi**2 / jnp.sqrt(A4) * jnp.arcsin(A0 / jnp.sqrt(A1 * A2))
