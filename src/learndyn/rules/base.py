"""What every rule provides."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.rules.batches import batches, check_batches
from learndyn.runtime.types import Array, Weights
from learndyn.runtime.values import Value

Memory = Any  # a pytree of arrays that a rule passes from one step to the next
Loss = Callable[[Weights], Array]
Velocity = Callable[[Weights], Weights]


class Bound(NamedTuple):
    """A rule bound to a problem and a network.

    Attributes:
        init: weights → the memory before the first step.
        step: (weights, memory, source of random numbers) → the next weights and memory.
        rate: memory → the learning rate of the next step; NaN if the rule has no rate of its own.
        seen: (memory, source) → indices of the problem's examples that the step sees, (batch,);
            None if it sees all of them, or fresh ones.
    """

    init: Callable[[Weights], Memory]
    step: Callable[[Weights, Memory, Source], tuple[Weights, Memory]]
    rate: Callable[[Memory], Array] = lambda memory: jnp.asarray(jnp.nan)
    seen: Callable[[Memory, Source], Array] | None = None


class Gradients(NamedTuple):
    """An estimator of gradients, bound to a problem and a network.

    Attributes:
        init: the memory before the first step.
        estimate: (weights, memory, source) → the gradient, the loss whose gradient it estimates (a
            function of the weights), and the next memory.
        seen: as in `Bound`.
    """

    init: Callable[[], Memory]
    estimate: Callable[[Weights, Memory, Source], tuple[Weights, Loss, Memory]]
    seen: Callable[[Memory, Source], Array] | None = None

    @property
    def seen_by_first(self) -> Callable[[Memory, Source], Array] | None:
        """`seen` of a rule whose memory is a tuple with the estimator's memory first."""
        seen = self.seen
        return None if seen is None else (lambda memory, source: seen(memory[0], source))


class StepLaw(NamedTuple):
    """The parameters of gradient descent, in mean-field equations and in the steps themselves.

    With the mean gradient ∇ of `batch` examples, a step of a committee is

        w ← (1 − decay/N) w − η ∇_w
        v ← (1 − output_decay/N) v − (output_rate/N) ∇_v
        b ← b − (bias_rate/N) ∇_b

    so that all three move in steps/N. For other networks it is w ← (1 − decay) w − η ∇_w.

    Attributes:
        learning_rate: η, the factor of the mean step.
        batch: fresh examples per step; None for the mean over all examples.
        output_rate: N times the rate of output weights; None is η.
        bias_rate: N times the rate of biases; None is η.
        decay: of w; None, unlike 0, leaves the term out of the compiled program.
        output_decay: of v, likewise.
    """

    learning_rate: Array
    batch: int | None
    output_rate: Array | None = None
    bias_rate: Array | None = None
    decay: Array | None = None
    output_decay: Array | None = None

    @property
    def noise(self) -> float:
        """The covariance of a step's gradient, in units of that of one example."""
        return 0.0 if self.batch is None else 1 / self.batch

    @property
    def rates(self) -> tuple[Array, Array, Array]:
        """The rates of inputs, outputs and biases, the last two per N."""
        own = (self.output_rate, self.bias_rate)
        return self.learning_rate, *(self.learning_rate if r is None else r for r in own)

    def direction(self, network: AbstractNetwork, weights: Weights, gradient: Weights) -> Weights:
        """The gradient ∇ of the loss as the d of the step w ← w − η d, in every part.

        An estimator with this direction makes the same step under every rule that multiplies it by
        η. It is ∇ itself where all parts have one rate and nothing decays.
        """
        eta, outputs, biases = self.rates
        per_step = eta * network.rate_dim(weights)
        if network.trained_parts != ("inputs",):
            ratios = network.by_part(weights, 1, outputs / per_step, biases / per_step)
            gradient = jax.tree.map(_scaled, ratios, gradient)
        if self.decay is None and self.output_decay is None:
            return gradient
        pull = lambda decay: 0.0 if decay is None else decay / per_step
        decays = network.by_part(weights, pull(self.decay), pull(self.output_decay), 0.0)
        pulls = jax.tree.map(_scaled, decays, weights)
        return jax.tree.map(jnp.add, gradient, pulls)


class Inertia(NamedTuple):
    """The momentum of a rule: v ← β v + d, and w ← w − η v.

    Nesterov's form is that of optax and PyTorch, w ← w − η (d + β v) with the new v.

    Attributes:
        momentum: β, between 0 and 1.
        nesterov: whether it is Nesterov's.
    """

    momentum: Array
    nesterov: bool

    def advance(self, velocity: Weights, direction: Weights) -> tuple[Weights, Weights]:
        """The new velocity v, and what the rate multiplies."""
        added = lambda v, d: jnp.asarray(self.momentum).astype(v.dtype) * v + d.astype(v.dtype)
        velocity = jax.tree.map(added, velocity, direction)
        ahead = jax.tree.map(added, velocity, direction) if self.nesterov else velocity
        return velocity, ahead


