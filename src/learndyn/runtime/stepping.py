"""Many steps in one compiled program, recorded on the way: the loop of maps and of networks."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from learndyn.runtime.types import Array

Step = Callable[[Array, Any], Any]
Read = Callable[[Array, Any], Any]


def record_steps(
    step: Step, read: Read, y: Any, first: Array, targets: Array, count: Array
) -> tuple[Any, Any]:
    """Takes the steps from `first` to the last of the targets, and reads at each target.

    Args:
        step: (step number, y) → y after that step, as in `jax.lax.fori_loop`.
        read: (step number, y) → the pytree to record, and the y to go on from.
        y: the state at step `first`.
        first: the step number of y.
        targets: non-decreasing step numbers, at least `first`, (targets,).
        count: how many of the targets to visit; those after them are padding.

    Returns:
        y at the last target, and the recorded rows, (targets, …), zero beyond `count`.
    """
    rows = blank_rows(jax.eval_shape(read, first, y)[0], len(targets))

    def to_next_target(carry):
        y, at, done, rows = carry
        goal = targets[done]
        y = jax.lax.fori_loop(at, goal, step, y)
        row, y = read(goal, y)
        return y, goal, done + 1, with_row(rows, done, row)

    begin = (y, jnp.asarray(first), jnp.zeros((), jnp.asarray(count).dtype), rows)
    y, _, _, rows = jax.lax.while_loop(lambda carry: carry[2] < count, to_next_target, begin)
    return y, rows


def blank_rows(like: Any, number: int) -> Any:
    """Zeros for `number` rows of a pytree of shapes."""
    return jax.tree.map(lambda leaf: jnp.zeros((number, *leaf.shape), leaf.dtype), like)


def with_row(rows: Any, index: Array, row: Any) -> Any:
    """The rows with one of them written over."""
    return jax.tree.map(lambda all_, one: all_.at[index].set(one), rows, row)
