"""When a curve leaves its plateau."""

import numpy as np
import xarray as xr

from learndyn.numerics.types import Number


def escape_time(
    record: xr.Dataset, *, fraction: Number = 0.5, variable: str = "error"
) -> xr.DataArray:
    """The time at which a variable first falls to a fraction of its first value.

    Between two recorded times the logarithm of the variable is interpolated linearly.

    Args:
        record: a record whose first time is the reference.
        fraction: of the first value, between 0 and 1.
        variable: a positive variable with dimension time.

    Returns:
        The time, one for each run; NaN where the curve does not get there.

    Raises:
        ValueError: for a fraction outside (0, 1).
    """
    if not 0 < float(fraction) < 1:
        raise ValueError(f"fraction: got {fraction!r}; allowed is a number between 0 and 1")
    times = record["time"].values
    found = xr.apply_ufunc(
        lambda curve: _crossing(times, curve, fraction),
        record[variable],
        input_core_dims=[["time"]],
        vectorize=True,
    )
    return found.assign_attrs(long_name=f"time at {fraction:g} of the first {variable}")


def _crossing(times: np.ndarray, curve: np.ndarray, fraction: Number) -> float:
    level = fraction * curve[0]
    below = np.flatnonzero(curve <= level)
    if not len(below):
        return float("nan")
    i = below[0]
    a, b = np.log(curve[i - 1] / level), np.log(max(curve[i], 1e-300) / level)
    return float(times[i - 1] + (times[i] - times[i - 1]) * a / (a - b))
