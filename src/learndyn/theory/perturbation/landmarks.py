"""Predicted landmarks of two linear layers: critical and optimal rates, and training times."""

import numpy as np

from learndyn.theory.perturbation import fixed_beta, sgd, wide
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces

UNITS = {
    "critical_learning_rate": "learning rate",
    "optimal_learning_rate": "learning rate",
    "minimal_time": "steps",
    "training_time": "steps",
    "finite_training_time": "steps",
}


def node_perturbation(
    of: PerturbationSetting, start: Traces, target: float, per_rate: float
) -> dict[str, float]:
    """Landmarks of node perturbation in the wide limit (Eqs. 80-85).

    Args:
        of: the setting.
        start: the initial traces.
        target: the error to reach, relative to the initial one.
        per_rate: η divided by the rule's learning rate.

    Returns:
        `critical_learning_rate` (Eq. 83, always without label noise). If there is no label noise,
        also `optimal_learning_rate`, at which the time of Eq. 80 is shortest; `minimal_time`, that
        number of steps; `training_time`, the steps at the rule's own rate, infinite above the
        critical one; and `finite_training_time`, the same without the limit of wide layers.
    """
    a, epsilon, c_o = map(float, wide.reduced(of, start))
    aim = target * epsilon
    edge = wide.critical(a, epsilon, aim)
    rate = lambda c: float(wide.learning_rate(of, start.beta, c)) / per_rate
    critical = {"critical_learning_rate": rate(edge)}
    if of.sigma_t2 > 0:
        return critical
    best, steps = wide.fastest(of, start, aim)
    time = wide.training_time(of, start, aim, c_o) if c_o < edge else np.inf
    return critical | {
        "optimal_learning_rate": rate(best),
        "minimal_time": steps,
        "training_time": float(time),
        "finite_training_time": fixed_beta.training_time(of, start, target),
    }


def of_sgd(
    of: PerturbationSetting, start: Traces, target: float, per_rate: float
) -> dict[str, float]:
    """Landmarks of SGD if the norms stay constant (Eqs. 95, 96); arguments as above."""
    args = of.L_x, start.alpha, start.beta
    critical = {"critical_learning_rate": float(sgd.critical_learning_rate(*args)) / per_rate}
    if of.sigma_t2 > 0:
        return critical
    factor = float(sgd.error_factor(of, start.alpha, start.beta))
    return critical | {
        "optimal_learning_rate": float(sgd.optimal_learning_rate(*args)) / per_rate,
        "minimal_time": float(sgd.minimal_time(of.L_x, target)),
        "training_time": float(np.log(target) / np.log(factor)) if 0 < factor < 1 else np.inf,
    }
