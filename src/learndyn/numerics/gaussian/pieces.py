"""Functions that are sums of 1, x, |x| and error functions, whose pair averages are closed.

    f(x) = constant + linear · x + absolute · |x| + Σ_j weights_j S(x; widths_j)
    S(x; e) = erf(x/√(2e)) = E[sgn(x + √e ξ)] for a standard normal ξ;   S(x; 0) = sgn(x)

ReLUs, erf, tanh and the logistic function (as sums of erfs), and sgn are such functions. With
q = Var u, p = Var w, c = Cov(u, w) and d = √(qp − c²), products of unlike symmetry have mean 0, and

    E[u w] = c                    E|u||w| = (2/π) [d + c arctan(c/d)]
    E[u S(w; e)] = c √(2/π) / √(e + p)
    E[S(u; e) S(w; k)] = (2/π) arcsin(c / √((e + q)(k + p)))

Averages of slopes and curvatures follow by Price's theorem: E[f' k'] = ∂/∂c, E[f'' k] = 2 ∂/∂q.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array

TWO_PI = 2 / np.pi
ROOT = np.sqrt(2 / np.pi)  # the mean of |y| for a standard normal y
# Below this share a difference of products is rounding.
ROUNDING = 64 * 2.0**-52


class Pieces(NamedTuple):
    """The factors of 1, x and |x|, and the weights and widths of the error functions."""

    constant: float = 0.0
    linear: float = 0.0
    absolute: float = 0.0
    weights: tuple[float, ...] = ()
    widths: tuple[float, ...] = ()

    @property
    def smooth(self) -> bool:
        """Whether there is no kink and no jump."""
        return not self.absolute and all(self.widths)

    @property
    def mean_slope_only(self) -> bool:
        """Whether the slope is constant."""
        return not self.absolute and not self.weights

    @property
    def gaussian_slope(self) -> bool:
        """Whether the slope is a sum of Gaussian functions."""
        return not self.linear and not self.absolute and self.smooth and bool(self.weights)

    @property
    def stepwise_slope(self) -> bool:
        """Whether the slope is constant on either side of 0."""
        return not self.weights


def determinant(q: Array, c: Array, p: Array) -> Array:
    """Qp − c², or 0 where that is rounding."""
    product = q * p
    rest = product - c * c
    return jnp.where(rest > ROUNDING * product, rest, 0.0)


def root(x: Array) -> Array:
    """√x, with derivative 0 at x = 0."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


def inverse(x: Array) -> Array:
    """1/x, or 0 at x = 0."""
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1.0), 0.0)


def inverse_root(x: Array) -> Array:
    """1/√x, or 0 at x = 0."""
    return jnp.where(x > 0, jax.lax.rsqrt(jnp.where(x > 0, x, 1.0)), 0.0)


@jax.custom_jvp
def angle(q: Array, c: Array, p: Array) -> Array:
    """Arcsin(c/√(qp)); 0 for a variable that is constant."""
    return jnp.where(q * p > 0, jnp.arctan2(c, jnp.sqrt(determinant(q, c, p))), 0.0)


@angle.defjvp
def _(primals, tangents):
    # The derivative is infinite at |ρ| = 1. There it is taken as 0, which is right for a variable
    # with itself, whose correlation does not change.
    (q, c, p), (dq, dc, dp) = primals, tangents
    change = dc - c * (dq * inverse(q) + dp * inverse(p)) / 2
    return angle(q, c, p), change * inverse_root(determinant(q, c, p))


@jax.custom_jvp
def absolutes(q: Array, c: Array, p: Array) -> Array:
    """E|u||w|."""
    return TWO_PI * (jnp.sqrt(determinant(q, c, p)) + c * angle(q, c, p))


@absolutes.defjvp
def _(primals, tangents):
    # Finite at |ρ| = 1 too, where automatic derivatives of the root are not.
    (q, c, p), (dq, dc, dp) = primals, tangents
    d = root(determinant(q, c, p))
    slope = dc * angle(q, c, p) + d * (dq * inverse(q) + dp * inverse(p)) / 2
    return absolutes(q, c, p), TWO_PI * slope


