"""Labelled examples, as they are stored and as a network takes them."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from learndyn.numerics.types import Array
from learndyn.problems.losses import is_labels


class Examples(NamedTuple):
    """Labelled examples, as they are stored.

    Attributes:
        x: inputs (examples, …).
        y: targets (examples, …), or integer labels (examples,).
        name: what they are, in words.
    """

    x: Array
    y: Array
    name: str

    def take(self, index: Any, dtype) -> tuple[Array, Array]:
        """Some examples as a network takes them, in the precision `dtype`.

        Floats take that precision, uint8 becomes a fraction of 255, other integers stay.
        """
        x, y = self.x[index], self.y[index]
        if x.dtype == jnp.uint8:
            x = x.astype(dtype) / jnp.asarray(255, dtype)
        elif jnp.issubdtype(x.dtype, jnp.floating):
            x = x.astype(dtype)
        return x, y if is_labels(y) else y.astype(dtype)
