"""The state of a quadratic model: residuals and kernel, direction by direction."""

from typing import Any

import equinox as eqx
import numpy as np

from learndyn.runtime.checks import a_kind
from learndyn.runtime.precision import float64
from learndyn.runtime.types import Array

ROUNDING = 1e-9  # how far a kernel may lie below its lower bound, relative to it


class Residuals(eqx.Module):
    """Residuals and tangent kernel along the eigenvectors of the kernel over the examples.

    Args:
        r: (directions,), the residuals g − y along unit vectors p̂_i over the examples.
        kernel: (directions,), the eigenvalues λ_i of the tangent kernel in these directions.

    Raises:
        ValueError: for shapes that differ, or have more than one axis.

    Example:
        >>> import learndyn as ld
        >>> ld.Residuals(r=[0.5], kernel=[2.0]).kernel.tolist()
        [2.0]
    """

    r: Array = eqx.field(converter=float64("r"))
    kernel: Array = eqx.field(converter=float64("kernel"))

    def __check_init__(self):
        if self.r.ndim != 1 or self.r.shape != self.kernel.shape:
            shapes = f"shape {self.r.shape} beside kernel {self.kernel.shape}"
            raise ValueError(f"r: got {shapes}; allowed is (directions,) for both")


def least_kernel(r: Array, c: Array, a: Array) -> Array:
    """2 √c |r + a|, the smallest kernel that weights with these residuals can have.

    It follows from x² + y² ≥ 2 |x y| for the two factors of the output.
    """
    return 2 * np.sqrt(c) * np.abs(r + a)


def checked(state: Any, c: np.ndarray, a: np.ndarray) -> Residuals:
    """The state, or a ValueError that says what is wrong with it."""
    if not isinstance(state, Residuals):
        raise ValueError(f"state: got {a_kind(state)}; allowed is a Residuals")
    if state.r.shape != c.shape:
        shape, allowed = state.r.shape, c.shape
        raise ValueError(f"state: got directions of shape {shape}; allowed is {allowed}")
    if not (np.all(np.isfinite(state.r)) and np.all(np.isfinite(state.kernel))):
        raise ValueError("state: got numbers that are not finite; allowed are finite numbers")
    least = least_kernel(state.r, c, a)
    low = np.flatnonzero(state.kernel < least * (1 - ROUNDING))
    if len(low):
        i = low[0]
        kernel = f"the kernel {float(state.kernel[i]):g} in direction {i}"
        raise ValueError(f"state: got {kernel}; allowed is at least {float(least[i]):g}")
    return state
