"""A step of a rule in the space of functions, and its limit of a small learning rate.

A gradient with respect to the outputs on the training set moves the outputs on all examples
through the kernel,

    f ← f − η K' P ∂loss/∂f,

whatever the loss. Weight decay adds − decay (f − o), with o the outputs at zero weights.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.problems import AbstractLoss
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array
from learndyn.theory.dynamics import STEPS, Clock, Flow, Map, Stabilised, continuous
from learndyn.theory.linearised.descent import Descent
from learndyn.theory.linearised.state import Outputs

TOGETHER = 2**22  # outputs of a flow that are computed at once


class Forces(eqx.Module):
    """What moves the outputs.

    Attributes:
        kernel: K' P of all examples with those of the training set, (rows, trained rows).
        offset: outputs at zero weights, (examples, …).
        targets: or labels, of the training set.
        loss: the loss.
        descent: the rule.
    """

    kernel: Array
    offset: Array
    targets: Array
    loss: AbstractLoss
    descent: Descent

    def __call__(self, values: Array, rate: Array) -> Array:
        """What a step subtracts from the outputs, without momentum."""
        trained = values[: len(self.targets)]
        gradient = jax.grad(lambda f: self.loss(f, self.targets, f.ndim - 1))(trained)
        moved = rate * (self.kernel @ gradient.reshape(-1)).reshape(values.shape)
        decay = self.descent.decay
        return moved if decay is None else moved + decay * (values - self.offset)


class OutputMap(Map):
    """The discrete step."""

    forces: Forces
    theory: Any  # for its closed form

    @property
    def clock(self) -> Clock:
        return STEPS

    @compiled_in_float64
    def advance(self, y: Outputs) -> Outputs:
        descent = self.forces.descent
        values, rate = jnp.asarray(y.values), descent.rate_at(y.step)
        force, beta = self.forces(values, rate), descent.momentum
        step = None if y.step is None else y.step + 1
        if beta is None:
            return Outputs(values - force, None, step)
        velocity = beta * jnp.asarray(y.velocity) + force
        along = force + beta * velocity if descent.nesterov else velocity
        if step is not None:  # the velocity that a rule keeps has no rate in it
            velocity = velocity * descent.rate_at(step) / rate
        return Outputs(values - along, velocity, step)

    def closed_form(self, state: Outputs, steps: np.ndarray) -> Outputs | None:
        return self.theory.states_at(state, steps)


class OutputFlow(Flow):
    """The limit of a small learning rate; time is learning rate × steps.

    Momentum makes it 1/(1 − β) times as fast.
    """

    forces: Forces
    theory: Any
    largest: Array = eqx.field()  # a bound on the rate at which outputs change

    @property
    def clock(self) -> Clock:
        return continuous(np.asarray(self.forces.descent.rates)[0])

    @compiled_in_float64
    def drift(self, state: Outputs) -> Outputs:
        """The change of the outputs per step, including η."""
        descent, values = self.forces.descent, jnp.asarray(state.values)
        speed = 1.0 if descent.momentum is None else 1 / (1 - descent.momentum)
        return Outputs(-speed * self.forces(values, descent.rate_at(None)))

    def integration(self, state: Outputs, end: float) -> Stabilised:
        return Stabilised(Outputs(state.values), self.radius)

    def radius(self, y: Outputs) -> Array:
        return jnp.asarray(self.largest)

    def closed_form(self, state: Outputs, times: np.ndarray) -> dict[str, np.ndarray] | None:
        # Some of the times together, whose outputs are in memory at once.
        rows, found = max(1, TOGETHER // np.size(state.values)), []
        for first in range(0, len(times), rows):
            part = times[first : first + rows] * self.clock.steps
            states = self.theory.states_at(Outputs(state.values), part, flow=True)
            if states is None:
                return None
            found.append(self.theory.observe_each(states))
        return {name: np.concatenate([row[name] for row in found]) for name in found[0]}
