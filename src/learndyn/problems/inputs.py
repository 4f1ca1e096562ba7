"""Input distributions."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from learndyn.numerics.random import Source
from learndyn.problems.spectra import Spectrum
from learndyn.runtime.checks import finite, instance, numbers
from learndyn.runtime.types import Array
from learndyn.runtime.values import Value


class Gaussian(Value):
    """Centred Gaussian inputs, in the eigenbasis of their covariance or in another frame.

    In the eigenbasis, coordinates are ordered by level: the first N_1 have variance λ_1, and so on.

    Args:
        spectrum: eigenvalues and multiplicities.
        frame: an orthogonal matrix (N, N) whose columns are the eigenvectors of the
            covariance; None for the eigenbasis itself.

    Raises:
        ValueError: for another spectrum, and for a frame that is not an orthogonal matrix
            of its size.

    Example:
        >>> import learndyn as ld
        >>> ld.Gaussian(ld.Spectrum([2.0, 0.5], counts=[10, 20])).dim
        30
    """

    spectrum: Spectrum
    frame: np.ndarray | None = None

    def __post_init__(self):
        instance("spectrum", self.spectrum, Spectrum, "a spectrum such as Isotropic or PowerLaw")
        if self.frame is None:
            return
        frame = finite("frame", numbers("frame", self.frame))
        object.__setattr__(self, "frame", frame)
        square = frame.shape == (self.dim, self.dim)
        if not square or not np.allclose(frame.T @ frame, np.eye(self.dim), atol=1e-8):
            allowed = f"an orthogonal matrix {(self.dim, self.dim)}"
            raise ValueError(f"frame: got {frame.shape}; allowed is {allowed}")

    @property
    def dim(self) -> int:
        """The dimension N."""
        return self.spectrum.dim

    def in_eigenbasis(self, rows: Array) -> Array:
        """Rows (…, dim) in the coordinates of the eigenbasis, in the precision of the rows."""
        return rows if self.frame is None else rows @ self.frame.astype(rows.dtype)

    def from_eigenbasis(self, rows: Array) -> Array:
        """The inverse of `in_eigenbasis`."""
        return rows if self.frame is None else rows @ self.frame.T.astype(rows.dtype)

    def variances(self, dim: int) -> Array:
        """The variances (dim,) of the eigenbasis coordinates; a scalar if they are all equal."""
        values = jnp.asarray(self.spectrum.values)
        if self.spectrum.levels == 1:  # a scalar multiplies faster than a vector
            return values[0]
        # The length is given, since counts are traced inside a compiled run.
        return jnp.repeat(values, jnp.asarray(self.spectrum.counts), total_repeat_length=dim)

    def sampler(self, dim: int, dtype) -> "Sampler":
        """A function that draws inputs, with everything that is constant computed once."""
        return Sampler(self, jnp.sqrt(self.variances(dim)).astype(dtype), dim)


class Sampler(NamedTuple):
    """Draws Gaussian inputs with given standard deviations along their eigenvectors."""

    inputs: Gaussian
    scales: Array
    dim: int

    def __call__(self, source: Source, shape: tuple[int, ...]) -> Array:
        """Fresh inputs (*shape, dim)."""
        drawn = self.scales * source.normal((*shape, self.dim), self.scales.dtype)
        return self.inputs.from_eigenbasis(drawn)
