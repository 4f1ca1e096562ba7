"""The paper's system: scales √M/K and 1/√M, loss ½ (ζ − σ)², inputs of a power-law spectrum."""

import learndyn as ld
from learndyn.problems import Gaussian, Spectrum


def committee_system(
    activation: str,
    inputs: Spectrum | Gaussian,
    *,
    K: int = 1,
    M: int = 1,
    eta: float,
    sigma_J: float,
    trainable: int | None = None,
    typical: bool = False,
) -> ld.System:
    """A student with initial weights N(0, σ_J²) that learns from a teacher with weights N(0, 1).

    Args:
        activation: "linear" or "erf".
        inputs: the spectrum of the inputs, or Gaussian inputs in any basis.
        K: hidden units of the student.
        M: hidden units of the teacher.
        eta: learning rate η.
        sigma_J: standard deviation of the student's initial weights.
        trainable: the N_l leading directions that learn; None for all.
        typical: whether the teacher's overlaps equal their expectation.

    Returns:
        The system.
    """
    weights = ld.Typical() if typical else ld.Normal(1.0)
    teacher = ld.Committee(M, activation, scale=M**-0.5, init=weights)
    init, scale = ld.Normal(sigma_J), M**0.5 / K
    student = ld.Committee(K, activation, scale=scale, init=init, trainable=trainable)
    problem = ld.TeacherStudent(inputs, teacher, loss_scale=0.5)
    return ld.System(problem, student, ld.SGD(eta))
