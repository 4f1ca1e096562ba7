"""Checks of arguments of analyses: variables of records, curves as pairs of lists, windows."""

from typing import Any

import numpy as np
import xarray as xr

from learndyn.runtime.checks import number, numbers, shown

LOSSES = ("error", "loss")  # the default variables: the first that a record has


def variable_of(record: xr.Dataset, variable: Any) -> xr.DataArray:
    """A variable of a record that depends on time; raises a ValueError that lists the allowed ones.

    Args:
        record: the record.
        variable: its name; None is `error`, or `loss` if there is no `error`.

    Returns:
        The variable.
    """
    timed = [str(n) for n, v in record.data_vars.items() if _is_curve(v)]
    if variable is None:
        variable = next((name for name in LOSSES if name in timed), None)
    if not isinstance(variable, str) or variable not in timed:
        allowed = f"one of {', '.join(timed)}" if timed else "none: the record has no curves"
        raise ValueError(f"variable: got {shown(variable)}; allowed is {allowed}")
    return record[variable]


def points(name: str, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two lists of numbers of equal length, or a ValueError; the first argument is `name`."""
    first, second = numbers(name, x, 1), numbers("y", y, 1)
    if len(first) != len(second):
        came = f"{len(second)} numbers beside {len(first)} of {name}"
        raise ValueError(f"y: got {came}; allowed is one for each")
    return first, second


def require_positive(name: str, values: np.ndarray) -> np.ndarray:
    """Returns the values, or raises a ValueError for the first that is not positive."""
    if np.any(values <= 0):
        raise ValueError(f"{name}: got {values[values <= 0][0]:g}; allowed are positive numbers")
    return values


def window_of(window: Any) -> tuple[float, float]:
    """The ends of a window, which may be infinite, or a ValueError."""
    listed = isinstance(window, tuple | list) or (isinstance(window, np.ndarray) and window.ndim)
    if not listed or len(window) != 2:
        raise ValueError(f"window: got {shown(window)}; allowed is a pair (low, high) or None")
    low, high = (_end(end) for end in window)
    if not low < high:
        raise ValueError(f"window: got {low:g} before {high:g}; allowed is low < high")
    return low, high


def _end(end: Any) -> float:
    if isinstance(end, float | np.floating) and np.isinf(end):
        return float(end)
    return float(number("window", end, "a pair of numbers (low, high)"))


def _is_curve(values: xr.DataArray) -> bool:
    return "time" in values.dims and values.dtype.kind in "fiu"
