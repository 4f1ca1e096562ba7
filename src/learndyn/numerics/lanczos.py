"""Eigenvalues of a symmetric matrix that is known only through its products with vectors."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import eigsh

from learndyn.numerics import dense
from learndyn.runtime.types import Array

SMALL = 64  # operators up to this size are formed as a matrix
FIRST = 16  # basis vectors for which memory is allocated at first
TRACED = 64  # a larger traced matrix is multiplied by this many vectors instead of decomposed
PLAIN = 512  # up to this size all eigenvalues are computed even where only one is needed
Product = Callable[[np.ndarray], np.ndarray]


class Tridiagonal(NamedTuple):
    """A symmetric matrix in the Krylov basis of a start vector, after some products.

    Attributes:
        diagonal: (products,).
        beside: the off-diagonal, (products,); its last entry couples to the next basis vector.
    """

    diagonal: np.ndarray
    beside: np.ndarray

    def eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """Ascending Ritz values, and vectors as columns, in the Krylov basis."""
        pair: Any = eigh_tridiagonal(self.diagonal, self.beside[:-1])
        return pair


def tridiagonals(product: Product, start: np.ndarray, most: int) -> Iterator[Tridiagonal]:
    """The Lanczos matrix after each product, with full orthogonalisation.

    Args:
        product: v ↦ A v.
        start: the first basis vector, of any norm; its precision is that of the iteration.
        most: the largest number of products; fewer if the Krylov space is exhausted earlier.

    Yields:
        The matrix so far.
    """
    v, diagonal, beside, scale = start / np.linalg.norm(start), [], [], 0.0
    basis = np.empty((min(most, FIRST), v.size), v.dtype)
    for i in range(min(most, v.size)):
        if i == len(basis):  # doubled, so that few products cost little memory
            basis = np.concatenate([basis, np.empty_like(basis)])
        basis[i] = v
        w = np.asarray(product(v), v.dtype)
        diagonal.append(float(v @ w))
        scale = max(scale, float(np.linalg.norm(w)))
        w = _orthogonal(w, basis[: i + 1])
        beside.append(float(np.linalg.norm(w)))
        yield Tridiagonal(np.array(diagonal), np.array(beside))
        # What is left is rounding of the product (or NaN): its direction means nothing.
        if not beside[-1] > np.finfo(v.dtype).eps * scale:
            return
        v = w / v.dtype.type(beside[-1])


def _orthogonal(w: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The part of w orthogonal to the rows of the basis.

    If much of w cancels, rounding leaves components along the basis, and a second pass removes
    them ("twice is enough", Kahan).
    """
    before = w
    for _ in range(2):
        w = before - (basis @ before) @ basis
        if np.linalg.norm(w) > 0.7 * np.linalg.norm(before):
            break
        before = w
    return w


def largest_from(product: Product, start: np.ndarray, tolerance: float, most: int = 300) -> float:
    """The largest eigenvalue, with as few products as the tolerance allows.

    The error of a Ritz value θ_1 with residual ρ is at most ρ, and about ρ²/(θ_1 − θ_2).

    Args:
        product: v ↦ A v.
        start: near the eigenvector, and not orthogonal to it.
        tolerance: relative error of the eigenvalue.
        most: the largest number of products.

    Returns:
        The eigenvalue.
    """
    top = np.nan
    for T in tridiagonals(product, start, most):
        if not np.isfinite(T.diagonal[-1]):
            return np.nan
        values, vectors = T.eigen()
        # |A v − θ v| of the Ritz vector v, which is not formed: only the last basis vector has
        # a neighbour outside the space.
        top, residual = values[-1], T.beside[-1] * abs(vectors[-1, -1])
        gap = values[-1] - values[-2] if len(values) > 1 else 0.0
        if min(residual, residual**2 / max(gap, 1e-300)) <= tolerance * abs(top):
            break
    return float(top)


