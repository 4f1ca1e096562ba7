"""The parts of a system that the online theory covers."""

from typing import Any, NamedTuple

import equinox as eqx

from learndyn.problems import AbstractMarginLoss, SquaredLoss
from learndyn.runtime.divergence import Elapsed
from learndyn.system import System
from learndyn.theory.committee.setting import CommitteeSetting, units_of
from learndyn.theory.online.pull import criterion_of, law_of


class OnlineSetting(NamedTuple):
    """The parts of a system.

    Attributes:
        committee: as in the theory of committees. Without a squared loss its `h` is the learning
            rate, and of its averages none is used.
        criterion: the loss of margins that the rule descends; None for a squared loss.
        loss: the problem's loss, which the error is of.
    """

    committee: CommitteeSetting
    criterion: AbstractMarginLoss | None
    loss: Any

    @staticmethod
    def of(system: System, **resolution: Any) -> "OnlineSetting":
        """The setting of a system that the theory covers."""
        problem: Any = system.problem
        student: Any = system.network
        teacher, law = problem.teacher, law_of(system.rule)
        assert law is not None
        criterion = criterion_of(problem, system.rule)
        # 2 · loss_scale = 1: the pull e has no factor.
        plain = problem if criterion is None else with_loss(problem, SquaredLoss(0.5))
        units = units_of(student.g, teacher.g, student.units, teacher.units, **resolution)
        spectrum = problem.inputs.spectrum
        own = CommitteeSetting(plain, student, teacher, law, spectrum, units)
        return OnlineSetting(own, criterion, problem.loss)

    def at(self, time: Elapsed | None) -> "OnlineSetting":
        """The setting with the learning rate of a time."""
        return self._replace(committee=self.committee.at(time))


def with_loss(problem: Any, loss: Any) -> Any:
    """A problem with another loss, also while it is traced."""
    return eqx.tree_at(lambda it: it.loss, problem, loss, is_leaf=lambda leaf: leaf is problem.loss)
