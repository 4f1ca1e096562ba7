"""When a trajectory has diverged: one rule for theories and for networks.

A trajectory has diverged when its largest entry exceeds FACTOR times that of the start, or is NaN.
The rule is applied to the theory's state if a theory covers the system, whichever engine computes
it, and to the weights otherwise.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array

# An integrator cannot follow larger factors: with squared activations Q ∝ (t* − t)^(-1/2), and
# rounding of t limits how close to t* it can come.
FACTOR = 1e5


class Elapsed(NamedTuple):
    """A time that is part of a state: it grows without bound, and does not count as divergence."""

    value: Array


def largest(tree: Any) -> Array:
    """The largest magnitude but `Elapsed` and step counters; NaN if an entry is NaN."""
    elapsed = lambda leaf: isinstance(leaf, Elapsed)
    every = [leaf for leaf in jax.tree.leaves(tree, is_leaf=elapsed) if not elapsed(leaf)]
    leaves = [each for each in every if not _counts(each)] or every
    # Outside compiled code NumPy is faster: JAX would compile every operation.
    xp = jnp if any(isinstance(leaf, jax.Array) for leaf in leaves) else np
    return xp.max(xp.stack([xp.max(xp.abs(leaf)) for leaf in leaves]))


def bound_of(start: Any, least: float = 0.0) -> Array:
    """The bound that the largest entry may not exceed.

    Args:
        start: where the trajectory begins.
        least: the size that a smaller start is taken to have.

    Returns:
        FACTOR times the size of the start; a start at zero counts as one of size 1.
    """
    size = largest(start)
    xp = jnp if isinstance(size, jax.Array) else np
    size = xp.maximum(size, least)
    return FACTOR * xp.where(size == 0, 1.0, size)


def has_diverged(tree: Any, bound: Array) -> Array:
    """Whether the largest entry exceeds the bound, or is NaN."""
    size = largest(tree) <= bound
    return ~size if isinstance(size, jax.Array) else np.logical_not(size)


def diverged_rows(rows: dict[str, np.ndarray]) -> np.ndarray:
    """Which rows of values (time, …) have diverged from the first row, and all rows after them."""
    sizes = [np.abs(v).reshape(len(v), -1).max(axis=1) for v in rows.values()]
    size = np.max(sizes, axis=0)
    return np.cumsum(~(size <= FACTOR * max(size[0], 1.0))) > 0


def _counts(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.integer)
