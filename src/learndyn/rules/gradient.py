"""Gradient rules: w ← w − learning_rate · ∇loss."""

import equinox as eqx
import jax
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.checks import positive, positive_int
from learndyn.numerics.types import Number
from learndyn.problems import AbstractProblem
from learndyn.rules.base import AbstractDeterministicRule, AbstractRule, Stepper, Velocity, moved
from learndyn.rules.population import loss_of


class SGD(AbstractRule):
    """Stochastic gradient descent: every step sees `batch` fresh or drawn examples.

    Args:
        learning_rate: η of w ← w − η ∇loss, the loss averaged over the batch.
        batch: number of examples a step.
    """

    learning_rate: np.ndarray
    batch: int = eqx.field(static=True)

    def __init__(self, learning_rate: Number, *, batch: int = 1):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.batch = positive_int("batch", batch)

    def stepper(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Stepper:
        sample = problem.sampler(teacher, dtype)
        gradient = jax.grad(lambda w, x, y: problem.loss(network, w, x, y))
        # A batch axis of length one would turn products of vectors into slower ones of matrices.
        shape = () if self.batch == 1 else (self.batch,)
        return lambda w, source: moved(w, gradient(w, *sample(source, shape)), -self.learning_rate)


class GradientDescent(AbstractDeterministicRule):
    """Gradient descent on the population loss, or on all of a data set.

    Args:
        learning_rate: η of w ← w − η ∇⟨loss⟩.
    """

    learning_rate: np.ndarray

    def __init__(self, learning_rate: Number):
        self.learning_rate = positive("learning_rate", learning_rate)

    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        gradient = jax.grad(loss_of(self, problem, network, teacher))
        return lambda w: jax.tree.map(lambda g: -g, gradient(w))
