"""Rows R with RᵀR = G, which the chains of two linear layers use instead of the weights."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array
from learndyn.theory.perturbation.realisation import Sizes, from_rows, rows_of
from learndyn.theory.perturbation.state import Gram, Traces


class Rows(NamedTuple):
    """What the steps change: R_2 (rows, L_y), R_1 (rows, L_x), and how many rows beyond m are used.

    Runs are the last axis of each, and `used` is the same in all of them.
    """

    R_2: Array
    R_1: Array
    used: Array


def begin(state: Gram | Traces, sizes: Sizes, room: int) -> tuple[np.ndarray, Rows]:
    """The teacher's matrix, and rows that have this Gram matrix, padded with zeros."""
    if not isinstance(state, Gram):
        name = type(state).__name__
        raise ValueError(f"state: got a {name}, which no chain begins from; allowed is a Gram")
    m = sizes.inputs + sizes.outputs
    R = rows_of(state, sizes.hidden)
    R = np.pad(R, ((0, min(m, sizes.hidden) + room - len(R)), (0, 0)))
    rows = Rows(R[:, : sizes.outputs], R[:, sizes.outputs :], np.zeros((), np.int64))
    return np.asarray(state.A), rows


def gram_of(A: Array, now: Rows) -> Gram:
    """The Gram matrix of the rows of one run."""
    return from_rows(jnp.concatenate([now.R_2, now.R_1], axis=1), A)
