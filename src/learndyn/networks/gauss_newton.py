"""The matrix Σ JᵀJ of a network, J = ∂outputs/∂weights of one example."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from learndyn.networks.base import Weights
from learndyn.networks.kernel import block_of
from learndyn.numerics.types import Array


def gauss_newton(
    apply: Callable[[Weights, Array], Array],
    weights: Weights,
    x: Array,
    *,
    block: int | None = None,
) -> Array:
    """Σ_i J_iᵀ J_i over examples, with the nonzero eigenvalues of their tangent kernel.

    It is the smaller one of the two where there are fewer weights than examples × outputs.

    Args:
        apply: (weights, x) → outputs of a batch, of which each depends on its own input alone.
        weights: a pytree of arrays of floats.
        x: inputs, (n, …).
        block: numbers that the Jacobians of examples may take together; None for `block_of` the
            device.

    Returns:
        The matrix, (p, p), of the weights in the order of `ravel_pytree`.
    """
    flat, unravel = ravel_pytree(weights)
    rows = jax.jacrev(lambda w, x: apply(unravel(w), x[None])[0].reshape(-1))  # (k, p)
    block = block_of(flat.dtype.itemsize) if block is None else block
    size = max(1, min(len(x), block // jax.eval_shape(rows, flat, x[0]).size))

    def gram(part: Array) -> Array:
        J = jax.vmap(rows, (None, 0))(flat, part).reshape(-1, len(flat))
        return J.T @ J

    whole = len(x) // size * size
    parts = jnp.asarray(x[:whole]).reshape(-1, size, *x.shape[1:])
    zero = jnp.zeros((len(flat), len(flat)), flat.dtype)
    found = jax.lax.fori_loop(0, len(parts), lambda i, H: H + gram(parts[i]), zero)
    return found + gram(x[whole:]) if whole < len(x) else found
