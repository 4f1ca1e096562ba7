"""The top eigenvectors of a symmetric matrix alone."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics import dense
from learndyn.numerics.types import Array

ALONE = 64  # rows up to which OpenBLAS decomposes a matrix on the thread that calls it
LEAST, CYCLES = 4, 10  # vectors in a block of a Krylov space; restarts before all are computed
ROUNDINGS = 8  # that a residual may have, of the largest eigenvalue


def top_of(A: Array, s: int) -> tuple[Array, Array]:
    """The top s eigenvalues, descending, and vectors of a matrix that is held, traced.

    For larger matrices LAPACK takes threads of its own, which fight with XLA's for the cores: a
    decomposition of 128 rows may take fifty times as long. On a CPU those of more than 64 rows are
    therefore projected onto block Krylov spaces of 64 dimensions, which are restarted until the
    residual |A v − λ v| of each of the s vectors is at most 8 ε λ_1. Where ten restarts do not
    suffice, or s is above 16, all eigenvalues are computed.

    Args:
        A: symmetric and positive semi-definite, (size, size).
        s: how many.

    Returns:
        Values (s,) and vectors (size, s).
    """
    if len(A) <= ALONE or ALONE // s < LEAST:
        return whole(A, s)
    return dense.one_by_one(
        lambda A: jax.lax.platform_dependent(
            A, cpu=lambda A: _restarted(A, s), default=lambda A: whole(A, s)
        )
    )(A)


def whole(A: Array, s: int) -> tuple[Array, Array]:
    """The same, out of all eigenvalues."""
    values, vectors = dense.eigh(A)
    return values[::-1][:s], vectors[:, ::-1][:, :s]


def _restarted(A: Array, s: int) -> tuple[Array, Array]:
    """The same from Krylov spaces, or out of all where these do not converge."""
    allowed = ROUNDINGS * jnp.finfo(A.dtype).eps
    begin = np.random.default_rng(0).standard_normal((len(A), max(s, LEAST)))

    def cycle(carry):
        number, _, V, _ = carry
        values, V = _ritz(lambda Q: A @ Q, _krylov(A, V), V.shape[1])
        left = jnp.sum((A @ V - V * values) ** 2, axis=0)[:s]
        return number + 1, values, V, jnp.sqrt(jnp.max(left)) / values[0]

    goes_on = lambda carry: (carry[0] < CYCLES) & (carry[3] > allowed)
    V, none = jnp.asarray(begin, A.dtype), jnp.full(begin.shape[1], jnp.inf, A.dtype)
    first = 0, none, V, none[0]
    _, values, V, left = jax.lax.while_loop(goes_on, cycle, first)
    found = lambda A: (values[:s], V[:, :s])
    return jax.lax.cond(left <= allowed, found, lambda A: whole(A, s), A)


def _krylov(A: Array, V: Array) -> Array:
    """An orthonormal basis of V, A V, A² V, …, (size, at most 64)."""
    width = V.shape[1]
    blocks = ALONE // width
    Q = jnp.zeros((len(A), blocks * width), A.dtype)

    def block(i, carry):
        Q, W = carry
        for _ in range(2):  # what cancels in the first is rounding
            W = dense.orthonormal(W - Q @ (Q.T @ W))
        return jax.lax.dynamic_update_slice(Q, W, (0, i * width)), A @ W

    return jax.lax.fori_loop(0, blocks, block, (Q, V))[0]


def _ritz(product: Callable[[Array], Array], Q: Array, s: int) -> tuple[Array, Array]:
    """Top Ritz values, descending, and vectors in a space with an orthonormal basis Q."""
    inner = Q.T @ product(Q)
    values, vectors = whole((inner + inner.T) / 2, s)
    return values, Q @ vectors


def top_subspace(
    product: Callable[[Array], Array], basis: Array, steps: int
) -> tuple[Array, Array]:
    """Subspace iteration with a Rayleigh-Ritz step at its end, traced.

    The error of an eigenvector shrinks by λ_{s+1}/λ_i a step; begun from the vectors of a matrix
    that was a little different, a few steps do. Ritz values never exceed the eigenvalues.

    Args:
        product: V ↦ A V, of a positive semi-definite A, (size, s) to (size, s).
        basis: where to begin, (size, s), of columns that are not orthogonal to what is sought.
        steps: products, but for the last.

    Returns:
        Ritz values (s,), descending, and vectors (size, s).
    """
    turn = lambda _, V: orthonormal(product(V), V)
    V = jax.lax.fori_loop(0, steps, turn, orthonormal(basis, basis))
    return _ritz(product, V, V.shape[1])


def orthonormal(V: Array, instead: Array) -> Array:
    """Columns of V by Gram and Schmidt, each orthogonalised twice; `instead` of those that vanish.

    Args:
        V: (size, s).
        instead: columns of the same shape.

    Returns:
        (size, s).
    """

    def column(i, found):
        v = V[:, i]
        for _ in range(2):
            v = v - found @ (found.T @ v)
        size = jnp.sqrt(v @ v)
        unit = jnp.where(size > 0, v / jnp.where(size > 0, size, 1), instead[:, i])
        return found.at[:, i].set(unit)

    return jax.lax.fori_loop(0, V.shape[1], column, jnp.zeros_like(V))
