"""Eigenvalues and eigenvectors of a diagonal matrix plus a matrix of rank one.

The eigenvalues μ_j of D + ρ w wᵀ are the roots of the secular equation

    f(x) = 1 + ρ Σ_k w_k² / (d_k − x) = 0,

one between every two neighbouring poles d_k and one beyond the last (Golub 1973). A root is
stored as its nearest pole and the offset from it, so that every difference d_k − μ_j has full
relative accuracy however close the poles are. The eigenvectors ŵ_k / (μ_j − d_k) use the ŵ
for which the computed μ_j are the exact eigenvalues (Gu and Eisenstat 1994, by Löwner's
formula): they are orthogonal to rounding without any reorthogonalisation. The time is O(n²) and
the memory O(n): no n × n matrix is formed unless `vectors` is called.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.checks import finite
from learndyn.runtime.types import Number

_BLOCK = 2**18  # entries per block of n-vectors: a few blocks fit into the processor's cache
_MAX_ITERATIONS = 200  # far more than Newton's method takes; bounds the halvings of a bracket
_EPS, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


class RankOne:
    """The eigensystem of diag(d) + ρ w wᵀ.

    Entries of w that are zero (or whose ρ w_k² underflows) are deflated: d_k is then an
    eigenvalue and the k-th unit vector its eigenvector.

    Args:
        d: distinct diagonal entries, in any order, (n,).
        w: the vector, (n,).
        rho: ρ, of either sign.

    Attributes:
        values: the eigenvalues, ascending, (n,).

    Raises:
        ValueError: for shapes that differ, entries that are not finite, or equal poles.

    Examples:
        >>> RankOne([0.0, 1.0], [1.0, 1.0], 1.0).values.round(6).tolist()
        [0.381966, 2.618034]
    """

    values: np.ndarray

    def __init__(self, d: ArrayLike, w: ArrayLike, rho: Number):
        d, w, rho = _checked(d, w, rho)
        # For ρ < 0 the negative of the matrix is solved, so that all weights below are positive.
        self._sign = -1.0 if rho < 0 else 1.0
        live = abs(rho) * w**2 > _TINY
        self._dead = np.flatnonzero(~live)
        self._live = np.flatnonzero(live)[np.argsort(self._sign * d[live])]
        self._d, self._w = self._sign * d[self._live], w[self._live]
        self._pole, self._offset = _roots(self._d, abs(rho) * self._w**2)
        self._w = _corrected(self._d, self._w, self._pole, self._offset, abs(rho))
        roots = self._sign * (self._d[self._pole] + self._offset)
        values = np.concatenate([roots, d[self._dead]])
        self._ascending = np.argsort(values, kind="stable")
        self.values = values[self._ascending]

    def overlaps(self, v: ArrayLike) -> np.ndarray:
        """u_j · v for every normalised eigenvector u_j, without forming the eigenvectors.

        Args:
            v: one vector (n,) or several as columns (n, m).

        Returns:
            (n,) or (n, m), in the order of `values`. The sign of u_j is arbitrary but the same
            in every call.
        """
        v = np.asarray(v, dtype=np.float64)
        if v.ndim not in (1, 2) or len(v) != len(self.values):
            raise ValueError(f"v: got shape {v.shape}; allowed is ({len(self.values)}, ...)")
        overlaps, n = np.empty_like(v), len(self._live)
        for rows in _blocks(n):
            # d_k − μ_j in this order of operations: the difference of poles comes first, exactly
            # as in the root finder, so that nothing cancels.
            differences = (self._d - self._d[self._pole[rows], None]) - self._offset[rows, None]
            u = self._w / -differences
            u /= np.linalg.norm(u, axis=1, keepdims=True)
            overlaps[rows] = u @ v[self._live]
        overlaps[n:] = v[self._dead]
        return overlaps[self._ascending]

    def vectors(self) -> np.ndarray:
        """The eigenvectors as columns (n, n), in the order of `values`."""
        return self.overlaps(np.eye(len(self.values))).T


def _checked(d: ArrayLike, w: ArrayLike, rho: Number) -> tuple[np.ndarray, np.ndarray, float]:
    d, w = np.asarray(d, dtype=np.float64), np.asarray(w, dtype=np.float64)
    if d.ndim != 1 or d.shape != w.shape:
        raise ValueError(f"w: got shape {w.shape} beside d {d.shape}; allowed is one shape (n,)")
    for name, value in (("d", d), ("w", w), ("rho", np.asarray(rho, dtype=np.float64))):
        finite(name, value)
    if np.any(np.diff(np.sort(d)) == 0):
        raise ValueError("d: got equal entries; allowed are distinct ones")
    return d, w, float(rho)


def _blocks(n: int) -> Iterator[slice]:
    rows = max(1, _BLOCK // max(n, 1))
    return (slice(first, min(first + rows, n)) for first in range(0, n, rows))


def _roots(d: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest pole and offset of the roots of 1 + Σ weights_k / (d_k − x), weights > 0.

    Args:
        d: ascending poles.
        weights: ρ w_k².

    Returns:
        (pole, offset), each (n,); root j lies between poles j and j + 1.
    """
    pole, offset = np.empty(len(d), dtype=np.intp), np.empty(len(d))
    # The last root lies within Σ weights of its pole: half a gap of twice that.
    gap = np.append(np.diff(d), 2 * weights.sum())
    for rows in _blocks(len(d)):
        j = np.arange(rows.start, rows.stop)
        pole[rows], offset[rows] = _roots_between(d, weights, j, gap[rows])
    return pole, offset


