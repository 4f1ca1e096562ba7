"""The state of a linear model: its outputs on all examples of the data set."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.runtime.checks import a_kind
from learndyn.runtime.precision import float64
from learndyn.runtime.types import Array


class Outputs(eqx.Module):
    """Outputs on all examples: the training set, then test and validation set where there are any.

    Args:
        values: (examples, *output shape).
        velocity: of a rule with momentum, η J v on the same examples; None without momentum.
        step: the number of the step, for rates that change in time; otherwise None.
    """

    values: Array = eqx.field(converter=float64("values"))
    velocity: Array | None = None
    step: Array | None = None


def checked(state: Any, like: Outputs) -> Outputs:
    """The state, or a ValueError that says what is wrong with it."""
    if not isinstance(state, Outputs):
        raise ValueError(f"state: got {a_kind(state)}; allowed is an Outputs")
    came, allowed = (_shapes(each) for each in (state, like))
    if came != allowed:
        raise ValueError(f"state: got an Outputs with shapes {came}; allowed is {allowed}")
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state)):
        raise ValueError("state: got outputs that are not finite; allowed are finite numbers")
    return state


def _shapes(state: Outputs) -> dict[str, tuple[int, ...]]:
    fields = {"values": state.values, "velocity": state.velocity, "step": state.step}
    return {name: np.shape(field) for name, field in fields.items() if field is not None}
