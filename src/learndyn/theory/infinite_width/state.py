"""The state of an infinitely wide network: a Gaussian process, and how it moves."""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.runtime.checks import instance, numbers
from learndyn.runtime.precision import float64
from learndyn.runtime.types import Array
from learndyn.theory.linearised.descent import Descent
from learndyn.theory.linearised.state import counter, optional


class Process(eqx.Module):
    """Outputs on all inputs: those of training first, then of the test and validation sets.

    Args:
        mean: (inputs, outputs), over initialisations.
        covariance: (inputs, inputs) of an output over initialisations; outputs are independent,
            with equal covariances.
        velocity: of a rule with momentum, the mean of what a step subtracts, like `mean`; None
            without momentum.
        cross: covariance of outputs with velocities, likewise.
        velocities: covariance of velocities, likewise.
        step: the number of the step, for rates that change; otherwise None.
    """

    mean: Array = eqx.field(converter=float64("mean"))
    covariance: Array = eqx.field(converter=float64("covariance"))
    velocity: Array | None = eqx.field(converter=optional(float64("velocity")), default=None)
    cross: Array | None = eqx.field(converter=optional(float64("cross")), default=None)
    velocities: Array | None = eqx.field(converter=optional(float64("velocities")), default=None)
    step: Array | None = eqx.field(converter=optional(counter), default=None)

    @staticmethod
    def at_rest(mean: np.ndarray, covariance: np.ndarray, descent: Descent) -> "Process":
        """With what a rule adds to it."""
        moves = descent.momentum is not None
        rest = (0 * mean, 0 * covariance, 0 * covariance) if moves else (None, None, None)
        return Process(mean, covariance, *rest, np.asarray(0) if descent.changes_rate else None)

    @property
    def moves(self) -> bool:
        """Whether it has a velocity, or steps behind it."""
        return bool(np.any(self.velocity) or np.any(self.velocities) or np.any(self.step))


FIELDS = tuple(field.name for field in dataclasses.fields(Process))


def checked(state: Any, like: Process) -> Process:
    """The state, or a ValueError that says what is wrong with it."""
    instance("state", state, Process, "a Process, of mean and covariance")
    for name in FIELDS:
        part, wanted = (getattr(each, name) for each in (state, like))
        came, allowed = (None if a is None else np.shape(a) for a in (part, wanted))
        if came != allowed:
            raise ValueError(f"state: got a {name} of shape {came}; allowed is {allowed}")
        if part is not None:
            numbers(name, part)
    return state