def _roots_between(d, weights, j, gap):
    """Splits every interval at its middle, then solves in the half that contains the root."""
    terms = weights / ((d - d[j, None]) - gap[:, None] / 2)
    above, below = np.maximum(terms, 0).sum(axis=1), -np.minimum(terms, 0).sum(axis=1)
    right = 1 + above - below < 0
    pole, side = j + right, np.where(right, -1.0, 1.0)
    # The pole's term balances the others, which the values in the middle bound.
    low = weights[pole] / np.where(right, below, 1 + above)
    return pole, side * _distances(d, weights, pole, side, np.minimum(low, gap / 2), gap / 2)


def _distances(d, weights, pole, side, low, high):
    """|μ − pole| by Newton's method, kept inside a shrinking bracket.

    With the pole's own term multiplied out, g(t) = ± t (1 + Σ_{k≠pole} …) − weight is smooth
    on the bracket, negative at `low` and positive at `high`.
    """
    gaps = d - d[pole, None]
    gaps[np.arange(len(pole)), pole] = np.inf  # leaves the pole's own term out
    t, roots, left = high.copy(), high.copy(), np.arange(len(pole))
    for _ in range(_MAX_ITERATIONS):
        inverse = 1 / (gaps - (side * t)[:, None])
        rest = side * (1 + inverse @ weights)
        g = t * rest - weights[pole]
        size = t * (1 + np.abs(inverse) @ weights) + weights[pole]
        slope = rest + t * ((inverse * inverse) @ weights)
        low, high = np.where(g < 0, t, low), np.where(g < 0, high, t)
        step = _inside(t, g, slope, low, high)
        roots[left] = step
        # Done if g is rounding of its terms, or if the step no longer changes t.
        open_ = (np.abs(g) > _EPS * size) & (np.abs(step - t) > _EPS * t)
        if not open_.any():
            break
        gaps, pole, side, left = gaps[open_], pole[open_], side[open_], left[open_]
        t, low, high = step[open_], low[open_], high[open_]
    return roots


def _inside(t, g, slope, low, high):
    """Newton's point, or the geometric mean of the bracket if that point lies outside."""
    newton = t - g / np.where(slope > 0, slope, np.inf)
    fits = (slope > 0) & (newton >= low) & (newton <= high)
    # The geometric mean, since brackets span many orders of magnitude; two roots, since the
    # product of two tiny ends would underflow.
    return np.where(fits, newton, np.sqrt(low) * np.sqrt(high))


def _corrected(d, w, pole, offset, rho):
    """ŵ from ŵ_i² = Π_j (μ_j − d_i) / (ρ Π_{j≠i} (d_j − d_i)), Löwner's formula.

    Each root is divided by the pole on its far side from d_i, so that all factors but the last lie
    between 0 and 1, and no partial product is smaller than the result.
    """
    squared = np.empty_like(d)
    following = np.append(d[1:], 0.0)
    for rows in _blocks(len(d)):
        i = np.arange(rows.start, rows.stop)[:, None]
        factors = (d[pole] - d[i]) + offset
        partner = np.where(np.arange(len(d)) < i, d, following) - d[i]
        partner[:, -1] = rho
        squared[rows] = np.prod(factors / partner, axis=1)
    return np.copysign(np.sqrt(squared), w)
