"""Eigenvalues of a symmetric matrix that is known only through its products with vectors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from scipy.linalg import eigh_tridiagonal

from learndyn.numerics import dense
from learndyn.numerics.vectors import (
    as_numpy,
    length,
    precision_of,
    products_of,
    random_like,
    vector_like,
    vectors_like,
)
from learndyn.runtime.memory import free_memory
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array, Number

SMALL = 64  # operators up to this size are formed as a matrix
SHARE = 4  # a basis takes at most a quarter of the free memory
SETTLED = 0.25  # values must not have moved during this share of the products
TRACED = 64  # a larger traced matrix is multiplied by this many vectors instead of decomposed
PLAIN = 512  # up to this size all eigenvalues are computed even where only one is needed
Product = Callable[[Any], Any]


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


class Eigen(NamedTuple):
    """Some eigenvalues of a symmetric matrix A.

    Attributes:
        values: descending, (k,).
        residuals: |A v − λ v| for each; an eigenvalue is within this distance of λ.
        vectors: as rows, (k, size), on the device of the start vector.
        products: how many products with A it took.
    """

    values: np.ndarray
    residuals: np.ndarray
    vectors: Any
    products: int


def tridiagonal(product: Product, start: Any, most: int) -> Tridiagonal:
    """The Lanczos matrix of a start vector, with full orthogonalisation.

    Args:
        product: v ↦ A v, for vectors of the start vector's kind.
        start: the first basis vector, of any norm; its precision is that of the iteration.
        most: the largest number of products; fewer if the Krylov space is exhausted earlier.

    Returns:
        The matrix.
    """
    with full_precision(), products_of(start):
        return _tridiagonal(product, start, most)


def _tridiagonal(product: Product, start: Any, most: int) -> Tridiagonal:
    v, diagonal, beside, scale = start / length(start), [], [], 0.0
    most = min(most, start.shape[0])
    basis = vectors_like(v, most)
    for i in range(most):
        basis.put(i, v)
        rest = basis.rest(product(v), i + 1)
        scale = max(scale, rest.before)
        diagonal.append(rest.along[i])
        beside.append(rest.length)
        # What is left is rounding of the product (or NaN): its direction means nothing.
        if not rest.length > precision_of(v) * scale:
            break
        v = rest.vector / rest.length
    return Tridiagonal(np.array(diagonal), np.array(beside))


def eigen(
    product: Product,
    start: Any,
    k: int = 1,
    *,
    which: str = "largest",
    tolerance: Number = 1e-3,
    basis: int | None = None,
    most: int | None = None,
) -> Eigen:
    """The outermost eigenvalues of a symmetric matrix, by Lanczos iteration on the device.

    Every basis vector is made orthogonal to all others. When the basis is full, it is replaced by
    the Ritz vectors nearest to those that are sought (thick restart, Wu and Simon 2000).

    A Ritz value θ with the residual ρ has an eigenvalue within ρ, and within ρ²/γ if all others are
    at least γ away. The iteration ends when ρ is below tolerance · |θ|, or below rounding, for all
    values, and when no value has moved during the last quarter of the products: where gaps are
    wide, the error is far smaller than the tolerance. An eigenvector that the start vector hardly
    contains can still be missed; its neighbour is then taken for it.

    Args:
        product: v ↦ A v, for vectors of the start vector's kind: NumPy, JAX or PyTorch.
        start: the first vector, not orthogonal to the eigenvectors.
        k: how many.
        which: "largest", "smallest", "both" (k at each end), or "modulus".
        tolerance: relative error of the eigenvalues; 0 is machine precision.
        basis: how many vectors are held at most; None for 2 k + 18, fewer if memory is short.
        most: the largest number of products, after which residuals say what was reached; None for
            300, or 20 per eigenvalue if that is more, and 10 · size at tolerance 0.

    Returns:
        Values, residuals and vectors; NaN if a product is not finite.
    """
    with full_precision(), products_of(start):
        return _eigen(product, start, k, which, float(tolerance), basis, most)


def _eigen(
    product: Product,
    start: Any,
    k: int,
    which: str,
    tolerance: float,
    basis: int | None,
    most: int | None,
) -> Eigen:
    size, ends = start.shape[0], 2 if which == "both" else 1
    sought = min(size, ends * k)
    held = min(size, _held(start, sought) if basis is None else max(basis, sought + 2))
    if size <= SMALL or held == size:
        return _dense(product, start, which, k)
    limit = (max(300, 20 * sought) if tolerance else 10 * size) if most is None else most
    rows, T, count = vectors_like(start, held), np.zeros((held, held)), 0
    eps, scale, v = precision_of(start), 0.0, start / length(start)
    products, courses = 0, []
    while True:
        products += 1
        rows.put(count, v)
        rest = rows.rest(product(v), count + 1)
        T[count, count], scale = rest.along[count], max(scale, rest.before)
        count += 1
        if not np.isfinite(scale):
            return _unknown(start, sought, products)
        values, vectors = np.linalg.eigh(T[:count, :count])
        beside = rest.length if rest.length > eps * scale else 0.0
        residuals = beside * abs(vectors[-1])
        outer = outermost(values, which, k)
        enough = np.maximum(tolerance * abs(values[outer]), eps * scale)
        courses.append(values[outer])
        done = np.all(residuals[outer] <= enough) and _settled(courses, enough)
        if count > sought and (done or products >= limit):
            break
        # A Krylov space that is exhausted too early is continued by a vector outside of it.
        rest = rest if beside else rows.rest(random_like(v, products), count)
        v = rest.vector / rest.length
        if count < held:
            T[count, count - 1] = T[count - 1, count] = beside
            continue
        kept = outermost(values, which, k + (held - sought) // (2 * ends))
        rows.replace(vectors[:, kept])
        count, coupling = len(kept), beside * vectors[-1, kept]
        T[:] = 0
        T[:count, :count] = np.diag(values[kept])
        T[count, :count] = T[:count, count] = coupling
    return Eigen(values[outer], residuals[outer], rows.combined(vectors[:, outer]), products)


def _settled(courses: list[np.ndarray], enough: np.ndarray) -> bool:
    """Whether the values have stayed the same during the last share of the products.

    Close eigenvalues are told apart late: until then a Ritz value can rest at the next one with a
    small residual, and one is missing.
    """
    earlier = courses[int((1 - SETTLED) * len(courses))]
    return len(earlier) == len(enough) and bool(np.all(abs(courses[-1] - earlier) <= enough))


def outermost(values: np.ndarray, which: str, k: int) -> np.ndarray:
    """The indices, descending, of those among ascending values that are sought."""
    up = np.arange(len(values))
    ranks = {
        "largest": up[::-1],
        "smallest": up,
        "both": np.minimum(up, up[::-1]),
        "modulus": np.argsort(np.argsort(-abs(values))),
    }
    return np.flatnonzero(ranks[which] < k)[::-1]


def _held(start: Any, sought: int) -> int:
    """How many vectors a basis has: more than twice those that are sought, if memory allows."""
    fit = free_memory(start) // (SHARE * start.shape[0] * start[:1].nbytes)
    return max(sought + 2, min(2 * sought + 18, fit))


def _dense(product: Product, start: Any, which: str, k: int) -> Eigen:
    units = np.eye(start.shape[0])
    matrix = np.stack([as_numpy(product(vector_like(start, unit))) for unit in units])
    if not np.isfinite(matrix).all():
        return _unknown(start, k, len(units))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    outer = outermost(values, which, k)
    rows = vectors_like(start, len(units))
    for i in outer:
        rows.put(int(i), vector_like(start, vectors[:, i]))
    kept = np.eye(len(units))[:, outer]
    return Eigen(values[outer], np.zeros(len(outer)), rows.combined(kept), len(units))


def _unknown(start: Any, sought: int, products: int) -> Eigen:
    nothing = np.full(sought, np.nan)
    return Eigen(nothing, nothing, vectors_like(start, sought).rows * np.nan, products)


def top_eigen(operator: Any, k: int, tolerance: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The k algebraically largest eigenvalues, descending, and their vectors as columns.

    Args:
        operator: a matrix, or a `scipy.sparse.linalg.LinearOperator`.
        k: how many.
        tolerance: relative error of the eigenvalues; 0 is machine precision.

    Returns:
        Values (k,) and vectors (size, k).
    """
    found = eigen(lambda v: operator @ v, _start(operator), k, tolerance=tolerance)
    return found.values.astype(operator.dtype), found.vectors.T


def spectral_norm(product: Product, start: Any, tolerance: Number = 0.0) -> float:
    """The largest modulus of an eigenvalue, by default to machine precision."""
    return float(abs(eigen(product, start, which="modulus", tolerance=tolerance).values).max())


def _start(operator: Any) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(operator.shape[0]).astype(operator.dtype)


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
    return top_eigen(A, 1)[0][0]


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
