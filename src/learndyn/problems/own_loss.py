"""Your own function as a loss."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.models.losses import check_each, unfit
from learndyn.problems.losses import AbstractLoss
from learndyn.runtime.types import Array


class OwnLoss(AbstractLoss):
    """A JAX function of outputs and targets that returns one loss per example, for probes.

    Args:
        function: (outputs, y) → (examples,).
    """

    function: Callable[[Any, Any], Any] = eqx.field(static=True)

    def each(self, output: Array, target: Array, axes: int) -> Array:
        return self.function(output, target)

    def check(self, outputs: Array, y: Array) -> None:
        """Raises a ValueError if the loss does not fit outputs, or is not one per example."""
        try:
            found = jax.eval_shape(self.function, jnp.asarray(outputs), jnp.asarray(y))
            came = found.shape
        except Exception as error:  # a user's function may raise anything
            raise unfit(outputs, y, error) from None
        check_each(came, len(outputs))

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))