def top_eigen(operator: Any, k: int, tolerance: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The k algebraically largest eigenvalues, descending, and their vectors as columns.

    Args:
        operator: a matrix, or a `scipy.sparse.linalg.LinearOperator`.
        k: how many.
        tolerance: relative error of the eigenvalues; 0 is machine precision.

    Returns:
        Values (k,) and vectors (size, k).
    """
    size = operator.shape[0]
    if size <= SMALL or k >= size:
        values, vectors = np.linalg.eigh(formed(operator))
    else:
        # ARPACK's own start vector differs from call to call; a fixed one makes this repeatable.
        start = np.random.default_rng(0).standard_normal(size).astype(operator.dtype)
        solve: Any = eigsh
        values, vectors = solve(operator, k, which="LA", tol=tolerance, v0=start)
    order = np.argsort(-values)[:k]
    return values[order], vectors[:, order]


def spectral_norm(operator: Any) -> float:
    """The largest modulus of an eigenvalue."""
    if operator.shape[0] <= SMALL:
        return float(np.abs(np.linalg.eigvalsh(formed(operator))).max())
    start = np.random.default_rng(0).standard_normal(operator.shape[0]).astype(operator.dtype)
    if not np.any(operator @ start):
        return 0.0  # ARPACK fails if the first product vanishes
    return float(abs(eigsh(operator, 1, which="LM", v0=start, return_eigenvectors=False)[0]))


def formed(operator: Any) -> np.ndarray:
    """The operator as a matrix, from one product per column, made symmetric."""
    matrix = operator @ np.eye(operator.shape[0], dtype=operator.dtype)
    return (matrix + matrix.T) / 2


def largest_eigenvalue(A: Array) -> Any:
    """The largest eigenvalue of one symmetric matrix, concrete or traced.

    For a large traced matrix it is the Ritz value of `TRACED` Lanczos vectors. That value is never
    too large. If no gap separates the eigenvalue from the next, it is too small by
    (log size/(2 TRACED))² times the width of the spectrum; otherwise only by rounding.
    """
    if isinstance(A, jax.core.Tracer):
        return dense.eigh(A)[0][-1] if len(A) <= TRACED else _largest_ritz(A)
    if len(A) <= PLAIN:
        return np.linalg.eigvalsh(A)[-1]
    start = np.random.default_rng(0).standard_normal(len(A)).astype(A.dtype)
    return eigsh(A, 1, which="LA", v0=start, return_eigenvectors=False)[0]


def _largest_ritz(A: Array) -> Array:
    """The largest eigenvalue in the Krylov space of `TRACED` products, traced."""
    start = np.random.default_rng(0).standard_normal(len(A))
    first = jnp.asarray(start / np.linalg.norm(start), A.dtype)
    # A new basis vector shorter than this is rounding, relative to the typical eigenvalue of A.
    least = 1e3 * jnp.finfo(A.dtype).eps * jnp.sqrt((A**2).sum() / len(A))
    zeros = jnp.zeros(TRACED, A.dtype)

    def extend(i, carry):
        v, basis, diagonal, beside = carry
        basis, w = basis.at[i].set(v), A @ v
        diagonal = diagonal.at[i].set(v @ w)
        for _ in range(2):
            w = w - (basis @ w) @ basis
        size = jnp.sqrt(w @ w)
        # The loop has a fixed length. Once the space is exhausted (v = 0) the rest of the diagonal
        # is filled with the first Rayleigh quotient, which never exceeds the largest eigenvalue;
        # zeros would exceed it if all eigenvalues were negative.
        diagonal = jnp.where(v @ v > 0.5, diagonal, diagonal.at[i].set(diagonal[0]))
        size = jnp.where(size > least, size, 0)
        v = jnp.where(size > 0, w / jnp.where(size > 0, size, 1), 0)
        return v, basis, diagonal, beside.at[i].set(size)

    carry = first, jnp.zeros((TRACED, len(A)), A.dtype), zeros, zeros
    _, _, diagonal, beside = jax.lax.fori_loop(0, TRACED, extend, carry)
    T = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    return dense.eigh(T)[0][-1]
