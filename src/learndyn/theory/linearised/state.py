"""The state of a linear model: its outputs on all examples of the data set."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.runtime.checks import LARGEST_COUNT, a_kind, numbers, shown
from learndyn.runtime.precision import float64
from learndyn.runtime.types import Array


def optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The conversion of a field that may be None."""
    return lambda value: None if value is None else convert(value)


def counter(value: Any) -> Any:
    """Numbers of steps, of one state or of several."""
    if isinstance(value, jax.Array):
        return value
    counts = numbers("step", value)
    if np.any(counts < 0) or np.any(counts != np.rint(counts)) or np.any(counts > LARGEST_COUNT):
        raise ValueError(f"step: got {shown(value)}; allowed is a number of steps")
    return counts.astype(np.int64)


class Outputs(eqx.Module):
    """Outputs on all examples: the training set, then test and validation set where there are any.

    Args:
        values: (examples, *output shape).
        velocity: of a rule with momentum, η J v on the same examples; None without momentum.
        step: the number of the step, for rates that change in time; otherwise None.

    Raises:
        ValueError: for velocities whose shape is not that of the values.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(lambda key: np.zeros(2), lambda w, x: x @ w, linear=True)
        >>> data = ld.Dataset(np.diag([2.0, 4.0]), np.ones(2))
        >>> system = ld.System(data, network, ld.GradientDescent(0.1))
        >>> start = ld.start(system, state=ld.Outputs([0.5, 0.5]))
        >>> ld.solve(system, [0, 1], start=start)["error"].values.round(4).tolist()
        [0.125, 0.0425]
    """

    values: Array = eqx.field(converter=float64("values"))
    velocity: Array | None = eqx.field(converter=optional(float64("velocity")), default=None)
    step: Array | None = eqx.field(converter=optional(counter), default=None)

    def __check_init__(self):
        if self.velocity is not None and np.shape(self.velocity) != np.shape(self.values):
            came, allowed = np.shape(self.velocity), np.shape(self.values)
            raise ValueError(f"velocity: got shape {came}; allowed is that of values, {allowed}")


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
