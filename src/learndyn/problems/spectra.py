"""Covariance spectra: eigenvalues λ_l with multiplicities N_l, l = 1 … L."""

from collections.abc import Sequence

import numpy as np

from learndyn.runtime.bounds import COUNT, POSITIVE, bounded
from learndyn.runtime.checks import LARGEST_COUNT, finite, numbers, positive, positive_int, shown
from learndyn.runtime.types import Number
from learndyn.runtime.values import Value


class Spectrum(Value):
    """Eigenvalues of an input covariance, with multiplicities.

    Nothing is normalised here: the trace may differ from N.

    Args:
        values: positive eigenvalues λ_l, in descending order.
        counts: multiplicities N_l, positive integers; their sum is the dimension N.

    Raises:
        ValueError: for eigenvalues that are not positive and descending, and multiplicities
            that are not one positive integer for each.

    Example:
        >>> import learndyn as ld
        >>> ld.Spectrum([2.0, 0.5], counts=[10, 20]).dim
        30
    """

    values: np.ndarray
    counts: np.ndarray

    def __init__(self, values: Sequence[float] | np.ndarray, counts: Sequence[int] | np.ndarray):
        self.values = np.atleast_1d(finite("values", numbers("values", values)))
        multiplicities = np.atleast_1d(finite("counts", numbers("counts", counts)))
        if (
            self.values.ndim != 1
            or self.values.shape != multiplicities.shape
            or not self.values.size
        ):
            shapes = f"{self.values.shape} beside counts {multiplicities.shape}"
            raise ValueError(f"values: got {shapes}; allowed are two lists of the same length")
        if np.any(multiplicities < 1) or np.any(multiplicities != np.rint(multiplicities)):
            raise ValueError(f"counts: got {shown(counts)}; allowed are positive integers")
        if multiplicities.sum() > LARGEST_COUNT:
            raise ValueError(f"counts: got {shown(counts)}; allowed is a sum of at most 2^53")
        self.counts = multiplicities.astype(np.int64)
        if np.any(self.values <= 0):
            bad = self.values[self.values <= 0][0]
            raise ValueError(f"values: got {bad:g}; allowed are positive eigenvalues")
        if np.any(np.diff(self.values) >= 0):
            raise ValueError("values: got an unsorted list; allowed are descending eigenvalues")

    @property
    def dim(self) -> int:
        """The dimension N = Σ_l N_l."""
        return int(self.counts.sum())

    @property
    def levels(self) -> int:
        """The number L of distinct eigenvalues."""
        return len(self.values)


@bounded(dim=COUNT)
def Isotropic(dim: int) -> Spectrum:
    """The unit covariance: one level, λ = 1.

    Args:
        dim: the number of inputs N.

    Returns:
        The spectrum.

    Raises:
        ValueError: for a dimension that is not a positive integer.

    Example:
        >>> import learndyn as ld
        >>> ld.Isotropic(300).dim
        300
    """
    return Spectrum([1.0], [positive_int("dim", dim)])


@bounded(dim=COUNT, levels=COUNT, exponent=POSITIVE)
def PowerLaw(dim: int, levels: int, exponent: Number) -> Spectrum:
    """λ_k ∝ k^-(1+exponent), k = 1 … levels, each N/levels times, with Σ_l N_l λ_l = N.

    Args:
        dim: dimension N; `levels` must divide it.
        levels: number L of distinct eigenvalues.
        exponent: β > 0.

    Returns:
        The spectrum, in descending order.

    Raises:
        ValueError: if `levels` does not divide `dim`, or an argument is not positive.

    Example:
        >>> import learndyn as ld
        >>> ld.PowerLaw(100, 2, 1.0).values.tolist()
        [1.6, 0.4]
    """
    dim, levels = positive_int("dim", dim), positive_int("levels", levels)
    beta = float(positive("exponent", exponent))
    if dim % levels:
        raise ValueError(f"levels: got {levels} for dim {dim}; allowed is a divisor of dim")
    values = np.arange(1, levels + 1, dtype=np.float64) ** -(1 + beta)
    if not (values[-1] > 0 and np.all(np.diff(values) < 0)):
        raise ValueError(
            f"exponent: got {beta:g}; allowed are exponents for which the {levels} levels differ"
        )
    return Spectrum(values / values.mean(), np.full(levels, dim // levels))
