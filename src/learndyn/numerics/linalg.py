"""Small linear algebra of Gram matrices."""

import jax.numpy as jnp
import numpy as np

from learndyn.numerics.types import Array


def symmetric(A: Array) -> Array:
    """The symmetric part over the last two axes."""
    return (A + jnp.swapaxes(A, -1, -2)) / 2


def gram_factor(C: np.ndarray) -> np.ndarray:
    """A factor F (n, rank) with F Fᵀ = C, for a positive semidefinite C (n, n).

    Eigenvalues below n·ε·λ_max count as zero, so that a singular C gets as few columns
    as its rank.
    """
    values, vectors = np.linalg.eigh((C + C.T) / 2)
    keep = values > len(C) * np.finfo(float).eps * max(values[-1], 0.0)
    return vectors[:, keep] * np.sqrt(values[keep])


def smallest_eigenvalue(C: np.ndarray) -> float:
    """The smallest eigenvalue of the symmetric part of C."""
    return float(np.linalg.eigvalsh((C + C.T) / 2)[0])


def orthonormal_rows(A: np.ndarray) -> np.ndarray:
    """The closest matrix with orthonormal rows: A's polar factor (Haar for a Gaussian A)."""
    u, _, vt = np.linalg.svd(A, full_matrices=False)
    return u @ vt
