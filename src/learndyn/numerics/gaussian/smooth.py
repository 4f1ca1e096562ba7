"""Smooth activations without closed forms: gelu, softplus and swish."""

import jax

from learndyn.numerics.gaussian.base import AbstractActivation
from learndyn.runtime.types import Array


class Gelu(AbstractActivation):
    """g(h) = h Φ(h) with the normal distribution function Φ."""

    def __call__(self, h: Array) -> Array:
        return jax.nn.gelu(h, approximate=False)


class Softplus(AbstractActivation):
    """g(h) = log(1 + e^h)."""

    def __call__(self, h: Array) -> Array:
        return jax.nn.softplus(h)


class Swish(AbstractActivation):
    """g(h) = h/(1 + e^(−h))."""

    def __call__(self, h: Array) -> Array:
        return jax.nn.swish(h)
