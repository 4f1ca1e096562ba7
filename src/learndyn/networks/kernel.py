"""The tangent kernel K = J Jᵀ of a network, J = ∂outputs/∂weights, without its Jacobian."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from learndyn.networks.base import Weights
from learndyn.networks.jacobian import rows_of
from learndyn.numerics.memory import memory
from learndyn.numerics.types import Array

SHARE = 4  # a kernel may take this part of the memory, since its terms are added up
BLOCK = 2**26  # numbers that the rows of one block of examples may take, 512 MB in float64
ROWS = 8  # the part of an accelerator's memory that they may take there


def kernel(
    apply: Callable[[Weights, Array], Array],
    weights: Weights,
    x: Array,
    x2: Array | None = None,
    *,
    block: int | None = None,
) -> Array:
    """⟨∂f_a(x_i)/∂w, ∂f_b(x'_j)/∂w⟩ of all pairs of examples and outputs.

    Layer by layer where layers are affine (`jacobian.py`), by rows of the Jacobian elsewhere, in
    one backward pass an output. Examples whose rows take more than `block` numbers are treated in
    blocks; the backward passes of one set are then repeated for every block of the other.

    Args:
        apply: (weights, x) → outputs of a batch, of which each depends on its own input alone.
        weights: a pytree of arrays of floats.
        x: inputs, (n, …).
        x2: the other inputs, (n', …); None for the same.
        block: numbers; None for `block_of` the device.

    Returns:
        The kernel, (n, k, n', k), outputs flattened.

    Raises:
        ValueError: for a kernel that does not fit into memory.
    """
    other = x if x2 is None else x2
    # XLA (jaxlib 0.10.2) simplifies these products with those of the backward pass into wrong ones,
    # where dimensions are one: seen on twins of one example, which is therefore taken twice.
    # Quadratic twins need the barrier beside.
    if 1 in (len(x), len(other)):
        two = None if x2 is None else _twice(x2)
        found = kernel(apply, weights, _twice(x), two, block=block)
        return found[: len(x), :, : len(other)]
    rows = lambda part: jax.lax.optimization_barrier(rows_of(apply, weights, part))
    output = jax.eval_shape(apply, weights, x[:1])
    check_fits(len(x), len(other), output.size, output.dtype.itemsize)
    block = block_of(output.dtype.itemsize) if block is None else block
    size = max(2, block // _numbers(rows, x))
    if x2 is None and len(x) <= size:
        found = rows(x)
        return _gram(found, found)
    if max(len(x), len(other)) <= size:
        return _gram(rows(x), rows(other))
    one = lambda mine: jax.lax.map(lambda theirs: _gram(mine, rows(theirs)), _blocks(other, size))
    found = jax.lax.map(lambda part: one(rows(part)), _blocks(x, size))
    found = jnp.moveaxis(found, 1, 3)  # (blocks, n, k, blocks', n', k)
    a, b, k, c, d, _ = found.shape
    return found.reshape(a * b, k, c * d, k)[: len(x), :, : len(other)]


def block_of(itemsize: int) -> int:
    """Numbers that the rows of one block may take: on an accelerator an eighth of its memory.

    There backward passes that are repeated for other blocks are what takes the time.
    """
    if jax.devices()[0].platform == "cpu":
        return BLOCK
    return max(BLOCK, memory() // (ROWS * itemsize))


def _twice(x: Array) -> Array:
    """A single example and its copy; several as they are."""
    return jnp.concatenate([x, x]) if len(x) == 1 else x


def _gram(rows: list[Any], others: list[Any]) -> Array:
    products = (a.gram(b) for a, b in zip(rows, others, strict=True))
    return functools.reduce(operator.add, products)


def check_fits(n: int, others: int, k: int, itemsize: int) -> None:
    """Whether a kernel of n × others examples of k outputs fits into memory."""
    needed, allowed = n * others * k**2 * itemsize, memory() // SHARE
    if needed > allowed:
        pairs = f"{n} × {others} examples of {k} output{'s' if k > 1 else ''}"
        raise ValueError(
            f"x: got {pairs}, whose kernel takes {needed / 2**30:.3g} GiB; allowed here are "
            f"{allowed / 2**30:.3g} GiB; probes.kernel_operator(model, x) multiplies by it "
            "instead, at one backward and one forward pass over x a product"
        )


def _numbers(rows: Callable[[Array], list[Any]], x: Array) -> int:
    """What the rows of one example take."""
    found = jax.eval_shape(rows, x)
    held = sum(leaf.size for leaf in jax.tree.leaves(found)) // max(1, len(x))
    return max(1, held + max(each.formed() for each in found))


def _blocks(x: Array, size: int) -> Array:
    """(blocks, size, …), the last filled up by repetition."""
    size = min(size, len(x))
    count = -(-len(x) // size)
    index = jnp.minimum(jnp.arange(count * size), len(x) - 1)
    return x[index].reshape(count, size, *x.shape[1:])
