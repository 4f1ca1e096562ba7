"""Activations, and those of them whose Gaussian averages have closed forms.

(u, v, …) are centred, jointly Gaussian, with covariance C. Each average reads C as
`C[i][j]`, so that a matrix gives one number and nested broadcastable arrays give a table.

    I2 = E[g(u) g(v)]      I3 = E[g'(u) v g(w)]      I4 = E[g'(u) g'(v) g(w) g(z)]
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from learndyn.numerics.gaussian import hermite
from learndyn.numerics.gaussian.pieces import Pieces
from learndyn.runtime.types import Array

Covariance = Any  # what `C[i][j]` reads: an array, or nested sequences of arrays


class AbstractActivation(eqx.Module):
    """An activation g. Only `__call__` is needed; the rest says what more is known of g."""

    @abc.abstractmethod
    def __call__(self, h: Array) -> Array:
        """The activation g(h), elementwise."""

    @property
    def smooth(self) -> bool:
        """Whether neither g nor its derivatives jump."""
        return True

    @property
    def trainable(self) -> bool:
        """Whether units can learn with g: its slope is not zero almost everywhere."""
        return True

    @property
    def pieces(self) -> Pieces | None:
        """The function as a sum of x, |x| and error functions, if it is one."""
        return None

    @property
    def fit(self) -> str:
        """What averages with `pieces` are of, where that is not quite the function itself."""
        return ""

    def with_accuracy(self, accuracy: float) -> "AbstractActivation":
        """The same function, with averages of a given accuracy where they approximate it."""
        return self

    def coefficients(self, mean: Array, std: Array, rule: hermite.Rule) -> hermite.Coefficients:
        """Hermite coefficients of g, g' and g'' around `mean`, for a smooth function."""
        return hermite.coefficients(self, mean, std, rule)


class AbstractClosedForm(AbstractActivation):
    """An activation g whose averages over g alone have closed forms."""

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
