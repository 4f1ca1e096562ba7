"""Eigenvalues of a symmetric matrix that is known by its products alone."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import eigsh

from learndyn.numerics import dense
from learndyn.numerics.types import Array

SMALL = 64  # a matrix of this size is formed
FIRST = 16  # basis vectors for which there is room at first
TRACED = 64  # while tracing a larger matrix is multiplied by this often, rather than decomposed
PLAIN = 512  # of a matrix of this size all eigenvalues are computed where one is asked for
Product = Callable[[np.ndarray], np.ndarray]


class Tridiagonal(NamedTuple):
    """A symmetric matrix in the Krylov basis of a start vector, after some products.

    Attributes:
        diagonal: (products,).
        beside: (products,): the last one couples to the next basis vector.
    """

    diagonal: np.ndarray
    beside: np.ndarray

    def eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """Ascending Ritz values, and vectors as columns, in the Krylov basis."""
        found: Any = eigh_tridiagonal(self.diagonal, self.beside[:-1])
        return found


def tridiagonals(product: Product, start: np.ndarray, most: int) -> Iterator[Tridiagonal]:
    """Lanczos' matrix after each product, fully orthogonalised, in the precision of the start.

    Args:
        product: v ↦ A v.
        start: the first basis vector, of any length.
        most: products at most; it ends before where the Krylov space is exhausted.

    Yields:
        The matrix so far.
    """
    v, diagonal, beside, scale = start / np.linalg.norm(start), [], [], 0.0
    basis = np.empty((min(most, FIRST), v.size), v.dtype)
    for i in range(min(most, v.size)):
        if i == len(basis):
            basis = np.concatenate([basis, np.empty_like(basis)])
        basis[i] = v
        w = np.asarray(product(v), v.dtype)
        diagonal.append(float(v @ w))
        scale = max(scale, float(np.linalg.norm(w)))
        w = _orthogonal(w, basis[: i + 1])
        beside.append(float(np.linalg.norm(w)))
        yield Tridiagonal(np.array(diagonal), np.array(beside))
        if not beside[-1] > np.finfo(v.dtype).eps * scale:
            return
        v = w / v.dtype.type(beside[-1])


def _orthogonal(w: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The part of w that is orthogonal to rows; twice, where much cancels."""
    before = w
    for _ in range(2):
        w = before - (basis @ before) @ basis
        if np.linalg.norm(w) > 0.7 * np.linalg.norm(before):
            break
        before = w
    return w


def largest_from(product: Product, start: np.ndarray, tolerance: float, most: int = 300) -> float:
    """The largest eigenvalue, by as few products as its error allows.

    The error of a Ritz value θ_1 with residual ρ is at most ρ, and about ρ²/(θ_1 − θ_2).

    Args:
        product: v ↦ A v.
        start: near the eigenvector, and not orthogonal to it.
        tolerance: relative, of the eigenvalue.
        most: products at most.

    Returns:
        The eigenvalue.
    """
    top = np.nan
    for found in tridiagonals(product, start, most):
        if not np.isfinite(found.diagonal[-1]):
            return np.nan
        values, vectors = found.eigen()
        top, residual = values[-1], found.beside[-1] * abs(vectors[-1, -1])
        gap = values[-1] - values[-2] if len(values) > 1 else 0.0
        if min(residual, residual**2 / max(gap, 1e-300)) <= tolerance * abs(top):
            break
    return float(top)


def top_eigen(operator: Any, k: int, tolerance: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The k algebraically largest eigenvalues, descending, and their vectors as columns.

    Args:
        operator: a matrix, or a `scipy.sparse.linalg.LinearOperator`.
        k: how many.
        tolerance: relative, of eigenvalues; 0 is machine precision.

    Returns:
        Values (k,) and vectors (size, k).
    """
    size = operator.shape[0]
    if size <= SMALL or k >= size:
        values, vectors = np.linalg.eigh(formed(operator))
    else:
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
        return 0.0  # ARPACK breaks off there
    return float(abs(eigsh(operator, 1, which="LM", v0=start, return_eigenvectors=False)[0]))


def formed(operator: Any) -> np.ndarray:
    """The matrix itself, by one product a column, made symmetric."""
    matrix = operator @ np.eye(operator.shape[0], dtype=operator.dtype)
    return (matrix + matrix.T) / 2


def largest_eigenvalue(A: Array) -> Any:
    """The largest eigenvalue of one symmetric matrix, also while tracing.

    While tracing that of a large matrix is the Ritz value of `TRACED` Lanczos vectors: from below,
    and off by (log size/(2 TRACED))² of the spectrum's width where no gap separates it, else by
    rounding.
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
    least = 1e3 * jnp.finfo(A.dtype).eps * jnp.sqrt((A**2).sum() / len(A))  # else it is rounding
    zeros = jnp.zeros(TRACED, A.dtype)

    def extend(i, carry):
        v, basis, diagonal, beside = carry
        basis, w = basis.at[i].set(v), A @ v
        diagonal = diagonal.at[i].set(v @ w)
        for _ in range(2):
            w = w - (basis @ w) @ basis
        size = jnp.sqrt(w @ w)
        # An exhausted space is filled up with the first quotient, which is none too large.
        diagonal = jnp.where(v @ v > 0.5, diagonal, diagonal.at[i].set(diagonal[0]))
        size = jnp.where(size > least, size, 0)
        v = jnp.where(size > 0, w / jnp.where(size > 0, size, 1), 0)
        return v, basis, diagonal, beside.at[i].set(size)

    carry = first, jnp.zeros((TRACED, len(A)), A.dtype), zeros, zeros
    _, _, diagonal, beside = jax.lax.fori_loop(0, TRACED, extend, carry)
    T = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    return dense.eigh(T)[0][-1]
