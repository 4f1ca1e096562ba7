"""When a trajectory has diverged: one rule for theories and for networks.

Its largest entry exceeds that of the start FACTOR times, or is not a number. What is judged is
the theory's state where a theory covers the system, on every road, and the weights elsewhere.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.types import Array

# Larger factors are out of an integrator's reach: squares have Q ∝ (t* − t)^(-1/2), up to rounding.
FACTOR = 1e5


def largest(tree: Any) -> Array:
    """The largest magnitude of all entries; NaN where one is NaN."""
    leaves = jax.tree.leaves(tree)
    # Outside of compiled code NumPy is at hand at once, where JAX compiles every operation.
    xp = jnp if any(isinstance(leaf, jax.Array) for leaf in leaves) else np
    return xp.max(xp.stack([xp.max(xp.abs(leaf)) for leaf in leaves]))


def bound_of(start: Any, least: float = 0.0) -> Array:
    """What the largest entry may grow to.

    Args:
        start: where the trajectory begins.
        least: a size that is not large in any case, for starts that are smaller.

    Returns:
        FACTOR times the size of the start; a start at zero counts as one of size 1.
    """
    size = largest(start)
    xp = jnp if isinstance(size, jax.Array) else np
    size = xp.maximum(size, least)
    return FACTOR * xp.where(size == 0, 1.0, size)


def has_diverged(tree: Any, bound: Array) -> Array:
    """Whether the largest entry exceeds the bound, or is not a number."""
    size = largest(tree) <= bound
    return ~size if isinstance(size, jax.Array) else np.logical_not(size)


def diverged_rows(rows: dict[str, np.ndarray]) -> np.ndarray:
    """The same rule for values (time, …) of which the first row is the start, from there on."""
    sizes = [np.abs(v).reshape(len(v), -1).max(axis=1) for v in rows.values()]
    size = np.max(sizes, axis=0)
    return np.cumsum(~(size <= FACTOR * max(size[0], 1.0))) > 0
