"""Gradient rules: w ← w − learning_rate · ∇loss."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.rules.base import (
    AbstractDeterministicRule,
    AbstractSampledRule,
    Bound,
    Memory,
    Velocity,
    moved,
)
from learndyn.rules.batches import SAMPLINGS
from learndyn.rules.law import Inertia, StepLaw
from learndyn.rules.rates import Schedule, rate, rate_at
from learndyn.runtime.bounds import COUNT, FRACTION, NON_NEGATIVE, POSITIVE, bounded
from learndyn.runtime.checks import flag, non_negative, number, one_of, positive, positive_int
from learndyn.runtime.types import Array, Number, Weights

FAST = 0.1  # the largest rate of outputs and biases, relative to N


@bounded(
    learning_rate=POSITIVE,
    batch=COUNT,
    output_rate=NON_NEGATIVE,
    bias_rate=NON_NEGATIVE,
    decay=NON_NEGATIVE,
    output_decay=NON_NEGATIVE,
    momentum=FRACTION,
)
class SGD(AbstractSampledRule):
    """Stochastic gradient descent: each step sees `batch` examples, fresh or drawn from a data set.

    In committees the rates of output weights and biases, and both decays, are per N:

        w ← (1 − decay/N) w − learning_rate ∇_w loss
        v ← (1 − output_decay/N) v − (output_rate/N) ∂loss/∂v
        b ← b − (bias_rate/N) ∂loss/∂b

    In all other networks `decay` is a multiplier per step, w ← (1 − decay) w − learning_rate ∇loss.

    Args:
        learning_rate: η of w ← w − η ∇loss, the loss averaged over the batch: a number, or a
            function of the step number such as an optax schedule. The numbers of a pytree, such as
            `jax.tree_util.Partial(function, numbers)`, are traced; others are compiled in. What is
            below 0 at a later step counts as 0.
        batch: number of examples per step.
        sampling: how examples of a data set are drawn: "replacement", or "epochs" for shuffled
            passes without an incomplete last batch.
        output_rate: of a committee's output weights; None is `learning_rate`, as in
            goldt2019dynamics.
        bias_rate: of a committee's biases; None is `learning_rate`.
        decay: of the weights of the inputs, or of all weights outside committees; None is 0, but
            leaves the decay out of compiled programs.
        output_decay: of a committee's output weights, likewise.
        momentum: β of v ← β v + d, w ← w − η v, where d is the gradient, with what decays; None
            is no momentum. If η changes, what decays, and parts with a rate of their own, have a
            velocity of their own, which η does not multiply.
        nesterov: whether w ← w − η (d + β v) instead, as in optax and PyTorch.

    Raises:
        ValueError: for a rate, batch, decay or momentum that is not allowed, such as a
            negative one.

    Example:
        >>> import learndyn as ld
        >>> ld.SGD(0.5, batch=10)
        SGD(learning_rate=0.5, batch=10, sampling='replacement')
    """

    unwritten: ClassVar[dict[str, Any]] = {
        "output_rate": None, "bias_rate": None, "decay": None, "output_decay": None,
        "momentum": None, "nesterov": False,
    }  # fmt: skip

    learning_rate: np.ndarray | Schedule
    batch: int = eqx.field(static=True)
    sampling: str = eqx.field(static=True)
    output_rate: np.ndarray | None
    bias_rate: np.ndarray | None
    decay: np.ndarray | None
    output_decay: np.ndarray | None
    momentum: np.ndarray | None
    nesterov: bool = eqx.field(static=True)

    def __init__(
        self,
        learning_rate: Number | Schedule,
        *,
        batch: int = 1,
        sampling: str = "replacement",
        output_rate: Number | None = None,
        bias_rate: Number | None = None,
        decay: Number | None = None,
        output_decay: Number | None = None,
        momentum: Number | None = None,
        nesterov: bool = False,
    ):
        given = lambda name, value: None if value is None else non_negative(name, value)
        self.learning_rate = rate("learning_rate", learning_rate)
        self.batch = positive_int("batch", batch)
        self.sampling = one_of("sampling", sampling, SAMPLINGS)
        self.output_rate = given("output_rate", output_rate)
        self.bias_rate = given("bias_rate", bias_rate)
        self.decay = given("decay", decay)
        self.output_decay = given("output_decay", output_decay)
        self.momentum, self.nesterov = _momentum(momentum, nesterov)

    @property
    def inertia(self) -> Inertia | None:
        return None if self.momentum is None else Inertia(self.momentum, self.nesterov)

    @property
    def step_law(self) -> StepLaw:
        own = self.output_rate, self.bias_rate, self.decay, self.output_decay
        return StepLaw(self.learning_rate, self.batch, *own, self.inertia)

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        bound, law = super().bind(problem, network, teacher, dtype), self.step_law
        if not law.splits or law.inertia is None:
            return bound
        plain = SGD(1.0, batch=self.batch, sampling=self.sampling)
        gradients, inertia = plain.gradients(problem, network, teacher, dtype), law.inertia

        def init(weights: Weights) -> Memory:
            still = jax.tree.map(jnp.zeros_like, weights)
            return gradients.init(), still, still

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            direction, _, drawn = gradients.estimate(weights, memory[0], source)
            parts = law.split(network, weights, direction)
            (v, along), (u, alone) = map(inertia.advance, memory[1:], parts)
            weights = moved(weights, along, -rate_at(self.learning_rate, source.step))
            return moved(weights, alone, -1.0), (drawn, v, u)

        return bound._replace(init=init, step=step)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        """Raises a ValueError for a rate of what does not learn, or one that is not per N."""
        parts = {"output_rate": "outputs", "output_decay": "outputs", "bias_rate": "biases"}
        for name, part in parts.items():
            if getattr(self, name) is not None and part not in network.trained_parts:
                came = f"{getattr(self, name)}, but the network trains no {part}"
                raise ValueError(f"{name}: got {came}; allowed is None")
        _, *rates = self.step_law.at_most(0).rates
        for name, part, value in zip(
            ("output_rate", "bias_rate"), ("outputs", "biases"), rates, strict=True
        ):
            if part in network.trained_parts and value > FAST * problem.dim:
                raise ValueError(
                    f"{name}: got {float(value):g} for N = {problem.dim}; rates of {part} are per "
                    f"N, and a rate of order N would move them N times faster than the inputs' "
                    f"weights; allowed is at most {FAST * problem.dim:g}"
                )

    def estimate(
        self, problem: AbstractProblem, network: AbstractNetwork
    ) -> Callable[[Weights, Array, Array, Source], Weights]:
        gradient = jax.grad(lambda w, x, y: problem.mean_loss(network, w, x, y))
        return lambda weights, x, y, source: self.step_law.at(source.step).direction(
            network, weights, gradient(weights, x, y)
        )


@bounded(learning_rate=POSITIVE, momentum=FRACTION, decay=NON_NEGATIVE)
class GradientDescent(AbstractDeterministicRule):
    """Gradient descent on the population loss, or on a whole data set.

    As in `SGD`, a committee's output weights and biases learn at learning_rate/N.

    Args:
        learning_rate: η of w ← w − η ∇⟨loss⟩.
        momentum: as in `SGD`.
        nesterov: as in `SGD`.
        decay: as in `SGD`.

    Raises:
        ValueError: for a rate that is not positive, or a momentum or decay that is not
            allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.GradientDescent(0.1, momentum=0.9, decay=1e-4)
        GradientDescent(learning_rate=0.1, momentum=0.9, decay=0.0001)
    """

    unwritten: ClassVar[dict[str, Any]] = {"momentum": None, "nesterov": False, "decay": None}

    learning_rate: np.ndarray
    momentum: np.ndarray | None
    nesterov: bool = eqx.field(static=True)
    decay: np.ndarray | None

    def __init__(
        self,
        learning_rate: Number,
        *,
        momentum: Number | None = None,
        nesterov: bool = False,
        decay: Number | None = None,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.momentum, self.nesterov = _momentum(momentum, nesterov)
        self.decay = None if decay is None else non_negative("decay", decay)

    @property
    def inertia(self) -> Inertia | None:
        return None if self.momentum is None else Inertia(self.momentum, self.nesterov)

    @property
    def step_law(self) -> StepLaw:
        return StepLaw(self.learning_rate, None, decay=self.decay, inertia=self.inertia)

    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        loss = problem.population_loss(network, teacher)
        if loss is None:
            raise ValueError(
                "rule: got GradientDescent without a population loss in closed form; allowed are "
                "deep linear networks with a linear teacher, committees with a committee as a "
                "teacher (Gaussian inputs, a squared loss, one output, at rest), or a Dataset"
            )
        gradient, law = jax.grad(loss), self.step_law
        direction = lambda w: law.direction(network, w, gradient(w))
        return lambda w: jax.tree.map(lambda g: -g, direction(w))


def _momentum(momentum: Number | None, nesterov: bool) -> tuple[np.ndarray | None, bool]:
    """Both arguments, checked."""
    if momentum is None:
        if flag("nesterov", nesterov):
            raise ValueError("nesterov: got True without a momentum; allowed is momentum=…")
        return None, False
    beta = number("momentum", momentum, "a number from 0 to below 1, or None")
    if not 0 <= beta < 1:
        raise ValueError(f"momentum: got {momentum!r}; allowed is a number from 0 to below 1")
    return beta, flag("nesterov", nesterov)
