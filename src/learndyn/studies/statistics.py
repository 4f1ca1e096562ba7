"""Bounds that chance allows."""

import math

import xarray as xr
from scipy import stats


def student_bound(count: int, entries: int = 1, level: float = 0.01, *, sides: int = 2) -> float:
    """How far a mean strays from its expectation, in standard errors, by Student's t.

    Args:
        count: independent values; the error is estimated from them.
        entries: numbers looked at, whose largest is bounded (Bonferroni).
        level: chance that one of them lies beyond the bound.
        sides: 2 for the distance, 1 for one direction.

    Returns:
        The bound.
    """
    return float(stats.t(count - 1).ppf(1 - level / (sides * entries)))


def mean_bound(values: xr.DataArray, over: str, level: float = 0.01) -> float:
    """How far the mean of independent values may be from its expectation, by Student's t.

    Args:
        values: with one dimension.
        over: its name.
        level: chance that the mean lies beyond the bound.

    Returns:
        The bound, in the units of the values.
    """
    count = values.sizes[over]
    error = float(values.std(over, ddof=1)) / math.sqrt(count)
    return student_bound(count, level=level) * error


def clopper_pearson(held: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval of a probability, of which so many of so many draws were seen.

    Args:
        held: draws that held.
        count: all draws.
        level: least probability with which the interval covers the truth.

    Returns:
        Its ends.
    """
    found = stats.binomtest(held, count).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)
