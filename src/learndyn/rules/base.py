"""What every rule provides."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractMarginLoss, AbstractProblem
from learndyn.rules.batches import batches, check_batches
from learndyn.rules.law import Inertia, StepLaw
from learndyn.rules.rates import rate_at
from learndyn.runtime.jax_versions import struct
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
        rate: (memory, number of the next step) → its learning rate; NaN if the rule has no rate of
            its own.
        seen: (memory, source) → indices of the problem's examples that the step sees, (batch,);
            None if it sees all of them, or fresh ones.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> data, network = ld.Dataset([[1.0]], [1.0]), ld.Network(None, lambda w, x: x @ w)
        >>> bound = ld.GradientDescent(0.1).bind(data, network, None, np.float32)
        >>> memory = bound.init(np.zeros(1))
        >>> round(float(bound.rate(memory, 0)), 3), bound.seen is None
        (0.1, True)
    """

    init: Callable[[Weights], Memory]
    step: Callable[[Weights, Memory, Source], tuple[Weights, Memory]]
    rate: Callable[[Memory, Array], Array] = lambda memory, step: jnp.asarray(jnp.nan)
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


class AbstractRule(Value):
    """Turns weights into the next weights.

    Example:
        >>> import learndyn as ld
        >>> from learndyn.rules import AbstractRule
        >>> rule = ld.SGD(0.1, batch=4)
        >>> isinstance(rule, AbstractRule), rule.samples, rule.batch_size
        (True, True, 4)
    """

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
    def own_law(self) -> tuple[AbstractMarginLoss, StepLaw] | None:
        """A loss of the rule's own, and the parameters of its descent; None for other rules."""
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
        """Refuses problems that the rule cannot draw examples from.

        Args:
            problem: where examples come from.

        Raises:
            ValueError: in one line that says what is allowed.
        """

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        """Refuses networks that the rule cannot train.

        Args:
            problem: where examples come from.
            network: the student.

        Raises:
            ValueError: in one line that says what is allowed.
        """


class AbstractGradientRule(AbstractRule):
    """w ← w − learning_rate · gradient, for some estimator of gradients.

    Example:
        >>> import learndyn as ld
        >>> from learndyn.rules import AbstractGradientRule
        >>> isinstance(ld.NaturalGradient(0.1), AbstractGradientRule)
        True
    """

    learning_rate: eqx.AbstractVar[Any]

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

        Args:
            problem: where examples come from.
            network: the student.
            teacher: the teacher's weights.
            dtype: precision of the weights.
            batch: in place of the rule's own; None keeps it.
            sampling: in place of the rule's own; None keeps it.

        Returns:
            The memory, and a function that estimates gradient and loss.
        """

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        gradients = self.gradients(problem, network, teacher, dtype)
        eta, inertia = self.learning_rate, self.inertia
        rate = lambda memory, step: jnp.asarray(rate_at(eta, step))

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            gradient, _, memory = gradients.estimate(weights, memory, source)
            return moved(weights, gradient, -rate_at(eta, source.step)), memory

        if inertia is None:
            return Bound(lambda weights: gradients.init(), step, rate, gradients.seen)

        def init(weights: Weights) -> Memory:
            return gradients.init(), jax.tree.map(jnp.zeros_like, weights)

        def step_on(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            gradient, _, drawn = gradients.estimate(weights, memory[0], source)
            velocity, along = inertia.advance(memory[1], gradient)
            return moved(weights, along, -rate_at(eta, source.step)), (drawn, velocity)

        return Bound(init, step_on, rate, gradients.seen_by_first)


class AbstractSampledRule(AbstractGradientRule):
    """A rule of which each step sees `batch` examples, fresh or drawn from a data set.

    A subclass has the fields `learning_rate`, `batch` and `sampling`, and states `estimate`.

    Example:
        >>> import equinox as eqx
        >>> import jax
        >>> import learndyn as ld
        >>> from learndyn.rules import AbstractSampledRule
        >>> class SignSGD(AbstractSampledRule):
        ...     learning_rate: float
        ...     batch: int = eqx.field(static=True, default=1)
        ...     sampling: str = eqx.field(static=True, default="replacement")
        ...
        ...     def estimate(self, problem, network):
        ...         gradient = jax.grad(lambda w, x, y: problem.mean_loss(network, w, x, y))
        ...         return lambda w, x, y, source: jax.tree.map(jax.numpy.sign, gradient(w, x, y))
        >>> network = ld.Network(lambda key: jax.numpy.zeros(1), lambda w, x: x @ w)
        >>> system = ld.System(ld.Dataset([[1.0]], [1.0]), network, SignSGD(0.1))
        >>> ld.simulate(system, [0, 5], dtype="float64")["error"].values.round(4).tolist()
        [[0.5, 0.125]]
    """

    batch: eqx.AbstractVar[int]
    sampling: eqx.AbstractVar[str]

    @abc.abstractmethod
    def estimate(
        self, problem: AbstractProblem, network: AbstractNetwork
    ) -> Callable[[Weights, Array, Array, Source], Weights]:
        """The gradient for given examples.

        Args:
            problem: has the loss: `problem.mean_loss(network, weights, x, y)`.
            network: the student.

        Returns:
            A function of (weights, x, y, source), which JAX traces. `source` draws random numbers.
            x and y are a batch; if `batch` is 1 and the network accepts a single example, as
            committees and linear layers do, they are one example, without the axis of the batch.
        """

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

    Example:
        >>> import jax
        >>> import learndyn as ld
        >>> from learndyn.rules import AbstractDeterministicRule
        >>> class SignFlow(AbstractDeterministicRule):
        ...     learning_rate: float
        ...
        ...     def velocity(self, problem, network, teacher):
        ...         x, y = problem.x, problem.y
        ...         gradient = jax.grad(lambda w: problem.mean_loss(network, w, x, y))
        ...         return lambda w: jax.tree.map(lambda g: -jax.numpy.sign(g), gradient(w))
        >>> network = ld.Network(lambda key: jax.numpy.zeros(1), lambda w, x: x @ w)
        >>> system = ld.System(ld.Dataset([[1.0]], [1.0]), network, SignFlow(0.1))
        >>> ld.simulate(system, [0, 5], dtype="float64")["error"].values.round(4).tolist()
        [[0.5, 0.125]]
    """

    @abc.abstractmethod
    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        """d weights / d (learning rate × steps).

        Args:
            problem: where examples come from.
            network: the student.
            teacher: the teacher's weights.

        Returns:
            A function of the weights. It is traced by JAX.

        Raises:
            ValueError: if it needs a population loss that has no closed form.
        """

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

    jax.eval_shape(tried, *jax.tree.map(lambda like: struct(like.shape, like.dtype), shapes))
    if messages:
        raise ValueError(messages[0])


def check_only_gradient(name: str, rule: AbstractRule) -> None:
    """Raises a ValueError for momentum or a schedule where only a rule's gradient is used."""
    lost = {
        "momentum": (rule.inertia is not None, "momentum=None"),
        "a schedule": (rule.step_law is not None and rule.step_law.scheduled, "a number as rate"),
    }
    for what, (there, allowed) in lost.items():
        if there:
            raise ValueError(
                f"{name}: got {type(rule).__name__} with {what}, of which only the gradient would "
                f"be used; allowed is {allowed}"
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
