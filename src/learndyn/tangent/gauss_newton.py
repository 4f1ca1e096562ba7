"""The matrix Σ JᵀJ of a network, J = ∂outputs/∂weights of one example."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from learndyn.runtime.types import Array, Weights
from learndyn.tangent.kernel import block_of


def gauss_newton(
    apply: Callable[[Weights, Array], Array],
    weights: Weights,
    x: Array,
    *,
    block: int | None = None,
) -> Array:
    """Σ_i J_iᵀ J_i over examples, which has the nonzero eigenvalues of their tangent kernel.

    It is the smaller of the two matrices if there are fewer weights than examples × outputs.

    Args:
        apply: (weights, x) → outputs of a batch, of which each depends on its own input alone.
        weights: a pytree of arrays of floats.
        x: inputs, (n, …).
        block: how many numbers may be stored for the Jacobians of several examples; None for
            `block_of` the device.

    Returns:
        The matrix, (p, p), with the weights in the order of `ravel_pytree`.
    """
    flat, unravel = ravel_pytree(weights)
    rows = jax.jacrev(lambda w, x: apply(unravel(w), x[None])[0].reshape(-1))  # (k, p)
    block = block_of(flat.dtype.itemsize) if block is None else block
    size = max(1, min(len(x), block // jax.eval_shape(rows, flat, x[0]).size))

    def gram(part: Array) -> Array:
        J = jax.vmap(rows, (None, 0))(flat, part).reshape(-1, len(flat))
        return J.T @ J

    return summed(gram, x, size)


def summed(function: Callable[[Array], Any], x: Array, size: int) -> Any:
    """The sum of a function, whose values are pytrees, over blocks of `size` examples of x."""
    add = lambda a, b: jax.tree.map(jnp.add, a, b)
    size = min(size, len(x))
    whole = len(x) // size * size
    parts = jnp.asarray(x[:whole]).reshape(-1, size, *x.shape[1:])
    like = jax.eval_shape(function, parts[0])
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    # A loop, so that only one block is in memory; a shorter last block has its own program.
    total = jax.lax.fori_loop(0, len(parts), lambda i, sum: add(sum, function(parts[i])), zero)
    return add(total, function(x[whole:])) if whole < len(x) else total
