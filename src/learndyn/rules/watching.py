"""What a probe may see of a rule: the step that follows, and the one that led here."""

import abc
from typing import NamedTuple

import jax.numpy as jnp

from learndyn.networks import Model
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value
from learndyn.problems import AbstractProblem
from learndyn.records import Variable
from learndyn.rules.base import Bound, Memory


class Step(NamedTuple):
    """The step that follows, and the last one.

    Attributes:
        problem: whose examples it sees.
        rate: η of the step that follows; NaN where the rule has none of its own.
        batch: which examples it sees, (batch,); None for all of them.
        before: which the last step saw.
        first: whether no step was taken yet.
    """

    problem: AbstractProblem
    rate: Array
    batch: Array | None
    before: Array | None
    first: Array


class AbstractStepProbe(Value):
    """A probe that looks at the step that follows as well; `simulate(probes=…)` takes it.

    It is traced, and read at the asked times, each value under its own name.
    """

    @property
    @abc.abstractmethod
    def variables(self) -> dict[str, Variable]:
        """How a record labels what is read."""

    @abc.abstractmethod
    def check(self, problem: AbstractProblem, outputs: int) -> None:
        """Raises a ValueError where a problem, or a number of outputs, does not suit it."""

    @abc.abstractmethod
    def __call__(self, model: Model, step: Step) -> dict[str, Array]:
        """What is read of a model before a step.

        It may hold the `error` on all examples as well, which is then not computed again.
        """


def step_of(
    problem: AbstractProblem, bound: Bound, memory: Memory, key: Array, index: Array
) -> Step:
    """The step of given index, of a run with the given key."""
    rate, first = bound.rate(memory), index == 0
    if bound.seen is None:
        return Step(problem, rate, None, None, first)
    last = bound.seen(memory, Source(key, jnp.maximum(index - 1, 0)))
    return Step(problem, rate, bound.seen(memory, Source(key, index)), last, first)
