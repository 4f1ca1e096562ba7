"""What every rule provides."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.random import Source
from learndyn.numerics.values import Value
from learndyn.problems import AbstractProblem

Stepper = Callable[[Weights, Source], Weights]
Velocity = Callable[[Weights], Weights]


class AbstractRule(Value):
    """Turns weights into the next weights: w ← w − learning_rate · direction."""

    learning_rate: eqx.AbstractVar[np.ndarray]

    @abc.abstractmethod
    def stepper(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Stepper:
        """One step as a function (weights, random source) → weights.

        What does not change between steps is computed before the function is returned.

        Args:
            problem: where examples come from.
            network: the student.
            teacher: the teacher's weights.
            dtype: precision of the weights.

        Returns:
            The step.
        """


class AbstractDeterministicRule(AbstractRule):
    """A rule without sampling: it sees the population, or all of a data set."""

    @abc.abstractmethod
    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        """D weights / d (learning rate × steps), as a function of the weights."""

    def stepper(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Stepper:
        velocity = self.velocity(problem, network, teacher)
        return lambda w, _: moved(w, velocity(w), self.learning_rate)


def moved(weights: Weights, velocity: Weights, learning_rate) -> Weights:
    """Weights + learning_rate · velocity, in the precision of the weights."""
    step = lambda w, v: w + jnp.asarray(learning_rate).astype(w.dtype) * v.astype(w.dtype)
    return jax.tree.map(step, weights, velocity)
