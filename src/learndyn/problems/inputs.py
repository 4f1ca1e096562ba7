"""Input distributions."""

from typing import NamedTuple

import jax.numpy as jnp

from learndyn.numerics.random import Source
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value
from learndyn.problems.spectra import Spectrum


class Gaussian(Value):
    """Centred Gaussian inputs in the eigenbasis of their covariance.

    Coordinates are ordered by level: the first N_1 have variance λ_1, and so on.

    Args:
        spectrum: eigenvalues and multiplicities.
    """

    spectrum: Spectrum

    @property
    def dim(self) -> int:
        """The dimension N."""
        return self.spectrum.dim

    def variances(self, dim: int) -> Array:
        """The variance of every coordinate (dim,), or one number where all are equal."""
        values = jnp.asarray(self.spectrum.values)
        if self.spectrum.levels == 1:
            return values[0]
        return jnp.repeat(values, jnp.asarray(self.spectrum.counts), total_repeat_length=dim)

    def sampler(self, dim: int, dtype) -> "Sampler":
        """Draws inputs; what does not change between steps is computed here, once."""
        return Sampler(jnp.sqrt(self.variances(dim)).astype(dtype), dim)


class Sampler(NamedTuple):
    """Draws Gaussian inputs of given coordinate scales."""

    scales: Array
    dim: int

    def __call__(self, source: Source, shape: tuple[int, ...]) -> Array:
        """Fresh inputs (*shape, dim)."""
        return self.scales * source.normal((*shape, self.dim), self.scales.dtype)
