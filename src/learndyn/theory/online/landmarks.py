"""Errors at long times in closed form: of the classical rules, and of students that track."""

import math
from typing import Any

import numpy as np
import scipy

from learndyn.numerics.gaussian import Linear
from learndyn.problems.margins import AdaTronLoss, HebbianLoss, Hinge
from learndyn.theory.online.moving import tracking_error

UNITS = {
    "error_exponent": "of α in the classification error",
    "error_prefactor": "classification error · α^−exponent",
    "tracking_error": "error",
    "best_learning_rate": "learning rate",
    "best_tracking_error": "error",
}


def of(setting: Any) -> dict[str, float]:
    """The landmarks of a system; empty if none is known."""
    own = setting.committee
    single = own.student.units == own.teacher.units == 1
    plain = single and not own.biased and own.student.outputs is None and own.rule.decay is None
    plain = plain and own.student.train == ("inputs",) and isinstance(own.student.g, Linear)
    plain = plain and own.spectrum.levels == 1 and float(own.spectrum.values[0]) == 1
    if not plain or own.rule.scheduled or own.rule.inertia is not None:
        return {}
    return _classical(setting) if own.problem.drift is None else _tracking(setting)


def _classical(setting: Any) -> dict[str, float]:
    """The classification error c · α^exponent of a rule; derived in docs/theories/online.md."""
    own, criterion = setting.committee, setting.criterion
    if float(own.problem.label_noise) > 0 or own.rule.batch != 1:
        return {}
    rate = float(own.rule.learning_rate) * float(own.student.scale) ** 2
    if isinstance(criterion, HebbianLoss):
        exponent, prefactor = -1 / 2, 1 / math.sqrt(2 * math.pi)
    elif isinstance(criterion, Hinge) and float(criterion.margin) == 0:
        exponent, prefactor = -1 / 3, (2 / 3) ** (1 / 3) / math.pi
    elif isinstance(criterion, AdaTronLoss) and rate < 3:
        exponent, prefactor = -1.0, 3 / (3 * rate - rate**2)
    else:
        return {}
    return {"error_exponent": exponent, "error_prefactor": prefactor}


def _tracking(setting: Any) -> dict[str, float]:
    own = setting.committee
    linear = isinstance(own.teacher.g, Linear) and own.teacher.outputs is None
    unit = float(own.student.scale) == float(own.teacher.scale) == 1
    if setting.criterion is not None or not (linear and unit) or own.rule.batch is None:
        return {}
    error = lambda h: tracking_error(setting, h)
    largest = 2 * own.rule.batch  # where the noise of the examples diverges
    # On a logarithmic scale: the best rate of a slow teacher is small.
    grid = np.log(largest) + np.linspace(-20.0, 0.0, 401)[:-1]
    least = int(np.argmin(error(np.exp(grid))))
    here = {"tracking_error": float(error(own.h))} if own.h < largest else {}
    if least == 0:  # a teacher that is too fast or too noisy: not to learn is best
        return here
    found: Any = scipy.optimize.minimize_scalar(
        lambda s: error(np.exp(s)), bounds=(grid[least - 1], grid[least] + 0.05),
        method="bounded", options={"xatol": 1e-10},
    )  # fmt: skip
    best, rate = math.exp(found.x), 2 * float(own.problem.loss_scale)
    return here | {"best_learning_rate": best / rate, "best_tracking_error": float(found.fun)}
