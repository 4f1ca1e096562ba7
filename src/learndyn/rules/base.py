"""What every rule provides."""

import abc
from collections.abc import Callable

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.random import Source
from learndyn.numerics.values import Value
from learndyn.problems import TeacherStudent

Stepper = Callable[[Weights, Source], Weights]


class AbstractRule(Value):
    """Turns weights into the next weights."""

    @abc.abstractmethod
    def stepper(
        self, problem: TeacherStudent, network: AbstractNetwork, teacher: Weights
    ) -> Stepper:
        """One step as a function (weights, random source) → weights.

        What does not change between steps is computed before the function is returned.

        Args:
            problem: where examples come from.
            network: the student.
            teacher: the teacher's weights.

        Returns:
            The step.
        """
