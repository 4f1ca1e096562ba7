"""What a probe may see of a rule: the next step, and the last one."""

import abc
from typing import Any, NamedTuple

import jax.numpy as jnp

from learndyn.models import Model
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.records import Variable
from learndyn.rules.base import AbstractRule, Bound, Memory
from learndyn.runtime.types import Array
from learndyn.runtime.values import Value


class Step(NamedTuple):
    """The next step, and the last one.

    Attributes:
        problem: provides the examples.
        rate: η of the next step; NaN if the rule has no rate of its own.
        batch: indices of the examples that the next step sees, (batch,); None for all of them.
        before: indices of the examples that the last step saw.
        first: whether no step has been taken yet.
        rule: the rule that takes the steps.
        memory: what the rule carries from one step to the next.
    """

    problem: AbstractProblem
    rate: Array
    batch: Array | None
    before: Array | None
    first: Array
    rule: AbstractRule
    memory: Memory


class AbstractStepProbe(Value):
    """A probe of the model and of the next step, for `simulate(probes=…)`.

    It is traced and evaluated at the recorded times; each value has its own name in the record.

    A probe that carries something from one reading to the next overrides `begin` and `read`, for
    instance a vector from which the next iteration starts. One whose last computation is cheaper
    for many readings together overrides `finish` as well.
    """

    @property
    @abc.abstractmethod
    def variables(self) -> dict[str, Variable]:
        """The labels of its values in a record."""

    @abc.abstractmethod
    def check(self, problem: AbstractProblem, outputs: int) -> None:
        """Raises a ValueError if the probe does not apply to a problem or a number of outputs."""

    @abc.abstractmethod
    def __call__(self, model: Model, step: Step) -> dict[str, Array]:
        """The values of the probe for a model before a step.

        If they include the `error` on all examples, it is not computed again.
        """

    def begin(self, model: Model, problem: AbstractProblem) -> Any:
        """What `read` gets at the first reading: a pytree of arrays."""
        return ()

    def read(self, model: Model, step: Step, memory: Any) -> tuple[dict[str, Array], Any]:
        """The values of a reading, and what the next reading gets.

        Args:
            model: the model before the step.
            step: the step.
            memory: what the last reading returned, or `begin`.

        Returns:
            The values, which `finish` turns into those of the record, and the next memory, of the
            same structure and shapes.
        """
        return self(model, step), memory

    def finish(self, values: dict[str, Array]) -> dict[str, Array]:
        """The values of the record from those of one reading.

        It is mapped over many readings after they were taken: on accelerators as one batch.
        """
        return values


def step_of(
    problem: AbstractProblem,
    rule: AbstractRule,
    bound: Bound,
    memory: Memory,
    key: Array,
    index: Array,
) -> Step:
    """The step number `index` of the run with the random key `key`."""
    rate, first = bound.rate(memory, index), index == 0
    if bound.seen is None:
        return Step(problem, rate, None, None, first, rule, memory)
    # Step −1 does not exist: before the first step, `first` says that `last` has no meaning.
    last = bound.seen(memory, Source(key, jnp.maximum(index - 1, 0)))
    seen = bound.seen(memory, Source(key, index))
    return Step(problem, rate, seen, last, first, rule, memory)
