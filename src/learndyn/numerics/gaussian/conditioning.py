"""E[g'_i g'_j Δ²] of smooth functions, with or without biases, by conditioning on (z_i, z_j).

(z_i, z_j) = L x with standard normal x; given x the other variables have means b_k + A_k·x and the
covariance R = Σ − A Aᵀ, so that Mehler's formula gives

    E[g'_i g'_j Δ²] = Σ_x w_x g'(z_i) g'(z_j) Σ_p a_p(x)ᵀ (ρ_R^p) a_p(x)

with coefficients a_p,k(x) = c_k E[f_k(b_k + A_k·x + √R_kk y) h_p(y)]. The average of Δ² given x is
never negative and vanishes with Δ, whatever the resolution. Sums over x are trapezoid rules.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import hermite
from learndyn.numerics.gaussian.pieces import inverse_root
from learndyn.runtime.types import Array

if TYPE_CHECKING:
    from learndyn.numerics.gaussian.units import Units


DETERMINED = 1e-12  # the share of a variance below which it counts as rounding


class Grid(NamedTuple):
    """The rule of x, that of the inner average, and the smallest share of the largest weight."""

    outer: hermite.Rule
    inner: hermite.Rule
    smallest: float

    def points(self, axes: int) -> tuple[np.ndarray, np.ndarray]:
        """The points (number, axes) and weights of x."""
        x, w = self.outer.nodes, self.outer.weights
        grid = np.stack(np.meshgrid(*[x] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
        weights = np.prod(np.meshgrid(*[w] * axes, indexing="ij"), axis=0).ravel()
        kept = weights > self.smallest * weights.max()
        return grid[kept], weights[kept]


def noise(units: "Units", sigma: Array, c: Array, biases: Array, grid: Grid) -> Array:
    """E[g'_i g'_j Δ²], (K, K), for units with smooth activations."""
    K, slope = units.K, hermite.derivatives(units.student)[1]

    def average(A: Array, x: np.ndarray, weights: Array) -> Array:
        R = sigma - A @ A.T
        # What is determined by x has R_kk = 0 up to rounding.
        free = jnp.diagonal(R) > DETERMINED * jnp.diagonal(sigma)
        R = jnp.where(free[:, None] & free, R, 0.0)
        std, rho = hermite.correlations(R)
        a = hermite.values(units.activations, biases + x @ A.T, std, grid.inner) * c
        G = jnp.einsum("pxk,x,pxl->pkl", a, weights, a)
        return jnp.sum(G * hermite.powers(rho, grid.inner.terms))

    def single(i: Array) -> Array:
        x, w = grid.points(1)
        A = (sigma[:, i] * inverse_root(sigma[i, i]))[:, None]
        return average(A, x, w * slope(biases[i] + x @ A[i]) ** 2)

    def pair(i: Array, j: Array) -> Array:
        x, w = grid.points(2)
        first = sigma[:, i] * inverse_root(sigma[i, i])
        rest = sigma[:, j] - first * first[j]
        left = jnp.where(rest[j] > DETERMINED * sigma[j, j], rest[j], 0.0)
        A = jnp.stack([first, rest * inverse_root(left)], axis=1)
        slopes = slope(biases[i] + x @ A[i]) * slope(biases[j] + x @ A[j])
        return average(A, x, w * slopes)

    diagonal = jnp.diag(jax.lax.map(single, jnp.arange(K)))
    if K == 1:
        return diagonal
    i, j = np.triu_indices(K, 1)
    off = jax.lax.map(lambda ij: pair(*ij), (jnp.asarray(i), jnp.asarray(j)))
    return diagonal.at[i, j].set(off).at[j, i].set(off)