def _scaled(factor: Any, array: Array) -> Array:
    """factor · array, in the array's precision; an integer stands for 1, which costs nothing."""
    return array if isinstance(factor, int) else jnp.asarray(factor).astype(array.dtype) * array


class AbstractRule(Value):
    """Turns weights into the next weights."""

    @abc.abstractmethod
    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        """The rule's memory and step for a problem and a network.

        Everything that does not change between steps is computed here, once.

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
        """The parameters that enter mean-field equations; None if they do not describe the rule."""
        return None

    @property
    def inertia(self) -> Inertia | None:
        """The momentum, which is a memory of past gradients; None without it."""
        return None

    @property
    def batch_size(self) -> int | None:
        """The number of examples that a step draws; None for a rule that sees all there is."""
        return None

    @property
    def noise_draws(self) -> int:
        """How often a step draws noise for the nodes of each example; 0 for rules without noise."""
        return 0

    def check_problem(self, problem: AbstractProblem) -> None:
        """Raises a ValueError if the rule cannot draw examples from a problem."""

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        """Raises a ValueError if the rule cannot train a network."""


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
        """The rule's estimator of gradients, which is independent of the learning rate.

        `batch` and `sampling` replace the rule's own unless they are None.
        """

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        gradients = self.gradients(problem, network, teacher, dtype)
        rate, inertia = lambda memory: jnp.asarray(self.learning_rate), self.inertia

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            gradient, _, memory = gradients.estimate(weights, memory, source)
            return moved(weights, gradient, -self.learning_rate), memory

        if inertia is None:
            return Bound(lambda weights: gradients.init(), step, rate, gradients.seen)

        def init(weights: Weights) -> Memory:
            return gradients.init(), jax.tree.map(jnp.zeros_like, weights)

        def step_on(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            gradient, _, drawn = gradients.estimate(weights, memory[0], source)
            velocity, along = inertia.advance(memory[1], gradient)
            return moved(weights, along, -self.learning_rate), (drawn, velocity)

        return Bound(init, step_on, rate, gradients.seen_by_first)


class AbstractSampledRule(AbstractGradientRule):
    """A rule of which each step sees `batch` examples, fresh or drawn from a data set.

    A subclass has the fields `learning_rate`, `batch` and `sampling`, and states `estimate`.
    """

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

    @property
    def batch_size(self) -> int | None:
        return self.batch

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
    """A rule without sampling: each step sees the population, or the whole data set.

    A subclass has the field `learning_rate`, and states `velocity`.
    """

    @abc.abstractmethod
    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        """d weights / d (learning rate × steps), as a function of the weights."""

    @property
    def samples(self) -> bool:
        return False

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        """Raises the ValueError of `velocity`, for a population without a closed form."""
        teacher = problem.teacher_network
        if teacher is None or problem.examples() is not None:
            return
        # Whether there is a closed form depends on networks and shapes only, not on weights.
        like = teacher.like(problem.input_shape)
        if like is not None:
            check_traced(lambda teacher: self.velocity(problem, network, teacher), like)

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
            came = f"{batch} for {name}, which uses all examples"
            raise ValueError(f"batch: got {came}; allowed is None")
        velocity = self.velocity(problem, network, teacher)
        # Only line searches use the loss; a rule with a velocity of its own may have none.
        loss = problem.population_loss(network, teacher) or (lambda w: jnp.nan)

        def estimate(weights: Weights, memory: Memory, source: Source):
            return jax.tree.map(lambda v: -v, velocity(weights)), loss, memory

        return Gradients(tuple, estimate)


def check_traced(function: Callable[..., Any], *shapes: Any) -> None:
    """Raises the ValueError that a function raises for arrays of given shapes.

    The function is only traced, so that nothing is computed. The error is raised again outside of
    JAX, which would add lines to it.
    """
    messages: list[str] = []

    def tried(*arguments: Any) -> None:
        try:
            function(*arguments)
        except ValueError as error:
            messages.append(str(error))

    jax.eval_shape(tried, *shapes)
    if messages:
        raise ValueError(messages[0])


def check_no_momentum(name: str, rule: AbstractRule) -> None:
    """Raises a ValueError for a rule with momentum where only its gradient is used."""
    if rule.inertia is not None:
        raise ValueError(
            f"{name}: got {type(rule).__name__} with momentum, of which only the gradient would be "
            "used; allowed is momentum=None"
        )


def check_counts_all(rule: AbstractRule, problem: AbstractProblem) -> None:
    """Raises a ValueError for a loss that ignores examples, if a rule averages over all of them."""
    if not problem.loss.counts_all:
        raise ValueError(
            f"loss: got {problem.loss} for {type(rule).__name__}; allowed is ignore_index=None, "
            "with a data set from which these examples were removed"
        )


def moved(weights: Weights, velocity: Weights, learning_rate) -> Weights:
    """Weights + learning_rate · velocity, in the precision of the weights."""
    # Rates are stored in float64, which would promote weights in float32.
    step = lambda w, v: w + jnp.asarray(learning_rate).astype(w.dtype) * v.astype(w.dtype)
    return jax.tree.map(step, weights, velocity)
