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


def triangular_factor(C: np.ndarray, rank: int) -> np.ndarray:
    """A factor F (…, n, rank) with F Fᵀ = C, for positive semidefinite C (…, n, n) of that rank.

    Cholesky without pivoting: where C is graded, small entries keep their relative accuracy.
    A pivot of rounding size is taken as zero; the columns of the largest pivots are kept.
    """
    n = C.shape[-1]
    left, F = np.array(C), np.zeros(C.shape)
    floor = n * np.finfo(float).eps * np.einsum("...ii->...i", C)
    for j in range(n):
        pivot = left[..., j, j]
        good = pivot > floor[..., j]
        F[..., j] = (
            np.where(good, 1 / np.sqrt(np.where(good, pivot, 1)), 0)[..., None] * left[..., j]
        )
        F[..., :j, j] = 0
        if np.all(np.count_nonzero(np.any(F, axis=-2), axis=-1) >= rank):
            break
        left = left - F[..., :, None, j] * F[..., None, :, j]
    size = np.max(np.abs(F), axis=-2)
    kept = np.sort(np.argsort(-size, axis=-1, stable=True)[..., :rank], axis=-1)
    return np.take_along_axis(F, kept[..., None, :], axis=-1)


def smallest_eigenvalue(C: np.ndarray) -> float:
    """The smallest eigenvalue of the symmetric part of C."""
    return float(np.linalg.eigvalsh((C + C.T) / 2)[0])


def orthonormal_rows(A: np.ndarray) -> np.ndarray:
    """The closest matrix with orthonormal rows: A's polar factor (Haar for a Gaussian A)."""
    u, _, vt = np.linalg.svd(A, full_matrices=False)
    return u @ vt
