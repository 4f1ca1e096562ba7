"""One linear layer, 100-10, that learns a linear map (Appendix B.6, Fig. S1)."""

from typing import Any

import numpy as np

import learndyn as ld
from learndyn.studies.hiratani2022perturbation._model import L_X, L_Y

RULES = {"sgd": ld.SGD, "node perturbation": ld.NodePerturbation}  # by their names in the theory


def regression_system(rule: Any) -> ld.System:
    """Eq. 101 under a rule."""
    data = ld.TeacherStudent(ld.Isotropic(L_X), ld.LinearTeacher(L_Y), loss_scale=0.5)
    return ld.System(data, ld.DeepLinear([L_X, L_Y]), rule)


def error_curves(rule: str, rate: float, steps: float, points: int, runs: int, key: int):
    """The record of runs from one student and teacher (Eq. 106), each step on the weights.

    How fast the mean error falls does not depend on where it begins, at any size.

    Args:
        rule: a name in `RULES`.
        rate: learning rate.
        steps: the last step, rounded up to a multiple of the recorded ones.
        points: recorded steps after the first.
        runs: how many.
        key: seed of the start and of the runs.

    Returns:
        The record.
    """
    times = np.ceil(steps / points) * np.arange(points + 1)
    given = {"runs": runs, "key": key, "method": "direct", "dtype": "float64"}
    return ld.simulate(regression_system(RULES[rule](rate)), times, start=_drawn(key), **given)


def _drawn(key: int) -> ld.Start:
    draw = lambda rng: ld.Xavier().sample(rng, (L_X, L_Y), None)
    weights, teacher = map(draw, np.random.default_rng(key).spawn(2))
    return ld.start(regression_system(ld.SGD(1.0)), weights=weights, teacher=teacher[0])
