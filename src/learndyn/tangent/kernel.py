"""The tangent kernel K = J Jᵀ of a network, J = ∂outputs/∂weights, without its Jacobian."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.memory import memory
from learndyn.runtime.types import Array, Weights
from learndyn.tangent.jacobian import rows_of

SHARE = 4  # a kernel may take a quarter of the memory, since terms of its size are added up
BLOCK = 2**26  # how many numbers the rows of one block of examples may take, 512 MB in float64
ROWS = 8  # on an accelerator they may take an eighth of its memory


def kernel(
    apply: Callable[[Weights, Array], Array],
    weights: Weights,
    x: Array,
    x2: Array | None = None,
    *,
    block: int | None = None,
) -> Array:
    """⟨∂f_a(x_i)/∂w, ∂f_b(x'_j)/∂w⟩ for all pairs of examples and outputs.

    Affine layers are contracted one by one (see `jacobian.py`); for other weights the rows of the
    Jacobian are formed. Either takes one backward pass per output. If the rows of all examples take
    more than `block` numbers, examples are treated in blocks; the backward passes of one set are
    then repeated for every block of the other.

    Args:
        apply: (weights, x) → outputs of a batch, of which each depends on its own input alone.
        weights: a pytree of arrays of floats.
        x: inputs, (n, …).
        x2: the other inputs, (n', …); None for the same.
        block: how many numbers the rows of one block may take; None for `block_of` the device.

    Returns:
        The kernel, (n, k, n', k), outputs flattened.

    Raises:
        ValueError: for a kernel that does not fit into memory.
    """
    other = x if x2 is None else x2
    # If a dimension is one, XLA (jaxlib 0.10.2) merges these products with those of the backward
    # pass into wrong ones. This was seen for Taylor twins and one example, which is therefore taken
    # twice. Quadratic twins need the optimization barrier as well.
    if 1 in (len(x), len(other)):
        two = None if x2 is None else _twice(x2)
        whole = kernel(apply, weights, _twice(x), two, block=block)
        return whole[: len(x), :, : len(other)]
    rows = lambda part: jax.lax.optimization_barrier(rows_of(apply, weights, part, lookups=True))
    output = jax.eval_shape(apply, weights, x[:1])
    check_fits(len(x), len(other), output.size, output.dtype.itemsize)
    block = block_of(output.dtype.itemsize) if block is None else block
    size = max(2, block // _numbers(rows, x))
    if x2 is None and len(x) <= size:
        own = rows(x)
        return _gram(own, own)
    if max(len(x), len(other)) <= size:
        return _gram(rows(x), rows(other))
    one = lambda mine: jax.lax.map(lambda theirs: _gram(mine, rows(theirs)), _blocks(other, size))
    blocks = jax.lax.map(lambda part: one(rows(part)), _blocks(x, size))
    blocks = jnp.moveaxis(blocks, 1, 3)  # (blocks, n, k, blocks', n', k)
    a, b, k, c, d, _ = blocks.shape
    return blocks.reshape(a * b, k, c * d, k)[: len(x), :, : len(other)]


def as_matrix(kernel: Array) -> Array:
    """A kernel, (n, k, n, k) or (n, n), as a symmetric matrix; rows by example, then output.

    The average with the transpose removes asymmetries that come from rounding.
    """
    size = kernel.shape[0] * (kernel.shape[1] if kernel.ndim == 4 else 1)
    matrix = kernel.reshape(size, size)
    return (matrix + matrix.T) / 2


def critical_rate(largest: Any, numerator: Any = 2) -> Any:
    """The critical learning rate 2/λ_max(H), as `numerator`/`largest`.

    For the loss `SquaredLoss(scale)` of n examples H = (2 scale/n) Jᵀ J has the eigenvalues of the
    matrix (2 scale/n) K, so that the rate is also n/(scale · λ_max(K)).

    Args:
        largest: λ_max(H), or a multiple of it.
        numerator: 2, or the same multiple of it.

    Returns:
        The rate: infinite where `largest` is not positive, NaN where it is NaN.
    """
    xp = jnp if isinstance(largest, jax.Array) else np
    positive = largest > 0
    rate = numerator / xp.where(positive, largest, 1)
    return xp.where(positive, rate, xp.where(xp.isnan(largest), np.nan, np.inf))


def block_of(itemsize: int) -> int:
    """How many numbers the rows of one block may take: on accelerators, an eighth of the memory.

    There most of the time goes into backward passes that are repeated for other blocks.
    """
    if jax.devices()[0].platform == "cpu":
        return BLOCK
    return max(BLOCK, memory() // (ROWS * itemsize))


def _twice(x: Array) -> Array:
    """A single example together with a copy; several examples unchanged."""
    return jnp.concatenate([x, x]) if len(x) == 1 else x


def _gram(rows: list[Any], others: list[Any]) -> Array:
    products = (a.gram(b) for a, b in zip(rows, others, strict=True))
    return functools.reduce(operator.add, products)


def check_fits(n: int, others: int, k: int, itemsize: int) -> None:
    """Raises a ValueError if a kernel of n × others examples with k outputs exceeds the memory."""
    needed, allowed = n * others * k**2 * itemsize, memory() // SHARE
    if needed > allowed:
        pairs = f"{n} × {others} examples of {k} output{'s' if k > 1 else ''}"
        raise ValueError(
            f"x: got {pairs}, whose kernel takes {needed / 2**30:.3g} GiB; allowed here are "
            f"{allowed / 2**30:.3g} GiB; probes.kernel_operator(model, x) multiplies by it "
            "instead, at one backward and one forward pass over x per product"
        )


def _numbers(rows: Callable[[Array], list[Any]], x: Array) -> int:
    """How many numbers the rows of one example take."""
    shapes = jax.eval_shape(rows, x)
    held = sum(leaf.size for leaf in jax.tree.leaves(shapes)) // max(1, len(x))
    return max(1, held + max(each.formed() for each in shapes))


def _blocks(x: Array, size: int) -> Array:
    """x as (blocks, size, …); the last block is filled up by repeating the last example."""
    size = min(size, len(x))
    count = -(-len(x) // size)
    index = jnp.minimum(jnp.arange(count * size), len(x) - 1)
    return x[index].reshape(count, size, *x.shape[1:])
