"""Gradient rules: w ← w − learning_rate · ∇loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork, Committee
from learndyn.networks.base import Weights
from learndyn.numerics.checks import positive, positive_int
from learndyn.numerics.types import Number
from learndyn.problems import TeacherStudent
from learndyn.rules.base import AbstractRule, Stepper


class SGD(AbstractRule):
    """One-pass stochastic gradient descent: every step sees `batch` fresh examples.

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
        self, problem: TeacherStudent, network: AbstractNetwork, teacher: Weights
    ) -> Stepper:
        sample = problem.sampler(teacher)
        gradient = jax.grad(lambda w, x, y: problem.loss(network, w, x, y))
        # A batch axis of length one would turn products of vectors into slower ones of matrices.
        shape = () if self.batch == 1 else (self.batch,)
        return lambda w, source: _descend(
            w, gradient(w, *sample(source, shape)), self.learning_rate
        )


class GradientDescent(AbstractRule):
    """Gradient descent on the population loss, in closed form.

    Args:
        learning_rate: η of w ← w − η ∇⟨loss⟩.
    """

    learning_rate: np.ndarray

    def __init__(self, learning_rate: Number):
        self.learning_rate = positive("learning_rate", learning_rate)

    def stepper(
        self, problem: TeacherStudent, network: AbstractNetwork, teacher: Weights
    ) -> Stepper:
        if not isinstance(network, Committee) or network.activation != problem.teacher.activation:
            raise ValueError(
                "rule: got GradientDescent without a population loss in closed form; "
                "allowed are committees that share the teacher's activation, or SGD"
            )
        loss = lambda w: problem.population_loss(network, problem.covariance(w, teacher))
        return lambda w, _: _descend(w, jax.grad(loss)(w), self.learning_rate)


def _descend(weights: Weights, gradient: Weights, learning_rate) -> Weights:
    # The weights keep their own precision, whatever the learning rate's.
    return jax.tree.map(
        lambda w, g: w - jnp.asarray(learning_rate).astype(w.dtype) * g.astype(w.dtype),
        weights,
        gradient,
    )
