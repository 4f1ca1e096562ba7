"""Averages over quasi-random points, for what has no other form. Their error is about 1 %."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its statistics are imported on first use

from learndyn.numerics.gaussian.pieces import inverse
from learndyn.numerics.semidefinite import root_times
from learndyn.runtime.types import Array

BITS = 14  # 2^14 points


@functools.lru_cache(maxsize=8)
def normal_points(dim: int, seed: int = 0) -> np.ndarray:
    """2^14 scrambled Sobol points, mapped to standard normal numbers, (points, dim)."""
    points = scipy.stats.qmc.Sobol(dim, scramble=True, rng=seed).random_base2(BITS)
    # Sobol points have 30 bits, so a coordinate may be 0, whose normal quantile is −∞.
    points = scipy.special.ndtri(np.maximum(points, 2.0**-31))
    points.setflags(write=False)
    return points


class Points:
    """Averages over the units of a student and a teacher at quasi-random points.

    Args:
        f: all activations, elementwise along the last axis.
        students: their number K.
        sigma: covariance of the pre-activations, (n, n).
        biases: (n,), or None.
        seed: of the scrambling.
    """

    def __init__(self, f, students: int, sigma: Array, biases: Array | None, seed: int):
        self.z = root_times(sigma, jnp.asarray(normal_points(len(sigma), seed)))[0]
        z = self.z if biases is None else self.z + biases
        self.f, slopes = jax.jvp(f, (z,), (jnp.ones_like(z),))
        self.every, self.g, self.sigma = slopes, slopes[:, :students], sigma

    def _mean(self, a: Array, b: Array) -> Array:
        return a.T @ b / len(self.z)

    def values(self) -> Array:
        """E[f_k f_l]."""
        return self._mean(self.f, self.f)

    def slopes(self) -> Array:
        """E[g'_i f'_k]."""
        return self._mean(self.g, self.every)

    def slope_values(self) -> Array:
        """E[g'_i f_k]."""
        return self._mean(self.g, self.f)

    def curvatures(self) -> Array:
        """E[g''_i f_k], by Stein's lemma, so that kinks count."""
        K = self.g.shape[1]
        products = self._mean(self.g * self.z[:, :K], self.f) - self.sigma[:K] * self.slopes()
        return products * inverse(jnp.diagonal(self.sigma)[:K])[:, None]

    def noise(self, c: Array) -> Array:
        """E[g'_i g'_j Δ²], positive semidefinite by construction."""
        return self._mean(self.g * ((self.f @ c) ** 2)[:, None], self.g)
