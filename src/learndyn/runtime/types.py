"""Type aliases used throughout the library."""

from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

Int: TypeAlias = int | np.integer  # attributes read from files are NumPy integers
Weights: TypeAlias = Any  # a pytree of arrays, defined by the network
Number: TypeAlias = float | int | np.ndarray | np.generic  # a number as a user may pass it

if TYPE_CHECKING:
    Array: TypeAlias = Any  # NumPy's and JAX's operators have no common static type
    Scalar: TypeAlias = Any
else:
    # NumPy at the interface, JAX inside compiled code: the mathematics accepts either.
    Array = jax.Array | np.ndarray | np.generic
    Scalar = Array | float | int  # argument of a closed form, possibly several at once
