"""Confidence intervals of what claims are about: `sentence.at_most(intervals.of_mean(values), 0)`.

How a claim about an interval is judged is said in `claims`. Each end is passed with probability
`level`, so that a claim that is false holds, and a claim that is true fails, at most that often.
"""

import math
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy import stats

from learndyn.studies.claims import Interval
from learndyn.studies.statistics import (
    LEVEL,
    clopper_pearson,
    median_interval,
    student_interval,
)

Which = Literal["largest", "least", "farthest"]


def of_mean(
    values: Any,
    what: str = "runs",
    *,
    over: str = "",
    which: Which = "largest",
    level: float = LEVEL,
) -> Interval:
    """Student's interval of a mean, or of the largest of several means.

    Args:
        values: independent along one dimension; a NaN, as of a run that never arrives, makes the
            interval NaN, and the claim fail.
        what: what the values along that dimension are, for the reason.
        over: name of that dimension; the first, unless it is given.
        which: of the means along the other dimensions, the "largest", the "least", or the
            "farthest" from 0, whose size is returned.
        level: probability that the expectation is beyond a given end.

    Returns:
        The interval. Those of several means hold together (Bonferroni), so that it contains the
        largest (least, farthest) of the expectations.
    """
    values = xr.DataArray(values).astype(np.float64)
    over = over or str(values.dims[0])
    count = values.sizes[over]
    entries = values.size // count
    ends = student_interval(values, over, entries=entries, level=level, sides=1)
    value, low, high = (np.ravel(each) for each in (values.mean(over, skipna=False), *ends))
    if which == "farthest":
        nearest = np.maximum(np.maximum(low, -high), 0.0)  # 0 if the interval contains 0
        value, low, high = np.abs(value), nearest, np.maximum(-low, high)
    rows = np.array([value, low, high]) + 0 * value.sum()  # a NaN makes all of them NaN
    several = f", {entries} entries together" if entries > 1 else ""
    chosen = rows.min(axis=1) if which == "least" else rows.max(axis=1)
    return _interval(chosen, f"Student's t, {count} {what}{several}", level)


def of_median(values: Any, what: str = "runs", level: float = LEVEL) -> Interval:
    """The interval of a median by order statistics; infinite if there are too few values."""
    ends = median_interval(values, 2 * level)
    return _interval(ends, f"order statistics, {np.size(values)} {what}", level)


def of_share(held: Any, what: str = "runs", level: float = LEVEL) -> Interval:
    """The exact interval of the share of independent runs that do something.

    Args:
        held: whether each run does.
        what: what the runs are, for the reason.
        level: probability that the true share is beyond a given end.

    Returns:
        The interval (Clopper and Pearson).
    """
    held = np.asarray(held, bool).ravel()
    ends = clopper_pearson(int(held.sum()), held.size, 1 - 2 * level)
    return _interval((held.mean(), *ends), f"Clopper and Pearson, {held.size} {what}", level)


def of_correlation(
    value: float, count: int, what: str = "pairs", *, given: int = 0, level: float = LEVEL
) -> Interval:
    """The interval of a correlation of normal numbers (Fisher's z).

    Args:
        value: the correlation.
        count: number of pairs.
        what: what the pairs are, for the reason.
        given: number of variables that are held fixed, for a partial correlation.
        level: probability that the true correlation is beyond a given end.

    Returns:
        The interval; from −1 to 1 if there are too few pairs.
    """
    because, freedom = f"Fisher's z, {count} {what}", count - 3 - given
    if freedom < 1:
        return _interval((value, -1.0, 1.0), because, level)
    z, half = np.arctanh(value), stats.norm.ppf(1 - level) / math.sqrt(freedom)
    return _interval((value, np.tanh(z - half), np.tanh(z + half)), because, level)


def _interval(numbers: Any, how: str, level: float) -> Interval:
    value, low, high = map(float, numbers)
    return Interval(value, low, high, f"interval by {how}, {100 * level:g} % at each end")
