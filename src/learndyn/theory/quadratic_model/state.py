"""The state of a quadratic model: residuals and kernel, direction by direction."""

from typing import Any

import equinox as eqx
import numpy as np

from learndyn.numerics.checks import a_kind
from learndyn.numerics.precision import float64
from learndyn.numerics.types import Array

ROUNDING = 1e-9  # relative, of a kernel: how far below its bound it may be


class Residuals(eqx.Module):
    """Residual and tangent kernel along the directions in which the examples' kernel lies.

    Args:
        r: (directions,), the residuals g − y along unit vectors p̂_i over the examples.
        kernel: (directions,), the eigenvalues λ_i of the tangent kernel that belong to them.
    """

    r: Array = eqx.field(converter=float64("r"))
    kernel: Array = eqx.field(converter=float64("kernel"))

    def __check_init__(self):
        if self.r.ndim != 1 or self.r.shape != self.kernel.shape:
            came = f"shape {self.r.shape} beside kernel {self.kernel.shape}"
            raise ValueError(f"r: got {came}; allowed is (directions,) for both")


def checked(state: Any, c: np.ndarray, a: np.ndarray) -> Residuals:
    """The state, or a ValueError that names what is wrong with it.

    Weights have λ ≥ 2 √c |r + a| in every direction (of two factors, squares exceed products).
    """
    if not isinstance(state, Residuals):
        raise ValueError(f"state: got {a_kind(state)}; allowed is a Residuals")
    if state.r.shape != c.shape:
        came, allowed = state.r.shape, c.shape
        raise ValueError(f"state: got directions of shape {came}; allowed is {allowed}")
    if not (np.all(np.isfinite(state.r)) and np.all(np.isfinite(state.kernel))):
        raise ValueError("state: got numbers that are not finite; allowed are finite ones")
    least = 2 * np.sqrt(c) * np.abs(state.r + a)
    low = np.flatnonzero(state.kernel < least * (1 - ROUNDING))
    if len(low):
        i = low[0]
        came = f"the kernel {float(state.kernel[i]):g} in direction {i}"
        raise ValueError(f"state: got {came}; allowed is at least {float(least[i]):g}")
    return state