def pair_values(f: Pieces, k: Pieces, q: Array, c: Array, p: Array) -> Array:
    """E[f(u) k(w)]."""
    total = f.constant * k.constant + f.linear * k.linear * c
    if f.absolute:
        total += f.absolute * k.constant * ROOT * root(q)
    if k.absolute:
        total += k.absolute * f.constant * ROOT * root(p)
    if f.absolute and k.absolute:
        total += f.absolute * k.absolute * absolutes(q, c, p)
    if f.linear and k.weights:
        total += f.linear * c * mean_slope(k, p)
    if k.linear and f.weights:
        total += k.linear * c * mean_slope(f, q)
    if f.weights and k.weights:
        total += TWO_PI * _over_errors(f, k, q, p, lambda q, p: angle(q, c, p))
    return total


def pair_slopes(f: Pieces, k: Pieces, q: Array, c: Array, p: Array) -> Array:
    """E[f'(u) k'(w)]."""
    total = jnp.zeros_like(q * c * p) + f.linear * k.linear
    if f.absolute and k.absolute:
        total += f.absolute * k.absolute * TWO_PI * angle(q, c, p)
    if f.linear and k.weights:
        total += f.linear * mean_slope(k, p)
    if k.linear and f.weights:
        total += k.linear * mean_slope(f, q)
    if f.weights and k.weights:
        each = lambda q, p: inverse_root(determinant(q, c, p))
        total += TWO_PI * _over_errors(f, k, q, p, each)
    return total


def pair_curvatures(f: Pieces, k: Pieces, q: Array, c: Array, p: Array) -> Array:
    """E[f''(u) k(w)]."""
    total = jnp.zeros_like(q * c * p)
    if f.absolute and k.constant:
        total += f.absolute * k.constant * ROOT * inverse_root(q)
    if f.absolute and k.absolute:
        total += f.absolute * k.absolute * TWO_PI * root(determinant(q, c, p)) * inverse(q)
    if f.weights and k.linear:
        cubes = (w * inverse_root(e + q) ** 3 for w, e in zip(f.weights, f.widths, strict=True))
        total -= k.linear * c * ROOT * sum(cubes, jnp.zeros_like(q))
    if f.weights and k.weights:
        each = lambda q, p: inverse(q) * inverse_root(determinant(q, c, p))
        total -= TWO_PI * c * _over_errors(f, k, q, p, each)
    return total


def pair_slope_values(f: Pieces, k: Pieces, q: Array, c: Array, p: Array) -> Array:
    """E[f'(u) k(w)]."""
    total = jnp.zeros_like(q * c * p) + (f.linear + mean_slope(f, q)) * k.constant
    total += f.linear * k.absolute * ROOT * root(p)
    total += f.absolute * k.linear * ROOT * c * inverse_root(q)
    for w, e in zip(k.weights, k.widths, strict=True):
        total += f.absolute * w * TWO_PI * angle(q, c, e + p)
    for w, e in zip(f.weights, f.widths, strict=True):
        over = inverse(e + q)
        total += k.absolute * w * TWO_PI * root(over) * root(p - c * c * over)
    return total


def mean_slope(f: Pieces, q: Array) -> Array:
    """The mean slope of the error functions."""
    each = (w * inverse_root(e + q) for w, e in zip(f.weights, f.widths, strict=True))
    return ROOT * sum(each, jnp.zeros_like(q))


def _over_errors(f: Pieces, k: Pieces, q: Array, p: Array, average) -> Array:
    """Σ_ab weights_a weights_b average(widths_a + q, widths_b + p), in one operation."""
    axes = (1,) * jnp.ndim(q + p)
    of = lambda values: np.asarray(values).reshape(-1, 1, *axes)
    to = lambda values: np.asarray(values).reshape(1, -1, *axes)
    terms = average(of(f.widths) + q, to(k.widths) + p)
    return jnp.sum(of(f.weights) * to(k.weights) * terms, axis=(0, 1))
