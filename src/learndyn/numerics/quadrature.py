"""Numerical averages over Gaussian variables, for functions without a closed form."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike


def gaussian_average(
    f: Callable[[np.ndarray], np.ndarray], covariance: ArrayLike, nodes: int
) -> float:
    """E[f(z)] for centred Gaussian z, by a Gauss-Hermite product rule.

    Exact for polynomials up to degree 2 · nodes − 1 in each independent variable.

    Args:
        f: takes points (n, variables) and returns values (n,).
        covariance: of z, positive definite.
        nodes: number of nodes per variable; the rule has nodes^variables points.

    Returns:
        The average.

    Examples:
        >>> C = [[2.0, 0.5], [0.5, 1.0]]
        >>> round(gaussian_average(lambda z: z[:, 0] ** 2 * z[:, 1] ** 2, C, 4), 12)
        2.5
    """
    factor = np.linalg.cholesky(np.asarray(covariance, dtype=np.float64))
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.meshgrid(*[x] * len(factor), indexing="ij")
    weights = np.prod(np.meshgrid(*[w] * len(factor), indexing="ij"), axis=0).ravel()
    points = np.stack(grid, -1).reshape(-1, len(factor)) @ factor.T
    return float(weights / w.sum() ** len(factor) @ f(points))
