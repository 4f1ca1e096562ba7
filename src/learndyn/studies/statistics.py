"""Bounds that chance allows."""

import math
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import stats


def student_bound(
    count: float | int, entries: int = 1, level: float = 0.01, *, sides: int = 2
) -> float:
    """How far a mean strays from its expectation, in standard errors, by Student's t.

    Args:
        count: independent values, from which the error is estimated; infinite where it is known.
        entries: numbers looked at, whose largest is bounded (Bonferroni).
        level: chance that one of them lies beyond the bound.
        sides: 2 for the distance, 1 for one direction.

    Returns:
        The bound.
    """
    law = stats.t(count - 1) if np.isfinite(count) else stats.norm()
    return float(law.ppf(1 - level / (sides * entries)))


def mean_square_bound(count: int, level: float = 0.01) -> float:
    """How far the mean square of normal numbers strays from its expectation, relative (χ²).

    Args:
        count: independent numbers.
        level: chance that the mean square lies beyond the bound.

    Returns:
        The bound, of the side that strays farther.
    """
    ends = stats.chi2(count).ppf([level / 2, 1 - level / 2])
    return float(max(np.abs(ends / count - 1)))


def spread_exponent_error(sizes, count: int) -> float:
    """The standard error of an exponent x, fitted to spreads ∝ size^x over so many runs each.

    The logarithm of a spread over R runs has the standard error 1/√(2 (R − 1)).

    Args:
        sizes: at which spreads were measured.
        count: runs a size.

    Returns:
        The error.
    """
    log = np.log(sizes)
    return float(1 / np.sqrt(2 * (count - 1)) / np.sqrt(np.sum((log - log.mean()) ** 2)))


class RankSlope(NamedTuple):
    """The median slope between pairs of points, and its interval."""

    slope: float
    low: float
    high: float


def rank_slope(x, y, level: float = 0.01) -> RankSlope:
    """The slope of y in x that no single point carries, by ranks (Theil, Sen, Kendall).

    Args:
        x: numbers, which may repeat.
        y: numbers, as many.
        level: chance that the interval misses the slope.

    Returns:
        The median of the slopes of all pairs with different x, and the interval.
    """
    found: Any = stats.theilslopes(np.asarray(y), np.asarray(x), 1 - level)
    return RankSlope(float(found[0]), float(found[2]), float(found[3]))


def normal_bound(level: float = 0.01) -> float:
    """How far a normal number strays from its mean, in standard deviations, on either side."""
    return float(stats.norm.ppf(1 - level / 2))


def sign_bound(count: int, level: float = 0.01) -> float:
    """The least share of successes that a fair coin has in `count` throws with a chance `level`."""
    return float(stats.binom(count, 0.5).ppf(1 - level) + 1) / count


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


class Median(NamedTuple):
    """A median, and its interval."""

    value: float
    low: float
    high: float


def median_interval(values, level: float = 0.01) -> Median:
    """The median of independent values of any law, with the interval between two of them.

    Args:
        values: numbers; infinite where all that is known is that they are larger.
        level: chance that the interval misses the law's median.

    Returns:
        The median, and the interval, without ends where there are too few values for it.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    beyond = int(stats.binom(len(ordered), 0.5).ppf(level / 2))
    if not beyond:
        return Median(float(np.median(ordered)), -np.inf, np.inf)
    return Median(float(np.median(ordered)), *map(float, ordered[[beyond - 1, -beyond]]))


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


def correlation_bound(count: int, given: int = 0, level: float = 0.01) -> float:
    """The correlation that independent normal numbers exceed with the chance `level`, one-sided.

    Args:
        count: pairs.
        given: numbers that were held fixed, where the correlation is partial.
        level: the chance.

    Returns:
        The bound.
    """
    freedom = count - 2 - given
    t = float(stats.t(freedom).ppf(1 - level))
    return t / math.sqrt(t**2 + freedom)
