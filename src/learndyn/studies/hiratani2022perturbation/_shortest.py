"""The shortest training time over learning rates, and the rate at which it is reached."""

from typing import Any, NamedTuple

import numpy as np

import learndyn as ld
from learndyn.analysis import escape_time, fit_minimum
from learndyn.studies.claims import Tolerance
from learndyn.studies.hiratani2022perturbation._model import linear_system, mean_start
from learndyn.studies.statistics import LEVEL, jackknife, student_bound


def recursion_time(
    rule: Any, order: str, end: float, points: int, target: float, **sizes: int
) -> float:
    """Steps until the recursion's error has fallen to the target; NaN where it does not."""
    system = linear_system(rule, **sizes)
    begin, times = ld.start(system, state=mean_start(**sizes)), np.linspace(0, end, points)
    record = ld.solve(system, times, start=begin, order=order)
    return escape_time(record, fraction=target, variable="epsilon").item()


def network_times(
    rule: Any, end: float, points: int, target: float, sizes: dict[str, int], **options: Any
) -> np.ndarray:
    """Steps until each network's error has fallen to the target; NaN where it does not."""
    times = np.linspace(0, end, points)
    record = ld.simulate(linear_system(rule, **sizes), times, **options)
    return escape_time(record, fraction=target, variable="epsilon").values[:, 0]


class Fastest(NamedTuple):
    """The rate at which training is shortest, and how long it takes there."""

    rate: float
    time: float


def fastest(rates: np.ndarray, times: np.ndarray) -> Fastest:
    """The lowest point of the curve of mean times against the rate.

    As in the paper, times are averaged over seeds first; a rate at which one of them does not
    reach the target is left out. Where fewer than three are left it is the lowest sample.

    Args:
        rates: increasing.
        times: (rates, seeds); NaN where the target was not reached.

    Returns:
        The minimum.
    """
    means = times.mean(axis=1)
    if np.isfinite(means).sum() < 3:
        lowest = int(np.nanargmin(means))
        return Fastest(float(rates[lowest]), float(means[lowest]))
    return Fastest(*fit_minimum(rates, means))


def fastest_with_bounds(rates: np.ndarray, times: np.ndarray) -> tuple[Fastest, Fastest]:
    """The minimum, and by how much chance may move its rate and its time."""
    of = lambda times: np.array(fastest(rates, times))
    bounds = student_bound(times.shape[1]) * jackknife(times, of)
    return Fastest(*of(times)), Fastest(*bounds)


def jackknife_tolerance(value: float, count: int) -> Tolerance:
    """A tolerance whose part due to chance comes from leaving out one of so many seeds."""
    because = f"Student's t with the error of the jackknife, {count} seeds, {100 * LEVEL:g} %"
    return Tolerance(value, because, 1 - LEVEL)
