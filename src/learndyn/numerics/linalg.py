"""Small linear algebra of Gram matrices."""

import jax.numpy as jnp
import numpy as np

from learndyn.numerics.types import Array


def symmetric(A: Array) -> Array:
    """The symmetric part over the last two axes."""
    return (A + jnp.swapaxes(A, -1, -2)) / 2


def smallest_eigenvalue(C: np.ndarray) -> float:
    """The smallest eigenvalue of the symmetric part of C."""
    return float(np.linalg.eigvalsh((C + C.T) / 2)[0])


def orthonormal_rows(A: np.ndarray) -> np.ndarray:
    """The closest matrix with orthonormal rows: A's polar factor (Haar for a Gaussian A)."""
    u, _, vt = np.linalg.svd(A, full_matrices=False)
    return u @ vt
