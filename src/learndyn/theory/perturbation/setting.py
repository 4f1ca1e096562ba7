"""A system that the perturbation theory covers, in the notation of the paper."""

from typing import cast

import equinox as eqx
import numpy as np

from learndyn.networks import DeepLinear, LinearTeacher
from learndyn.problems import TeacherStudent
from learndyn.rules import SGD, NodePerturbation
from learndyn.runtime.precision import as_float64
from learndyn.runtime.types import Array
from learndyn.system import System


class PerturbationSetting(eqx.Module):
    """Sizes, rate and noise, as the recursions use them. All of them are traced.

    Attributes:
        L_x: number of inputs.
        L_h: hidden units.
        L_y: number of outputs.
        eta: η = 2 · loss_scale · learning_rate, the rate for the paper's loss ½ |y − y*|².
        sigma_t2: σ_t², the variance of the label noise.
    """

    L_x: Array = eqx.field(converter=as_float64)
    L_h: Array = eqx.field(converter=as_float64)
    L_y: Array = eqx.field(converter=as_float64)
    eta: Array = eqx.field(converter=as_float64)
    sigma_t2: Array = eqx.field(converter=as_float64)

    @staticmethod
    def of(system: System) -> "PerturbationSetting":
        """The setting of a system."""
        problem, rule = cast(TeacherStudent, system.problem), cast(SGD, system.rule)
        L_x, L_h, L_y = cast(DeepLinear, system.network).widths
        eta = 2 * problem.loss_scale * rule.learning_rate
        return PerturbationSetting(L_x, L_h, L_y, eta, problem.label_noise**2)


def teacher_of(system: System) -> LinearTeacher:
    """The teacher of a covered system."""
    return cast(LinearTeacher, cast(TeacherStudent, system.problem).teacher)


def mean_target(system: System) -> np.ndarray:
    """‖A‖² / (L_x L_y) of the teacher, or its mean if the teacher is random."""
    matrix = teacher_of(system).matrix
    return np.asarray(1 / system.dim if matrix is None else np.mean(matrix**2))


def sees_one(system: System) -> bool:
    """Whether a step uses one example and one perturbation, as the recursions assume."""
    rule = cast(SGD | NodePerturbation, system.rule)
    return rule.batch == 1 and rule.noise_draws <= 1
