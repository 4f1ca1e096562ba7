"""Gradient rules: w ← w − learning_rate · ∇loss."""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.rules.base import AbstractDeterministicRule, AbstractSampledRule, StepLaw, Velocity
from learndyn.rules.batches import SAMPLINGS
from learndyn.runtime.checks import one_of, positive, positive_int
from learndyn.runtime.types import Array, Number, Weights


class SGD(AbstractSampledRule):
    """Stochastic gradient descent: each step sees `batch` examples, fresh or drawn from a data set.

    Args:
        learning_rate: η of w ← w − η ∇loss, the loss averaged over the batch.
        batch: number of examples per step.
        sampling: how examples of a data set are drawn: "replacement", or "epochs" for shuffled
            passes without an incomplete last batch.
    """

    learning_rate: np.ndarray
    batch: int = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

    def __init__(self, learning_rate: Number, *, batch: int = 1, sampling: str = "replacement"):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.batch = positive_int("batch", batch)
        self.sampling = one_of("sampling", sampling, SAMPLINGS)

    @property
    def step_law(self) -> StepLaw | None:
        return StepLaw(self.learning_rate, self.batch)

    def estimate(
        self, problem: AbstractProblem, network: AbstractNetwork
    ) -> Callable[[Weights, Array, Array, Source], Weights]:
        gradient = jax.grad(lambda w, x, y: problem.mean_loss(network, w, x, y))
        return lambda weights, x, y, source: gradient(weights, x, y)


class GradientDescent(AbstractDeterministicRule):
    """Gradient descent on the population loss, or on a whole data set.

    Args:
        learning_rate: η of w ← w − η ∇⟨loss⟩.
    """

    learning_rate: np.ndarray

    def __init__(self, learning_rate: Number):
        self.learning_rate = positive("learning_rate", learning_rate)

    @property
    def step_law(self) -> StepLaw | None:
        return StepLaw(self.learning_rate, None)

    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        loss = problem.population_loss(network, teacher)
        if loss is None:
            raise ValueError(
                "rule: got GradientDescent without a population loss in closed form; allowed are "
                "deep linear networks with a linear teacher, committees that share the teacher's "
                "activation, or a Dataset"
            )
        gradient = jax.grad(loss)
        return lambda w: jax.tree.map(lambda g: -g, gradient(w))
