"""Many steps in one compiled program, read on the way: one way for maps, networks and chains."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from learndyn.numerics.types import Array

Advance = Callable[[Any, Any, Array, Array], Any]
Read = Callable[[Any], Any]


def record_steps(
    advance: Advance,
    read: Read,
    y: Any,
    first: Array,
    targets: Array,
    count: Array,
    *,
    draw: Callable[[Array], Any] = lambda base: None,
    block: int = 2**62,
) -> tuple[Any, Any]:
    """Steps from `first` to the last of the targets, and reads at each of them.

    Random numbers may be drawn for blocks of steps, all by one vectorised kernel; blocks begin at
    multiples of `block`, and one serves all targets that lie in it.

    Args:
        advance: (y, what was drawn, step, later step of the same block) → y then.
        read: what to keep of y, a pytree.
        y: the carried state at step `first`.
        first: the step at which y stands.
        targets: non-decreasing step numbers, at least `first`, (targets,).
        count: how many of them are meant, at least 0.
        draw: the first step of a block → what `advance` takes for it.
        block: the number of steps in a block.

    Returns:
        y at the last target, and what was read, (targets, …), zero beyond `count`.
    """
    like = jax.eval_shape(read, y)
    rows = jax.tree.map(lambda leaf: jnp.zeros((len(targets), *leaf.shape), leaf.dtype), like)

    def one_block(carry):
        at = carry[1]
        base = at - at % block
        drawn, stop = draw(base), base + block

        def segment(carry):
            y, at, done, rows = carry
            goal = jnp.minimum(targets[done], stop)
            y = advance(y, drawn, at, goal)
            # A row that ends a block, not at its target, is written over in the next one.
            rows = jax.tree.map(lambda all_, one: all_.at[done].set(one), rows, read(y))
            return y, goal, done + (targets[done] == goal), rows

        left = lambda carry: (carry[2] < count) & ((carry[1] < stop) | (targets[carry[2]] <= stop))
        return jax.lax.while_loop(left, segment, carry)

    begin = (y, jnp.asarray(first), jnp.zeros((), jnp.asarray(count).dtype), rows)
    y, _, _, rows = jax.lax.while_loop(lambda carry: carry[2] < count, one_block, begin)
    return y, rows
