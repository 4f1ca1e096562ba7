"""The mean of a product of four signs of Gaussian variables.

There is no elementary form (Abrahamson 1964). With correlations ρ_ij and the path that scales those
of the first variable by t, Plackett's identity gives E[s_1 s_2 s_3 s_4] = 4 W/π² with

    W = Σ_{j=2,3,4} ∫_0^1 dt ρ_1j/√(1 − t² ρ_1j²) arcsin r_j(t),

where r_j(t) is the correlation of the other two variables given those of 1 and j on the path. The
orthant probability is P4 = 1/16 + (1/8π) Σ arcsin ρ_ij + W/(4π²).
"""

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian.pieces import ROUNDING
from learndyn.runtime.types import Array

# Error of W/(4π²): 1e-12 if two pairs of unit vectors are 0.01 apart, 1e-9 at 0.001, 2e-8 at 1e-4.
# The noise of a student vanishes with its error, so this must be small even late in training.
NODES = 48

# (ij, ik, il, jk, jl, kl) for the six pairs ij, as rows of ρ_12, ρ_13, ρ_14, ρ_23, ρ_24, ρ_34.
ORDERS = np.array(
    [
        [0, 1, 2, 3, 4, 5],
        [1, 0, 2, 3, 5, 4],
        [2, 0, 1, 4, 5, 3],
        [3, 0, 4, 1, 5, 2],
        [4, 0, 3, 2, 5, 1],
        [5, 1, 3, 2, 4, 0],
    ]
)


@jax.custom_jvp
def four_signs(rho: Array) -> Array:
    """E[s_1 s_2 s_3 s_4] for correlations ρ_12, ρ_13, ρ_14, ρ_23, ρ_24, ρ_34, (6, …)."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    x = (x + 1) / 2
    # Nodes gather at t = 1, where the other two may become parallel.
    t, w = 1 - (1 - x) ** 4, 2 * w * (1 - x) ** 3
    t, w = (array.reshape(-1, *(1,) * rho.ndim) for array in (t, w))
    ij, ik, il, jk, jl, kl = rho[ORDERS[:3].T]
    integrand = ij * _partial(t * ij, t * ik, t * il, jk, jl, kl) / jnp.sqrt(1 - (t * ij) ** 2)
    total = 4 / np.pi**2 * jnp.sum(w * integrand, axis=(0, 1))
    # Two parallel variables have one sign, whose square is 1.
    for one, other in zip(rho, rho[ORDERS[:, 5]], strict=True):
        two = jnp.sign(one) * 2 / np.pi * jnp.arcsin(jnp.clip(other, -1, 1))
        total = jnp.where(1 - one**2 < ROUNDING, two, total)
    return total


@four_signs.defjvp
def _(primals, tangents):
    (rho,), (change,) = primals, tangents
    rest = 1 - rho**2
    # The derivative is infinite at |ρ_ij| = 1, where the two signs are one: taken as 0.
    free = rest > ROUNDING
    scale = jnp.where(free, jax.lax.rsqrt(jnp.where(free, rest, 1.0)), 0.0)
    slopes = 4 / np.pi**2 * _partial(*rho[ORDERS.T]) * scale
    return four_signs(rho), jnp.sum(slopes * change, axis=0)


def _partial(ij: Array, ik: Array, il: Array, jk: Array, jl: Array, kl: Array) -> Array:
    """Arcsin of the correlation of k and l, given i and j."""
    s = 1 - ij * ij
    covariance = s * kl - ik * il - jk * jl + ij * (ik * jl + il * jk)
    k = s - ik * ik - jk * jk + 2 * ij * ik * jk
    l = s - il * il - jl * jl + 2 * ij * il * jl
    return jnp.arctan2(covariance, jnp.sqrt(jnp.maximum(k * l - covariance * covariance, 0.0)))
