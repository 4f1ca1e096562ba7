"""A rule that triggers catapults of the loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.rules.base import (
    AbstractGradientRule,
    AbstractRule,
    Bound,
    Memory,
    check_only_gradient,
    moved,
)
from learndyn.rules.control import CatapultControl, Steering
from learndyn.rules.critical import squared_loss, track_critical_rate
from learndyn.runtime.checks import instance, positive_int
from learndyn.runtime.types import Number, Weights


class CatapultSchedule(AbstractRule):
    """w ← w − η · gradient of a rule, with η raised past the critical rate to trigger catapults.

    η_crit is computed from the tangent kernel of all examples at the present weights (of held-out
    examples if the problem draws fresh ones), whatever examples a step sees. `CatapultControl`
    decides when η is raised, and keeps it below the divergence threshold. The memory holds η of the
    next step and the last η_crit (`Steering`); `probes.Watched` records them.

    Args:
        rule: provides the gradients, such as `SGD`; its learning rate is the first rate, and the
            lower end of cycles.
        times: the rate is raised to `times` · η_crit; above 1, below `limit`.
        rest: steps in a row with η ≤ η_crit before the rate is raised.
        catapults: how many times the rate is raised; None for no limit.
        period: steps of a cycle between the rule's rate and `times` · η_crit; None raises the
            rate and keeps it.
        limit: the rate from which on training diverges, in units of η_crit: 2 for quadratic models,
            larger for relu networks.
        every: steps between two measurements of η_crit, each of which computes one tangent kernel.

    Raises:
        ValueError: for a rule that has momentum or is no gradient with a rate, for `times`
            outside 1 to `limit`, and for counts that are not positive integers.

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
        check_only_gradient("rule", self.rule)
        # Only for its checks: the first rate is the rule's own.
        control = CatapultControl(
            1.0, times=times, rest=rest, catapults=catapults, period=period, limit=limit
        )
        self.times, self.limit = control.times, control.limit
        self.rest, self.catapults, self.period = control.rest, control.catapults, control.period
        self.every = positive_int("every", every)

    @property
    def control(self) -> CatapultControl:
        """The control that decides on the rate."""
        # Numbers may be traced here, which the checks of the constructor do not allow: they are
        # put in afterwards.
        names = ("learning_rate", "times", "limit")
        values = (self.rule.learning_rate, self.times, self.limit)
        begin = CatapultControl(1.0, rest=self.rest, catapults=self.catapults, period=self.period)
        return eqx.tree_at(lambda c: [getattr(c, name) for name in names], begin, list(values))

    @property
    def samples(self) -> bool:
        return self.rule.samples

    @property
    def batch_size(self) -> int | None:
        return self.rule.batch_size

    @property
    def noise_draws(self) -> int:
        return self.rule.noise_draws

    def check_problem(self, problem: AbstractProblem) -> None:
        self.rule.check_problem(problem)
        squared_loss(problem)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        self.rule.check_network(problem, network)

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        gradients = self.rule.gradients(problem, network, teacher, dtype)
        measured, control = track_critical_rate(problem, network, teacher, dtype), self.control

        def init(weights: Weights) -> Memory:
            critical, basis = measured.init(weights)
            return gradients.init(), control.begin(critical), basis

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            drawn, now, basis = memory
            gradient, _, drawn = gradients.estimate(weights, drawn, source)
            weights = moved(weights, gradient, -now.rate)
            # The rate of the next step depends on the weights from which that step starts.
            due = (now.step + 1) % self.every == 0
            keep = lambda: (now.critical.astype(dtype), basis)
            critical, basis = jax.lax.cond(due, lambda: measured.next(weights, basis), keep)
            return weights, (drawn, control.advance(now, critical), basis)

        rate = lambda memory, step: steering_of(memory).rate
        return Bound(init, step, rate, gradients.seen_by_first)


def steering_of(memory: Memory) -> Steering:
    """Rate and last η_crit in the memory of a `CatapultSchedule`."""
    return jax.tree.map(jnp.asarray, memory[1])
