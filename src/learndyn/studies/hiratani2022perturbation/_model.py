"""The paper's system: two linear layers, white inputs, loss ½ |y − y*|², sizes 100-10000-10.

Of the paper's linear half only the supplement was at hand: figures are known by their captions and
settings (Appendix C), claims by Appendix B.
"""

import dataclasses
import math
from typing import Any

import learndyn as ld
from learndyn.studies.claims import Tolerance
from learndyn.theory.perturbation import wide
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.theory import PerturbationTheory

L_X, L_H, L_Y = 100, 10_000, 10
SEEDS = 10
TARGET = 1e-4  # of the first error, at which training ends
NOISE = 0.1  # σ_t², where there is noise
# What order "finite" leaves out: Eq. 57 loses up to this part of the signal at 100-10⁴-10.
FACTORISED = 0.044
MOMENTS = "the 2 that fourth moments add to every size, as order finite has it"


def linear_system(
    rule: Any, *, L_h: int = L_H, L_y: int = L_Y, sigma_t2: float = 0.0, L_x: int = L_X
) -> ld.System:
    """Eqs. 40-46 under a rule; the teacher is drawn by `drawn_starts`."""
    data = ld.TeacherStudent(
        ld.Isotropic(L_x), ld.LinearTeacher(L_y), loss_scale=0.5, label_noise=math.sqrt(sigma_t2)
    )
    return ld.System(data, ld.DeepLinear([L_x, L_h, L_y], init=ld.Xavier()), rule)


def drawn_starts(key: int, count: int = SEEDS, **sizes: int) -> list[ld.Start]:
    """Starts number key, key + 1, …: students by Eq. 107, teachers by Eq. 106.

    Args:
        key: of the first.
        count: how many, each a seed of the paper.
        sizes: `L_h`, `L_y`, `L_x` where they differ from the paper's.

    Returns:
        The starts.
    """
    system = linear_system(ld.NodePerturbation(1.0), **sizes)
    return [_drawn(system, key + i) for i in range(count)]


def _drawn(system: ld.System, key: int) -> ld.Start:
    """A student by Eq. 107, and its teacher, drawn with variance 1/L_x, scaled to Eq. 106."""
    drawn: ld.Gram = ld.start(system, key=key).state
    L_y, L_x = drawn.P.shape
    teacher = math.sqrt(2 * L_x / (L_x + L_y)) * drawn.A
    return ld.start(system, key=key, state=dataclasses.replace(drawn, A=teacher))


def mean_start(*, L_h: int = L_H, L_y: int = L_Y, L_x: int = L_X) -> ld.Traces:
    """The mean traces of students and teachers (Eq. 71)."""
    return wide.xavier(PerturbationSetting(L_x, L_h, L_y, 1.0, 0.0), 1.0, 2 / (L_x + L_y))


def predicted(rule: Any, *, target: float = TARGET, **sizes: int) -> dict[str, float]:
    """The theory's landmarks for that rule, from the mean traces."""
    theory = PerturbationTheory(linear_system(rule, **sizes))
    return theory.landmarks(target=target, state=mean_start(**sizes))


def factorised(value: float, part: float = FACTORISED) -> Tolerance:
    """What order "finite" leaves out of a time or a norm."""
    because = f"products of traces for traces of products, up to {100 * part:g} % (Eq. 57)"
    return Tolerance(part * value, because)


def critical_rate(**sizes: int) -> float:
    """η*, without noise, for TARGET (Eqs. 82, 83)."""
    return predicted(ld.NodePerturbation(1.0), **sizes)["critical_learning_rate"]
