"""Statistical bounds and intervals, as numbers and as tolerances with a reason."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from learndyn.studies.claims import Tolerance

LEVEL = 0.01  # probability that a true claim about random runs fails by chance


def student_bound(
    count: float | int, entries: int = 1, level: float = LEVEL, *, sides: int = 2
) -> float:
    """A bound on the deviation of a mean from its expectation, in standard errors (Student's t).

    Args:
        count: number of independent values from which the standard error is estimated; infinite
            if the error is known.
        entries: number of means that are tested together (Bonferroni).
        level: probability that any of them exceeds the bound.
        sides: 2 for the absolute deviation, 1 for one direction.

    Returns:
        The bound.
    """
    distribution = stats.t(count - 1) if np.isfinite(count) else stats.norm()
    return float(distribution.ppf(1 - level / (sides * entries)))


def student_tolerance(
    error: Any,
    count: int,
    what: str = "runs",
    *,
    entries: int = 1,
    level: float = LEVEL,
    sides: int = 2,
) -> Tolerance:
    """A tolerance for the deviation of a mean from its expectation, by Student's t.

    Args:
        error: the standard error; 0 if `measured` is already an end of an interval, so that the
            tolerance only states the reason.
        count: number of independent values from which the standard error is estimated.
        what: what these values are, for the reason.
        entries: number of means that are tested together (Bonferroni).
        level: probability that any of them exceeds the bound.
        sides: 2 for the absolute deviation, 1 for one direction.

    Returns:
        The tolerance, which promises that the claim holds with probability 1 − level.
    """
    several = f", {entries} entries together" if entries > 1 else ""
    side = ", one-sided" if sides == 1 else ""
    because = f"Student's t, {count} {what}{several}, {100 * level:g} %{side}"
    value = student_bound(count, entries, level, sides=sides) * float(error)
    return Tolerance(value, because, 1 - level)


def mean_tolerance(values: Any, what: str = "runs", **options: Any) -> Tolerance:
    """`student_tolerance` of the mean of independent values, an array with one dimension."""
    values = xr.DataArray(values)
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return student_tolerance(error, values.size, what, **options)


def student_interval(
    values: xr.DataArray, over: str, *, entries: int = 1, level: float = LEVEL, sides: int = 2
) -> tuple[xr.DataArray, xr.DataArray]:
    """Student's confidence interval of a mean.

    Args:
        values: independent along one dimension.
        over: name of that dimension.
        entries: number of means that are tested together (Bonferroni).
        level: probability that the expectation is outside; with `sides=1`, beyond a given end.
        sides: 2 for the interval, 1 if only one of its ends is used.

    Returns:
        The lower and the upper end.
    """
    count, mean = values.sizes[over], values.mean(over)
    bound = student_bound(count, entries, level, sides=sides)
    half = bound * values.std(over, ddof=1) / math.sqrt(count)
    return mean - half, mean + half


def slopes(values: xr.DataArray, over: str, at: Any) -> xr.DataArray:
    """Least-squares slopes along one dimension, one per entry of the others, such as seeds.

    Args:
        values: to which lines are fitted; a NaN makes the slope NaN.
        over: name of the dimension.
        at: the positions along that dimension.

    Returns:
        The slopes, without that dimension.
    """
    at = np.asarray(at, np.float64)
    weight = xr.DataArray((at - at.mean()) / np.sum((at - at.mean()) ** 2), dims=over)
    return (values * weight).sum(over, skipna=False)


def exponents(values: xr.DataArray, over: str) -> xr.DataArray:
    """The exponents x of values ∝ size^x, by least squares on logarithms; see `slopes`.

    Args:
        values: positive, with a coordinate of sizes.
        over: name of that coordinate.

    Returns:
        The exponents, without that dimension.
    """
    log = xr.ufuncs.log(values.astype(np.float64))
    return slopes(log, over, np.log(values[over].values.astype(np.float64)))


def jackknife(values: np.ndarray, statistic: Callable[[np.ndarray], Any]) -> np.ndarray:
    """The standard error of a statistic of several seeds, by leaving out one seed at a time.

    Args:
        values: an array with seeds along the last axis.
        statistic: a function of such an array, with any number of seeds.

    Returns:
        The errors, in the shape of the statistic.
    """
    count = values.shape[-1]
    without = [statistic(np.delete(values, i, axis=-1)) for i in range(count)]
    return np.sqrt(count - 1) * np.std(without, axis=0)


def log_rank(first: np.ndarray, second: np.ndarray, end: float) -> float:
    """The log-rank statistic of two samples of times; standard normal if they are alike.

    Args:
        first: times of events; NaN if there was none before the end.
        second: times of the other sample.
        end: time at which the observation ended; missing times are censored there.

    Returns:
        The statistic, positive if the events of the first sample are earlier.
    """
    censored = [
        stats.CensoredData.right_censored(np.where(np.isnan(times), end, times), np.isnan(times))
        for times in (first, second)
    ]
    test: Any = stats.logrank(*censored, alternative="greater")
    return float(test.statistic)


def mean_square_bound(count: int, level: float = LEVEL) -> float:
    """A bound on the relative deviation of the mean square of normal numbers (χ²).

    Args:
        count: number of independent numbers.
        level: probability that the mean square is outside the χ² interval.

    Returns:
        The larger of the deviations at the two ends of the interval.
    """
    ends = stats.chi2(count).ppf([level / 2, 1 - level / 2])
    return float(max(np.abs(ends / count - 1)))


def spread_exponent_error(sizes, count: int) -> float:
    """The standard error of an exponent x that is fitted to standard deviations ∝ size^x.

    The logarithm of a standard deviation over R runs has the standard error 1/√(2 (R − 1)).

    Args:
        sizes: at which standard deviations were measured.
        count: number of runs per size.

    Returns:
        The error.
    """
    log = np.log(sizes)
    return float(1 / np.sqrt(2 * (count - 1)) / np.sqrt(np.sum((log - log.mean()) ** 2)))


class RankSlope(NamedTuple):
    """The median slope between pairs of points, and its confidence interval."""

    slope: float
    low: float
    high: float


def rank_slope(x, y, level: float = LEVEL) -> RankSlope:
    """The slope of y against x by ranks (Theil, Sen, Kendall), which is robust to outliers.

    Args:
        x: numbers, which may repeat.
        y: as many numbers.
        level: probability that the interval misses the slope.

    Returns:
        The median of the slopes of all pairs with different x, and the interval.
    """
    fit: Any = stats.theilslopes(np.asarray(y), np.asarray(x), 1 - level)
    return RankSlope(float(fit.slope), float(fit.low_slope), float(fit.high_slope))


def normal_bound(level: float = LEVEL) -> float:
    """The two-sided bound on the deviation of a normal number, in standard deviations."""
    return float(stats.norm.ppf(1 - level / 2))


def sign_bound(count: int, level: float = LEVEL) -> float:
    """The share of heads that a fair coin reaches in `count` throws with probability ≤ `level`."""
    return float(stats.binom(count, 0.5).ppf(1 - level) + 1) / count


def mean_bound(values: xr.DataArray, over: str, level: float = LEVEL) -> float:
    """A bound on the deviation of the mean of independent values, by Student's t.

    Args:
        values: an array with one dimension.
        over: name of that dimension.
        level: probability that the mean exceeds the bound.

    Returns:
        The bound, in the units of the values.
    """
    count = values.sizes[over]
    error = float(values.std(over, ddof=1)) / math.sqrt(count)
    return student_bound(count, level=level) * error


class Median(NamedTuple):
    """A median, and its confidence interval."""

    value: float
    low: float
    high: float


def median_interval(values, level: float = LEVEL) -> Median:
    """The median of independent values of any distribution, with an interval by order statistics.

    Args:
        values: numbers; infinite if they are only known to be larger than all others.
        level: probability that the interval misses the true median.

    Returns:
        The median, and the interval, which is infinite if there are too few values.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    # The number of values below the true median is binomial with probability 1/2. So the median is
    # between the k-th smallest and the k-th largest value except with the probability of its tails.
    beyond = int(stats.binom(len(ordered), 0.5).ppf(level / 2))
    if not beyond:
        return Median(float(np.median(ordered)), -np.inf, np.inf)
    return Median(float(np.median(ordered)), *map(float, ordered[[beyond - 1, -beyond]]))


def median_exponent(sizes: Any, rows: Any, level: float = LEVEL) -> Median:
    """The exponent of medians between the first and the last size, with its interval.

    Args:
        sizes: at least two.
        rows: independent positive values for each size; infinite if they are only known to be
            larger than all others.
        level: probability that the interval misses the exponent of the true medians.

    Returns:
        The exponent, and the interval.
    """
    # Half the level for each of the two medians: then both intervals hold, except with `level`.
    first, last = (np.log(median_interval(row, level / 2)) for row in (rows[0], rows[-1]))
    # Lower end minus upper end is the lowest difference, and the other way round.
    ends = (last - first[[0, 2, 1]]) / np.log(sizes[-1] / sizes[0])
    return Median(*(float(each) for each in ends))


def clopper_pearson(held: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """The exact confidence interval of a probability (Clopper and Pearson).

    Args:
        held: number of successes.
        count: number of trials.
        level: the interval contains the true probability at least this often.

    Returns:
        Its ends.
    """
    interval = stats.binomtest(held, count).proportion_ci(level, method="exact")
    return float(interval.low), float(interval.high)


def correlation_bound(count: int, given: int = 0, level: float = LEVEL) -> float:
    """The correlation that independent normal numbers exceed with probability `level`, one-sided.

    Args:
        count: number of pairs.
        given: number of variables that are held fixed, for a partial correlation.
        level: the probability.

    Returns:
        The bound.
    """
    freedom = count - 2 - given
    t = float(stats.t(freedom).ppf(1 - level))
    return t / math.sqrt(t**2 + freedom)
