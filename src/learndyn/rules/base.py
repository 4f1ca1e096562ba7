"""What every rule provides."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value
from learndyn.problems import AbstractProblem
from learndyn.rules.batches import batches, check_batches

Memory = Any  # a pytree of arrays that a rule carries from step to step
Loss = Callable[[Weights], Array]
Velocity = Callable[[Weights], Weights]


class Bound(NamedTuple):
    """A rule bound to a problem and a network.

    Attributes:
        init: weights → the memory before the first step.
        step: (weights, memory, source of random numbers) → the next weights and memory.
        rate: memory → the learning rate of the next step; NaN where the rule has none of its own.
        seen: (memory, source) → which of the problem's examples the step sees, (batch,); None for
            all of them, or for fresh ones.
    """

    init: Callable[[Weights], Memory]
    step: Callable[[Weights, Memory, Source], tuple[Weights, Memory]]
    rate: Callable[[Memory], Array] = lambda memory: jnp.asarray(jnp.nan)
    seen: Callable[[Memory, Source], Array] | None = None


class Gradients(NamedTuple):
    """An estimator of gradients, bound to a problem and a network.

    Attributes:
        init: the memory before the first step.
        estimate: (weights, memory, source) → the gradient, the loss that it is of, as a function
            of the weights, and the next memory.
        seen: as in `Bound`.
    """

    init: Callable[[], Memory]
    estimate: Callable[[Weights, Memory, Source], tuple[Weights, Loss, Memory]]
    seen: Callable[[Memory, Source], Array] | None = None


class StepLaw(NamedTuple):
    """What enters mean-field equations of w ← w − η · (mean gradient of `batch` examples).

    Attributes:
        learning_rate: η, the factor of the mean step.
        batch: fresh examples a step; None for the mean over all there is.
    """

    learning_rate: Array
    batch: int | None

    @property
    def noise(self) -> float:
        """The share of one example's covariance that a step's gradient has."""
        return 0.0 if self.batch is None else 1 / self.batch


class AbstractRule(Value):
    """Turns weights into the next weights."""

    @abc.abstractmethod
    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        """The rule's memory and step for a problem and a network.

        What does not change between steps is computed here, once.

        Args:
            problem: where examples come from.
            network: the student.
            teacher: the teacher's weights.
            dtype: precision of the weights.

        Returns:
            The memory and the step.
        """

    @property
    @abc.abstractmethod
    def samples(self) -> bool:
        """Whether a step draws random numbers, so that runs differ."""

    @property
    def step_law(self) -> StepLaw | None:
        """What enters mean-field equations, where the rule is of their kind."""
        return None

    def check_problem(self, problem: AbstractProblem) -> None:
        """Raises a ValueError where the rule cannot draw from a problem."""

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        """Raises a ValueError where the rule cannot teach a network."""


class AbstractGradientRule(AbstractRule):
    """w ← w − learning_rate · gradient, for some estimator of gradients."""

    learning_rate: eqx.AbstractVar[np.ndarray]

    @abc.abstractmethod
    def gradients(
        self,
        problem: AbstractProblem,
        network: AbstractNetwork,
        teacher: Weights,
        dtype,
        *,
        batch: int | None = None,
        sampling: str | None = None,
    ) -> Gradients:
        """The rule's estimator; `batch` and `sampling` replace the rule's own where they are given.

        The learning rate plays no part in it.
        """

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        found = self.gradients(problem, network, teacher, dtype)

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            gradient, _, memory = found.estimate(weights, memory, source)
            return moved(weights, gradient, -self.learning_rate), memory

        rate = lambda memory: jnp.asarray(self.learning_rate)
        return Bound(lambda weights: found.init(), step, rate, found.seen)


class AbstractSampledRule(AbstractGradientRule):
    """A rule whose every step sees `batch` fresh or drawn examples."""

    batch: eqx.AbstractVar[int]
    sampling: eqx.AbstractVar[str]

    @abc.abstractmethod
    def estimate(
        self, problem: AbstractProblem, network: AbstractNetwork
    ) -> Callable[[Weights, Array, Array, Source], Weights]:
        """The gradient for given examples, as a function of (weights, x, y, source)."""

    @property
    def samples(self) -> bool:
        return True

    def check_problem(self, problem: AbstractProblem) -> None:
        check_batches(problem, self.batch, self.sampling)

    def gradients(
        self,
        problem: AbstractProblem,
        network: AbstractNetwork,
        teacher: Weights,
        dtype,
        *,
        batch: int | None = None,
        sampling: str | None = None,
    ) -> Gradients:
        batch, sampling = batch or self.batch, sampling or self.sampling
        drawn = batches(problem, network, teacher, dtype, batch, sampling)
        gradient = self.estimate(problem, network)

        def estimate(weights: Weights, memory: Memory, source: Source):
            x, y, memory = drawn.draw(memory, source)
            loss = lambda w: problem.mean_loss(network, w, x, y)
            return gradient(weights, x, y, source), loss, memory

        return Gradients(drawn.init, estimate, drawn.seen)


class AbstractDeterministicRule(AbstractGradientRule):
    """A rule without sampling: it sees the population, or all of a data set."""

    @abc.abstractmethod
    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        """D weights / d (learning rate × steps), as a function of the weights."""

    @property
    def samples(self) -> bool:
        return False

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        """Refuses a population of which the rule knows no closed form, as `velocity` would."""
        teacher = getattr(problem, "teacher", None)
        if not isinstance(teacher, AbstractNetwork) or problem.examples() is not None:
            return
        said = []

        def tried(teacher: Weights) -> None:
            try:
                self.velocity(problem, network, teacher)
            except ValueError as error:  # told below: JAX would add lines of its own
                said.append(str(error))

        like = teacher.like(problem.input_shape)
        if like is not None:
            jax.eval_shape(tried, like)  # only traced: nothing is computed
        if said:
            raise ValueError(said[0])

    def gradients(
        self,
        problem: AbstractProblem,
        network: AbstractNetwork,
        teacher: Weights,
        dtype,
        *,
        batch: int | None = None,
        sampling: str | None = None,
    ) -> Gradients:
        if batch is not None:
            name = type(self).__name__
            raise ValueError(f"batch: got {batch} for {name}, which sees all; allowed is None")
        velocity = self.velocity(problem, network, teacher)
        loss = problem.population_loss(network, teacher) or (lambda w: jnp.nan)

        def estimate(weights: Weights, memory: Memory, source: Source):
            return jax.tree.map(lambda v: -v, velocity(weights)), loss, memory

        return Gradients(tuple, estimate)


def moved(weights: Weights, velocity: Weights, learning_rate) -> Weights:
    """Weights + learning_rate · velocity, in the precision of the weights."""
    step = lambda w, v: w + jnp.asarray(learning_rate).astype(w.dtype) * v.astype(w.dtype)
    return jax.tree.map(step, weights, velocity)
