"""The parts of a system in which a committee learns from a committee."""

from typing import NamedTuple, cast

from learndyn.networks import Committee
from learndyn.problems import Spectrum, TeacherStudent
from learndyn.rules import SGD, GradientDescent
from learndyn.system import System


class Parts(NamedTuple):
    """A covered system, with the types that `covers` has made sure of."""

    problem: TeacherStudent
    student: Committee
    teacher: Committee
    rule: SGD | GradientDescent
    spectrum: Spectrum

    @staticmethod
    def of(system: System) -> "Parts":
        """The parts of a system that the committee theory covers."""
        problem = cast(TeacherStudent, system.problem)
        student, rule = cast(Committee, system.network), cast(SGD, system.rule)
        teacher = cast(Committee, problem.teacher)
        return Parts(problem, student, teacher, rule, problem.inputs.spectrum)
