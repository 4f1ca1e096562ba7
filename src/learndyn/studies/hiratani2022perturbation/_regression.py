"""One linear layer, 100-10, that learns a linear map (Appendix B.6, Fig. S1)."""

from typing import Any

import numpy as np

import learndyn as ld
from learndyn.studies.hiratani2022perturbation._model import L_X, L_Y, SEEDS

RULES = {"sgd": ld.SGD, "node perturbation": ld.NodePerturbation}  # by their names in the theory


def regression_system(rule: Any, L_x: int = L_X, L_y: int = L_Y) -> ld.System:
    """Eq. 101 under a rule; the teacher is drawn by `drawn_regressions`."""
    data = ld.TeacherStudent(ld.Isotropic(L_x), ld.LinearTeacher(L_y), loss_scale=0.5)
    return ld.System(data, ld.DeepLinear([L_x, L_y]), rule)


def drawn_regressions(
    key: int, count: int = SEEDS, L_x: int = L_X, L_y: int = L_Y
) -> list[ld.Start]:
    """Starts number key, key + 1, …: student and teacher by Eq. 106."""
    return [_drawn(key + i, L_x, L_y) for i in range(count)]


def _drawn(key: int, L_x: int, L_y: int) -> ld.Start:
    draw = lambda rng: ld.Xavier().sample(rng, (L_x, L_y), None)
    weights, teacher = map(draw, np.random.default_rng(key).spawn(2))
    system = regression_system(ld.SGD(1.0), L_x, L_y)
    return ld.start(system, weights=weights, teacher=teacher[0])


def error_curves(
    rule: str, rate: float, steps: float, points: int, starts: list[ld.Start], key: int
):
    """The record of a run for every start, to a number of steps, each step on the weights.

    Args:
        rule: a name in `RULES`.
        rate: learning rate.
        steps: the last step, rounded up to a multiple of the recorded ones.
        points: recorded steps after the first.
        starts: where runs begin.
        key: seed.

    Returns:
        The record.
    """
    L_y, L_x = np.shape(starts[0].teacher)
    system = regression_system(RULES[rule](rate), L_x, L_y)
    times = np.ceil(steps / points) * np.arange(points + 1)
    given = {"starts": starts, "key": key, "method": "direct", "dtype": "float64"}
    return ld.simulate(system, times, **given).isel(run=0)
