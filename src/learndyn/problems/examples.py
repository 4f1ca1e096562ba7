"""Labelled examples, as they are stored and as a network sees them."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from learndyn.problems.losses import is_labels
from learndyn.runtime.types import Array


class Examples(NamedTuple):
    """Labelled examples, as they are stored.

    Attributes:
        x: inputs (examples, …).
        y: targets (examples, …), or integer labels (examples,).
        name: a description in words.
    """

    x: Array
    y: Array
    name: str

    def take(self, index: Any, dtype) -> tuple[Array, Array]:
        """Some examples as a network sees them, in the precision `dtype`.

        Floats are converted to `dtype`, uint8 is divided by 255, other integers are unchanged.
        """
        x, y = as_inputs(self.x[index], dtype), self.y[index]
        return x, y if is_labels(y) else y.astype(dtype)


def as_inputs(x: Array, dtype) -> Array:
    """Inputs as a network sees them, in the precision `dtype` (see `Examples.take`)."""
    if x.dtype == jnp.uint8:
        return x.astype(dtype) / jnp.asarray(255, dtype)
    return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x
