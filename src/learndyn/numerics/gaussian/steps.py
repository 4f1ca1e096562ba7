"""Hermite coefficients of x, |x| and sgn(x), in closed form.

With t = m/s they follow from E[sgn(m + s y)] = erf(t/√2) by derivatives in m:

    a_p of sgn = √(2/π) e^{−t²/2} (−1)^{p−1} h_{p−1}(t)/√p   for p ≥ 1.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from learndyn.numerics.gaussian.hermite import Coefficients
from learndyn.numerics.gaussian.pieces import ROOT, Pieces, inverse
from learndyn.runtime.types import Array


def kinked_coefficients(f: Pieces, mean: Array, std: Array, terms: int) -> Coefficients:
    """Coefficients of linear · x + absolute · |x| + weight · sgn(x), (terms, units) each.

    Those of derivatives are in the sense of distributions: (sgn)' = 2δ.
    """
    mean, std = jnp.broadcast_arrays(mean, std)
    step = sgn_coefficients(mean, std, terms + 2)
    rise, bend = lowered(step, std), lowered(lowered(step, std), std)
    linear = jnp.zeros((terms, *mean.shape)).at[0].set(mean).at[1].set(std)
    one = jnp.zeros((terms, *mean.shape)).at[0].set(1.0)
    size = raised(step, std, mean * step[0] + std**2 * rise[0])
    weight = sum(f.weights)
    return Coefficients(
        f.linear * linear + f.absolute * size[:terms] + weight * step[:terms],
        f.linear * one + f.absolute * step[:terms] + weight * rise[:terms],
        f.absolute * rise[:terms] + weight * bend[:terms],
    )


def sgn_coefficients(mean: Array, std: Array, terms: int) -> Array:
    """The coefficients of sgn(m + s y), (terms, units)."""
    t = mean * inverse(std)
    moves = std > 0
    first = jnp.where(moves, erf(t / 2**0.5), jnp.sign(mean))
    p = np.arange(1, terms).reshape(-1, *(1,) * t.ndim)
    others = ROOT * jnp.exp(-(t**2) / 2) * (-1.0) ** (p - 1) / np.sqrt(p) * rows(t, terms - 1)
    return jnp.concatenate([first[None], jnp.where(moves, others, 0.0)])


def lowered(a: Array, std: Array) -> Array:
    """The coefficients of f' from those of f: √(p+1) a_{p+1} / s, one fewer."""
    p = np.arange(1, len(a)).reshape(-1, *(1,) * std.ndim)
    return np.sqrt(p) * a[1:] * inverse(std)


def raised(a: Array, std: Array, first: Array) -> Array:
    """The coefficients of f from those of f' and from the mean of f, one more."""
    p = np.arange(1, len(a) + 1).reshape(-1, *(1,) * std.ndim)
    return jnp.concatenate([first[None], std * a / np.sqrt(p)])


def rows(t: Array, terms: int) -> Array:
    """h_p(t) for p < terms, as a loop that compiles quickly."""

    def advance(carry, p):
        last, before = carry
        return ((t * last - jnp.sqrt(p) * before) / jnp.sqrt(p + 1), last), last

    start = jnp.ones_like(t), jnp.zeros_like(t)
    return jax.lax.scan(advance, start, jnp.arange(terms, dtype=t.dtype))[1]
