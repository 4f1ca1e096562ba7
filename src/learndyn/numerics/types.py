"""Names for the types that pass between rooms."""

from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

Int: TypeAlias = int | np.integer  # attributes come back from files as NumPy's integers
Number: TypeAlias = float | int | np.ndarray | np.generic  # what a user may give for a number

if TYPE_CHECKING:
    Array: TypeAlias = Any  # NumPy's and JAX's operators have no common static type
    Scalar: TypeAlias = Any
else:
    # NumPy at the edges, JAX inside compiled code: the mathematics takes either.
    Array = jax.Array | np.ndarray | np.generic
    Scalar = Array | float | int  # as a closed form takes it, also several at once
