"""The parts of a system in which a committee learns from a committee."""

from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee
from learndyn.problems import Spectrum, TeacherStudent
from learndyn.rules import StepLaw
from learndyn.runtime.types import Array
from learndyn.system import System


class CommitteeSetting(NamedTuple):
    """The parts of a covered system, with the types that `covers` has checked."""

    problem: TeacherStudent
    student: Committee
    teacher: Committee
    rule: StepLaw
    spectrum: Spectrum

    @staticmethod
    def of(system: System) -> "CommitteeSetting":
        """The setting of a system that the committee theory covers."""
        problem = cast(TeacherStudent, system.problem)
        student, rule = cast(Committee, system.network), system.rule.step_law
        teacher = cast(Committee, problem.teacher)
        assert rule is not None
        return CommitteeSetting(problem, student, teacher, rule, problem.inputs.spectrum)

    @property
    def h(self) -> Array:
        """2 · loss_scale · η · a, the effective learning rate of the overlaps."""
        return 2 * self.problem.loss_scale * self.rule.learning_rate * self.student.scale

    @property
    def learning(self) -> Array:
        """1 for every level whose directions are trained, 0 for the others, (levels,)."""
        counts = self.spectrum.counts
        xp = np if isinstance(counts, np.ndarray) else jnp
        if self.student.trainable is None:
            return np.ones(len(counts))
        return (xp.cumsum(counts) <= self.student.trainable).astype(np.float64)
