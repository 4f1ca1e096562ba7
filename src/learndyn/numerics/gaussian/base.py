"""Gaussian averages of an activation g, as one interface.

(u, v, …) are centred, jointly Gaussian, with covariance C. Each average reads C as
`C[i][j]`, so that a matrix gives one number and nested broadcastable arrays give a table.

    I2 = E[g(u) g(v)]      I3 = E[g'(u) v g(w)]      I4 = E[g'(u) g'(v) g(w) g(z)]
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from learndyn.runtime.types import Array

Covariance = Any  # what `C[i][j]` reads: an array, or nested sequences of arrays


class AbstractActivation(eqx.Module):
    """An activation g with its Gaussian averages in closed form."""

    @abc.abstractmethod
    def __call__(self, h: Array) -> Array:
        """The activation g(h), elementwise."""

    @abc.abstractmethod
    def I2(self, C: Covariance) -> Array:
        """E[g(u) g(v)]."""

    @abc.abstractmethod
    def slopes(self, C: Covariance) -> Array:
        """E[g'(u) g'(v)]."""

    @abc.abstractmethod
    def curvature_times_value(self, C: Covariance) -> Array:
        """E[g''(u) g(v)], the curvature at u times the value at v."""

    @abc.abstractmethod
    def I4(self, C: Covariance) -> Array:
        """E[g'(u) g'(v) g(w) g(z)]."""

    def I3(self, C: Covariance) -> Array:
        """E[g'(u) v g(w)], by Stein's lemma: C_uv E[g''(u) g(w)] + C_vw E[g'(u) g'(w)]."""
        C_uw = [[C[0][0], C[0][2]], [C[2][0], C[2][2]]]
        return C[0][1] * self.curvature_times_value(C_uw) + C[1][2] * self.slopes(C_uw)

    def weighted_noise(self, C: Array, c: Array, units: int) -> Array:
        """E[g'(z_i) g'(z_j) Δ²] for the first `units` variables, Δ = Σ_k c_k g(z_k).

        Holds units² · n² averages once. Members with a matrix form replace it.

        Args:
            C: covariance (n, n) of z.
            c: output weights (n,).
            units: number of leading variables that i and j run over.

        Returns:
            The matrix (units, units).
        """
        student, all_ = range(units), range(len(c))
        return jnp.einsum("ijkl,k,l->ij", tabulate(self.I4, C, student, student, all_, all_), c, c)


def tabulate(average: Callable[..., Array], C: Array, *indices: Sequence[int]) -> Array:
    """The table A[i, j, …] = average(C over (z_i, z_j, …)), one axis for each index set."""
    grid = jnp.ix_(*(jnp.asarray(i) for i in indices))
    return average([[C[m, n] for n in grid] for m in grid])
