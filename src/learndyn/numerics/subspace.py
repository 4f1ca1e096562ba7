"""The top eigenvectors of a symmetric matrix, from those of a matrix nearby."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from learndyn.numerics import dense
from learndyn.numerics.types import Array


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
    inner = V.T @ product(V)
    values, vectors = dense.eigh((inner + inner.T) / 2)
    return values[::-1], V @ vectors[:, ::-1]


def orthonormal(V: Array, instead: Array) -> Array:
    """Columns of V by Gram and Schmidt, each orthogonalised twice; `instead` of those that vanish.

    Args:
        V: (size, s), s small: it is unrolled.
        instead: columns of the same shape.

    Returns:
        (size, s).
    """
    found: list[Array] = []
    for i in range(V.shape[1]):
        v = V[:, i]
        for _ in range(2):
            v = v - sum(((u @ v) * u for u in found), start=jnp.zeros_like(v))
        size = jnp.sqrt(v @ v)
        found.append(jnp.where(size > 0, v / jnp.where(size > 0, size, 1), instead[:, i]))
    return jnp.stack(found, axis=1)
