"""A rule that triggers catapults."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.checks import instance, positive_int
from learndyn.numerics.random import Source
from learndyn.numerics.types import Number
from learndyn.problems import AbstractProblem
from learndyn.rules.base import AbstractGradientRule, AbstractRule, Bound, Memory, moved
from learndyn.rules.control import CatapultControl, Steering
from learndyn.rules.critical import critical_rate, squared_loss


class CatapultSchedule(AbstractRule):
    """w ← w − η · gradient of a rule, with η raised past the critical rate to trigger catapults.

    η_crit is that of all examples (held-out ones where they are fresh), from the tangent kernel at
    the present weights, whatever part of them a step sees. The memory holds η of the next step and
    the last η_crit (`Steering`); `probes.Watched` records them. What raises η, and what keeps it
    below the divergence threshold, is `CatapultControl`.

    Args:
        rule: whose gradients are taken, such as `SGD`; its rate is the first, and the lower end of
            cycles.
        times: what the rate is raised to, in units of η_crit; above 1, below `limit`.
        rest: steps in a row with η ≤ η_crit before the rate is raised.
        catapults: how often it is raised; None for no end.
        period: steps of a cycle between the rule's rate and `times` · η_crit; None raises the rate
            and leaves it there.
        limit: what diverges, in units of η_crit: 2 for quadratic models, larger for relu networks.
        every: steps between two measurements of η_crit, each of which takes one tangent kernel.

    Example:
        >>> import learndyn as ld
        >>> ld.CatapultSchedule(ld.GradientDescent(0.1), catapults=3).times.item()
        1.5
    """

    rule: AbstractGradientRule
    times: np.ndarray
    rest: int = eqx.field(static=True)
    catapults: int | None = eqx.field(static=True)
    period: int | None = eqx.field(static=True)
    limit: np.ndarray
    every: int = eqx.field(static=True)

    def __init__(
        self,
        rule: AbstractRule,
        *,
        times: Number = 1.5,
        rest: int = 10,
        catapults: int | None = None,
        period: int | None = None,
        limit: Number = 2.0,
        every: int = 1,
    ):
        self.rule = instance("rule", rule, AbstractGradientRule, "a rule such as SGD")
        given = CatapultControl(
            1.0, times=times, rest=rest, catapults=catapults, period=period, limit=limit
        )
        self.times, self.limit = given.times, given.limit
        self.rest, self.catapults, self.period = given.rest, given.catapults, given.period
        self.every = positive_int("every", every)

    @property
    def control(self) -> CatapultControl:
        """What decides on the rate."""
        names = ("learning_rate", "times", "limit")
        values = (self.rule.learning_rate, self.times, self.limit)
        begin = CatapultControl(1.0, rest=self.rest, catapults=self.catapults, period=self.period)
        return eqx.tree_at(lambda c: [getattr(c, name) for name in names], begin, list(values))

    @property
    def samples(self) -> bool:
        return self.rule.samples

    def check_problem(self, problem: AbstractProblem) -> None:
        self.rule.check_problem(problem)
        squared_loss(problem)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        self.rule.check_network(problem, network)

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        found = self.rule.gradients(problem, network, teacher, dtype)
        measured, control = critical_rate(problem, network, teacher, dtype), self.control

        def init(weights: Weights) -> Memory:
            critical, basis = measured.init(weights)
            return found.init(), control.begin(critical), basis

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            drawn, now, basis = memory
            gradient, _, drawn = found.estimate(weights, drawn, source)
            weights = moved(weights, gradient, -now.rate)
            # The rate of the next step is decided on at the weights that it begins from.
            due = (now.step + 1) % self.every == 0
            keep = lambda: (now.critical.astype(dtype), basis)
            critical, basis = jax.lax.cond(due, lambda: measured.next(weights, basis), keep)
            return weights, (drawn, control.advance(now, critical), basis)

        of = found.seen
        seen = None if of is None else (lambda memory, source: of(memory[0], source))
        return Bound(init, step, lambda memory: steering_of(memory).rate, seen)


def steering_of(memory: Memory) -> Steering:
    """Rate and last η_crit in the memory of a `CatapultSchedule`."""
    return jax.tree.map(jnp.asarray, memory[1])
