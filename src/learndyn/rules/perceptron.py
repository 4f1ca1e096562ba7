"""The classical rules of the perceptron: Hebb, Rosenblatt's perceptron, AdaTron."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.problems.margins import AbstractMarginLoss, AdaTronLoss, HebbianLoss, Hinge
from learndyn.rules.base import AbstractSampledRule
from learndyn.rules.batches import SAMPLINGS
from learndyn.rules.law import StepLaw
from learndyn.rules.rates import Schedule, rate
from learndyn.runtime.bounds import COUNT, POSITIVE, bounded
from learndyn.runtime.checks import one_of, positive_int
from learndyn.runtime.types import Array, Number, Weights


def _rate(value: Number | Schedule) -> np.ndarray | Schedule:
    return rate("learning_rate", value)


def _batch(value: int) -> int:
    return positive_int("batch", value)


def _sampling(value: str) -> str:
    return one_of("sampling", value, SAMPLINGS)


class AbstractPerceptronRule(AbstractSampledRule):
    """The gradient of a loss of the rule's own, whatever the loss of the problem."""

    learning_rate: np.ndarray | Schedule = eqx.field(converter=_rate, default=1.0)
    batch: int = eqx.field(converter=_batch, default=1, static=True, kw_only=True)
    sampling: str = eqx.field(converter=_sampling, default="replacement", static=True, kw_only=True)

    @property
    @abc.abstractmethod
    def criterion(self) -> AbstractMarginLoss:
        """The loss that the rule descends."""

    @property
    def own_law(self) -> tuple[AbstractMarginLoss, StepLaw] | None:
        return self.criterion, StepLaw(self.learning_rate, self.batch)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        shape = network.output_shape(problem.input_shape, problem.input_dtype)
        if int(np.prod(shape)) != 1:
            came = f"{type(self).__name__} for {int(np.prod(shape))} outputs"
            raise ValueError(f"rule: got {came}; allowed is a network with one output")

    def estimate(
        self, problem: AbstractProblem, network: AbstractNetwork
    ) -> Callable[[Weights, Array, Array, Source], Weights]:
        def loss(weights: Weights, x: Array, y: Array) -> Array:
            output = network(weights, x)
            return self.criterion(output, y, output.ndim - (x.ndim - problem.input_axes))

        def gradient(weights: Weights, x: Array, y: Array, source: Source) -> Any:
            law, found = StepLaw(self.learning_rate, None), jax.grad(loss)(weights, x, y)
            return law.at(source.step).direction(network, weights, found)

        return gradient


@bounded(learning_rate=POSITIVE, batch=COUNT)
class Hebb(AbstractPerceptronRule):
    """Hebb's rule, w ← w + learning_rate · label · ∇_w output at every example.

    For `Committee(1, "linear")` this is w ← w + η label x/√N. The label is the sign of the target.
    The classification error falls as α^(−1/2), at α = steps/N.

    Args:
        learning_rate: η: a number, or a function of the step number.
        batch: number of examples per step, over which a step is averaged.
        sampling: how examples of a data set are drawn, as in `SGD`.

    Raises:
        ValueError: for a rate, a batch or a way of sampling that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> teacher, student = ld.Committee(1, "sign"), ld.Committee(1, "linear")
        >>> problem = ld.TeacherStudent(ld.Isotropic(100), teacher)
        >>> record = ld.solve(ld.System(problem, student, ld.Hebb(1.0)), [0, 100])
        >>> round(float(record.classification_error[-1]), 3)
        0.04
    """

    @property
    def criterion(self) -> AbstractMarginLoss:
        return HebbianLoss()


@bounded(learning_rate=POSITIVE, batch=COUNT)
class Perceptron(AbstractPerceptronRule):
    """The perceptron rule, w ← w + learning_rate · label · ∇_w output where the sign is wrong.

    For `Committee(1, "linear")` this is w ← w + η label x/√N at every error. The label is the sign
    of the target. Without noise the classification error falls as α^(−1/3), at α = steps/N.

    Args:
        learning_rate: η: a number, or a function of the step number.
        batch: number of examples per step, over which a step is averaged.
        sampling: how examples of a data set are drawn, as in `SGD`.

    Raises:
        ValueError: for a rate, a batch or a way of sampling that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.Perceptron(0.5)
        Perceptron(learning_rate=0.5, batch=1, sampling='replacement')
    """

    @property
    def criterion(self) -> AbstractMarginLoss:
        return Hinge(0.0)


@bounded(learning_rate=POSITIVE, batch=COUNT)
class AdaTron(AbstractPerceptronRule):
    """The AdaTron rule, w ← w − learning_rate · output · ∇_w output where the sign is wrong.

    For `Committee(1, "linear")` this is w ← w + η |h| label x/√N at every error, with the
    pre-activation h = w·x/√N. The label is the sign of the target. Without noise the classification
    error falls as 3/((3η − η²) α) for η < 3 and batches of one example, at α = steps/N.

    Args:
        learning_rate: η: a number, or a function of the step number.
        batch: number of examples per step, over which a step is averaged.
        sampling: how examples of a data set are drawn, as in `SGD`.

    Raises:
        ValueError: for a rate, a batch or a way of sampling that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.AdaTron(1.5)
        AdaTron(learning_rate=1.5, batch=1, sampling='replacement')
    """

    @property
    def criterion(self) -> AbstractMarginLoss:
        return AdaTronLoss()
