"""The shortest training time over learning rates, and the rate at which it is reached."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from learndyn.analysis import fit_minimum


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


def jackknife(times: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Standard errors of what is computed of several seeds, leaving out one seed after the other.

    Args:
        times: with the seeds as last axis.
        statistic: of such an array, with any number of seeds.

    Returns:
        The errors, in the shape of the statistic.
    """
    count = times.shape[-1]
    without = [statistic(np.delete(times, i, axis=-1)) for i in range(count)]
    return np.sqrt(count - 1) * np.std(without, axis=0)
