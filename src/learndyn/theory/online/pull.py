"""How a label pulls an output: e = −∂loss/∂output, of the problem's loss or of the rule's own."""

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.problems import AbstractMarginLoss, CrossEntropy, Logistic
from learndyn.problems.base import AbstractProblem
from learndyn.rules import AbstractRule, StepLaw
from learndyn.runtime.types import Array


def law_of(rule: AbstractRule) -> StepLaw | None:
    """The parameters of the rule's steps; None if they do not describe it."""
    return rule.step_law if rule.own_law is None else rule.own_law[1]


def criterion_of(problem: AbstractProblem, rule: AbstractRule) -> AbstractMarginLoss | None:
    """The loss of margins that the rule descends; None for other losses."""
    if rule.own_law is not None:
        return rule.own_law[0]
    loss = problem.loss
    if isinstance(loss, CrossEntropy) and loss.counts_all:
        return Logistic()
    return loss if isinstance(loss, AbstractMarginLoss) else None


def pull(criterion: AbstractMarginLoss, output: Array, label: Array) -> Array:
    """e(output, label) for labels −1 and +1, elementwise."""
    margin = output * label
    slope = jax.jvp(criterion.of_margin, (margin,), (jnp.ones_like(margin),))[1]
    return -label * slope


def flips(coefficient: Array, label_noise: Array) -> Array:
    """The probability that noise turns the sign of the teacher's output, ± `coefficient`."""
    safe = jnp.maximum(jnp.asarray(label_noise), np.finfo(np.float64).tiny)
    return jax.scipy.special.ndtr(-jnp.abs(coefficient) / safe)
