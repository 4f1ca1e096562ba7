"""Averages over a standard normal variable of functions that jump, or change in a narrow strip.

Gauss-Legendre rules on panels whose lengths halve towards given centres: a jump at a centre is
exact, and a strip around it is resolved down to a width of 2^−`halvings` of the range.
"""

import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array

REACH = 9.0  # the probability beyond it is 2e-19
NODES = 12  # of a panel


def points(centres: Array, halvings: int = 36) -> tuple[Array, Array]:
    """Nodes (number,) and weights of E[f(u)] for a standard normal u.

    Args:
        centres: where f may jump or change fast, (centres,); those beyond the reach do not matter.
        halvings: of the panels towards a centre; 36 resolve strips of a width of 1e-10.

    Returns:
        The nodes and the weights, as many for any values of the centres.
    """
    steps = REACH * 2.0 ** np.arange(1, -halvings - 1, -1)
    offsets = np.concatenate([-steps, [0.0], steps[::-1]])
    edges = jnp.clip(jnp.asarray(centres)[:, None] + offsets, -REACH, REACH).ravel()
    edges = jnp.sort(jnp.concatenate([jnp.array([-REACH, REACH]), edges]))
    x, w = np.polynomial.legendre.leggauss(NODES)
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    nodes = (middle[:, None] + half[:, None] * x).ravel()
    weights = (half[:, None] * w).ravel() * jnp.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    return nodes, weights
