"""The top eigenvalues and eigenvectors of a symmetric matrix, without the others."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics import dense
from learndyn.runtime.types import Array

ALONE = 64  # rows up to which OpenBLAS decomposes a matrix on the calling thread
LEAST, CYCLES = 4, 10  # vectors per block of a Krylov space; restarts before all are computed
# Products of `followed`: at once, and at most; its residual, and the random part of its start.
AT_ONCE, MOST, CLOSE, NUDGE = 4, 256, 1e-5, 1e-3
ROUNDINGS = 8  # allowed residual, in units of ε times the largest eigenvalue


def top_of(A: Array, s: int) -> tuple[Array, Array]:
    """The top s eigenvalues, descending, and eigenvectors of a traced matrix.

    For larger matrices LAPACK starts threads of its own, which compete with XLA's for the cores: a
    decomposition of 128 rows may take fifty times as long. On a CPU, matrices of more than 64 rows
    are therefore projected onto block Krylov spaces of 64 dimensions, which are restarted until
    the residual |A v − λ v| of each of the s vectors is at most 8 ε λ_1. If ten restarts do not
    suffice, or if s is above 16, all eigenvalues are computed.

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
    """The top s eigenvalues and eigenvectors, by a full decomposition."""
    values, vectors = dense.eigh(A)
    return values[::-1][:s], vectors[:, ::-1][:, :s]


def _restarted(A: Array, s: int) -> tuple[Array, Array]:
    """The top s from restarted Krylov spaces; by a full decomposition if these do not converge."""
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
    converged = lambda A: (values[:s], V[:, :s])
    return jax.lax.cond(left <= allowed, converged, lambda A: whole(A, s), A)


def _krylov(A: Array, V: Array) -> Array:
    """An orthonormal basis of V, A V, A² V, …, (size, at most 64)."""
    width = V.shape[1]
    blocks = ALONE // width
    Q = jnp.zeros((len(A), blocks * width), A.dtype)

    def block(i, carry):
        Q, W = carry
        for _ in range(2):  # the second pass removes what rounding left along Q
            W = dense.orthonormal(W - Q @ (Q.T @ W))
        return jax.lax.dynamic_update_slice(Q, W, (0, i * width)), A @ W

    return jax.lax.fori_loop(0, blocks, block, (Q, V))[0]


def _ritz(product: Callable[[Array], Array], Q: Array, s: int) -> tuple[Array, Array]:
    """Top Ritz values, descending, and Ritz vectors in the space with orthonormal basis Q."""
    inner = Q.T @ product(Q)
    values, vectors = whole((inner + inner.T) / 2, s)
    return values, Q @ vectors


def top_subspace(
    product: Callable[[Array], Array], basis: Array, steps: int
) -> tuple[Array, Array]:
    """Traced subspace iteration with a Rayleigh-Ritz step at its end.

    The error of an eigenvector shrinks by λ_{s+1}/λ_i per step, so a few steps suffice from the
    eigenvectors of a slightly different matrix. Ritz values never exceed the eigenvalues.

    Args:
        product: V ↦ A V, of a positive semi-definite A, (size, s) to (size, s).
        basis: where to begin, (size, s); its columns must not be orthogonal to the eigenvectors.
        steps: number of iterations; the Rayleigh-Ritz step takes one more product.

    Returns:
        Ritz values (s,), descending, and vectors (size, s).
    """
    turn = lambda _, V: orthonormal(product(V), V)
    V = jax.lax.fori_loop(0, steps, turn, orthonormal(basis, basis))
    return _ritz(product, V, V.shape[1])


def followed(A: Array, v: Array) -> tuple[Array, Array]:
    """The largest eigenvalue and its vector, from that of a slightly different matrix.

    Four products with A, and four more until |A v − λ v| ≤ 10⁻⁵ λ; at most `MOST`, which suffice
    unless the second eigenvalue is within a few per cent of the first. A small multiple of a fixed
    random vector is added to v, so that an eigenvalue that has become the largest is noticed.

    Args:
        A: symmetric and positive semi-definite, (size, size).
        v: where to begin, (size,), of any length.

    Returns:
        The eigenvalue, by Rayleigh's quotient, and the vector, of length 1; that of v if A is not
        finite.
    """
    unit = lambda v: v / jnp.maximum(jnp.sqrt(v @ v), jnp.finfo(A.dtype).tiny)
    beside = np.random.default_rng(0).standard_normal(len(A))
    beside = jnp.asarray(NUDGE * beside / np.sqrt(len(A)), A.dtype)

    def more(carry):
        number, _, v, _ = carry
        for _ in range(AT_ONCE):
            v = unit(A @ v)
        along = A @ v
        value = v @ along
        left = along - value * v
        return number + AT_ONCE, value, v, jnp.sqrt(left @ left)

    goes_on = lambda c: (c[0] == 0) | ((c[0] < MOST) & (c[3] > CLOSE * c[1]))
    none = jnp.zeros((), A.dtype)
    begin = 0, none, unit(unit(v) + beside), none
    _, value, found, _ = jax.lax.while_loop(goes_on, more, begin)
    return value, jnp.where(jnp.isfinite(value), found, unit(v))


def orthonormal(V: Array, instead: Array) -> Array:
    """The columns of V after Gram-Schmidt; columns of `instead` replace those that vanish.

    Each column is orthogonalised twice, since the first pass leaves rounding errors where much
    cancels.

    Args:
        V: (size, s).
        instead: columns of the same shape.

    Returns:
        (size, s).
    """

    def column(i, done):
        v = V[:, i]
        for _ in range(2):  # columns still to come are zero in `done`, and change nothing
            v = v - done @ (done.T @ v)
        size = jnp.sqrt(v @ v)
        unit = jnp.where(size > 0, v / jnp.where(size > 0, size, 1), instead[:, i])
        return done.at[:, i].set(unit)

    return jax.lax.fori_loop(0, V.shape[1], column, jnp.zeros_like(V))
