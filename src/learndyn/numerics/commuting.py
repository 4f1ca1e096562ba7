"""A common eigenbasis of symmetric matrices that commute."""

import numpy as np

TOLERANCE = 1e-8  # of what is left outside the diagonals, relative to the largest entry


def common_eigenbasis(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Eigenvalues and eigenvectors that symmetric matrices share.

    The eigenvectors of a random combination are those of all matrices if the matrices commute: two
    different sets of eigenvalues have the same combination with probability 0.

    Args:
        matrices: (number, n, n).

    Returns:
        Eigenvalues (number, n) and eigenvectors (n, n) as columns, sorted by the eigenvalues of the
        first matrix, then of the second, and so on, in descending order; None if the matrices do
        not commute.
    """
    factors = np.random.default_rng(0).uniform(1.0, 2.0, len(matrices))
    frame = np.linalg.eigh(np.tensordot(factors, matrices, 1))[1]
    turned = frame.T @ matrices @ frame
    values = np.einsum("cii->ci", turned).copy()
    largest = np.max(np.abs(matrices))
    outside = turned - np.einsum("ci,ij->cij", values, np.eye(len(frame)))
    if np.max(np.abs(outside)) > TOLERANCE * largest:
        return None
    rounded = np.round(values / (TOLERANCE * max(largest, 1e-300)))
    order = np.lexsort(-rounded[::-1])
    return _merged(values[:, order], rounded[:, order]), frame[:, order]


def _merged(values: np.ndarray, rounded: np.ndarray) -> np.ndarray:
    """Columns that are equal up to rounding become equal, the mean of each group."""
    group = np.cumsum(np.any(np.diff(rounded, axis=1, prepend=np.nan) != 0, axis=0)) - 1
    counts = np.bincount(group)
    means = np.stack([np.bincount(group, row) / counts for row in values])
    return means[:, group]
