"""Small dense linear algebra: Gram matrices, and spectra with their multiplicities."""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.types import Array


def symmetric(A: Array) -> Array:
    """The symmetric part over the last two axes."""
    return (A + jnp.swapaxes(A, -1, -2)) / 2


def smallest_eigenvalue(C: np.ndarray) -> float:
    """The smallest eigenvalue of the symmetric part of C."""
    return float(np.linalg.eigvalsh((C + C.T) / 2)[0])


def orthonormal_rows(A: np.ndarray) -> np.ndarray:
    """The closest matrix with orthonormal rows, A's polar factor; Haar-distributed for normal A."""
    u, _, vt = np.linalg.svd(A, full_matrices=False)
    return u @ vt


def distinct_eigenvalues(matrix: ArrayLike, tolerance: float = 1e-9) -> list[tuple[float, int]]:
    """Distinct eigenvalues of a symmetric matrix with their multiplicities.

    Args:
        matrix: symmetric, shape (n, n).
        tolerance: eigenvalues closer than this, relative to the largest modulus, count as equal;
            the default lies far above the rounding error of the solver, about n · 1e-16.

    Returns:
        (eigenvalue, multiplicity), ascending; an eigenvalue within tolerance of zero is 0.0.

    Examples:
        >>> distinct_eigenvalues([[2.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 2.0]])
        [(-1.0, 1), (2.0, 2)]
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix: got shape {matrix.shape}; allowed is square, (n, n)")
    values = np.linalg.eigvalsh(matrix)
    width = tolerance * np.max(np.abs(values), initial=0.0)
    groups = np.split(values, np.flatnonzero(np.diff(values) > width) + 1)
    means = [0.0 if abs(g.mean()) <= width else float(g.mean()) for g in groups]
    return [(mean, len(g)) for mean, g in zip(means, groups, strict=True)]


def eigenvalue_error(values: ArrayLike) -> float:
    """n ε |H|, the backward error of a solver that returned these n eigenvalues of symmetric H."""
    values = np.asarray(values, dtype=np.float64)
    return float(len(values) * np.finfo(np.float64).eps * np.abs(values).max())
