"""Learning rates that change at given steps."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.rules.base import AbstractGradientRule, AbstractRule, Bound, Memory
from learndyn.rules.law import Inertia
from learndyn.runtime.checks import instance, numbers, positive, shown, widths
from learndyn.runtime.types import Array, Weights


class Piecewise(AbstractRule):
    """A rule whose learning rate changes at given steps, and is constant between them.

    Momentum is kept: the velocity v of w ← w − η v is that of the gradients, without a rate.

    Args:
        rule: such as `SGD` or `GradientDescent`; its own rate is that of the first steps.
        steps: increasing numbers of the steps that are the first with another rate.
        rates: the learning rates from these steps on.

    Raises:
        ValueError: for a rule without a constant rate, steps that do not increase, and
            rates that are not one per step and positive.

    Example:
        >>> import learndyn as ld
        >>> ld.Piecewise(ld.GradientDescent(0.1), steps=[100], rates=[0.01]).rates.tolist()
        [0.01]
    """

    rule: AbstractGradientRule
    steps: np.ndarray
    rates: np.ndarray

    def __init__(self, rule: Any, *, steps: Sequence[int], rates: Sequence[float]):
        allowed = "a rule with a learning rate, such as SGD"
        self.rule = instance("rule", rule, AbstractGradientRule, allowed)
        if callable(self.rule.learning_rate):
            raise ValueError("rule: got one with a schedule; allowed is a number as its rate")
        self.steps = np.asarray(widths("steps", steps, least=1))
        self.rates = numbers("rates", rates, 1)
        if np.any(np.diff(self.steps) <= 0):
            raise ValueError(f"steps: got {shown(steps)}; allowed are increasing numbers")
        if self.steps.shape != self.rates.shape:
            came = f"{len(self.rates)} for {len(self.steps)} steps"
            raise ValueError(f"rates: got {came}; allowed is one for each of the steps")
        for rate in self.rates:
            positive("rates", rate)

    @property
    def samples(self) -> bool:
        return self.rule.samples

    @property
    def inertia(self) -> Inertia | None:
        return self.rule.inertia

    @property
    def batch_size(self) -> int | None:
        return self.rule.batch_size

    @property
    def noise_draws(self) -> int:
        return self.rule.noise_draws

    def check_problem(self, problem: AbstractProblem) -> None:
        self.rule.check_problem(problem)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        for rate in (self.rule.learning_rate, *self.rates):
            self._at(rate).check_network(problem, network)

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        bound = lambda rate: self._at(rate).bind(problem, network, teacher, dtype)
        first = bound(self.rule.learning_rate)

        def init(weights: Weights) -> Memory:
            return first.init(weights), jnp.asarray(0)

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            inner, taken = memory
            weights, inner = bound(self.rate_at(taken)).step(weights, inner, source)
            return weights, (inner, taken + 1)

        seen = first.seen
        return Bound(
            init,
            step,
            lambda memory, step: self.rate_at(memory[1]),
            None if seen is None else (lambda memory, source: seen(memory[0], source)),
        )

    def rate_at(self, step: Array) -> Array:
        """The learning rate of a step.

        Args:
            step: its number; steps count from 0.

        Returns:
            The rate.
        """
        place = jnp.searchsorted(jnp.asarray(self.steps), step, side="right")
        return self.all_rates[place]

    @property
    def all_rates(self) -> Array:
        """The rates of all pieces, the rule's own first."""
        return jnp.append(jnp.asarray(self.rule.learning_rate), jnp.asarray(self.rates))

    def _at(self, rate: Any) -> AbstractGradientRule:
        return eqx.tree_at(lambda rule: rule.learning_rate, self.rule, jax.numpy.asarray(rate))
