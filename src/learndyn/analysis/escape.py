"""When a curve falls, and when it leaves its plateau."""

import warnings
from typing import Any

import numpy as np
import xarray as xr

from learndyn.analysis.arguments import variable_of
from learndyn.records import require_record
from learndyn.runtime.checks import between
from learndyn.runtime.types import Number

FLAT = 0.5  # largest slope of a plateau, on logarithmic axes over a factor of two in time
CONCAVE = 0.25  # share of its fall in ln y that a curve beginning on a plateau makes in half time
TINY = 1e-300


def fall_time(
    record: xr.Dataset, *, fraction: Number = 0.5, variable: str | None = None
) -> xr.DataArray:
    """The time at which a variable first falls to a fraction of its first value.

    Between two recorded times the logarithm of the variable is interpolated linearly.

    Args:
        record: a record whose first time is the reference.
        fraction: of the first value, between 0 and 1.
        variable: a positive variable with dimension time; None is `error`, or `loss` if there is
            no `error`. Missing values (NaN) are left out.

    Returns:
        The time, one per run; NaN if the curve does not fall that far.

    Raises:
        ValueError: for a fraction outside (0, 1), or a variable that the record does not have.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> system = ld.System(line, network, ld.GradientDescent(0.1))
        >>> record = ld.solve(system, range(51))
        >>> round(float(ld.analysis.fall_time(record, fraction=0.5)), 2)
        3.75
    """
    return _each(_fall, record, fraction, variable, "fall_time", "first")


def escape_time(
    record: xr.Dataset, *, fraction: Number = 0.5, variable: str | None = None
) -> xr.DataArray:
    """The time at which a variable falls to a fraction of its plateau.

    A curve may begin on its plateau: it bends down, so that in half of its `fall_time` its
    logarithm has fallen by less than a quarter of the way. Then, and for a curve without a plateau,
    its first value counts as the plateau's height, and the result is `fall_time`. Any other curve
    first falls onto its plateau: a factor of two in time over which it falls by less than √2, and
    which it leaves later for good. The flattest one counts, and the fall is measured from there.

    Between two recorded times the logarithm of the variable is interpolated linearly.

    Args:
        record: a record that begins at time 0.
        fraction: of the plateau's height, between 0 and 1.
        variable: a positive variable with dimension time; None is `error`, or `loss` if there is
            no `error`. Missing values (NaN) are left out.

    Returns:
        The time, one per run; NaN if the curve does not fall that far.

    Warns:
        UserWarning: if a curve has fallen and ends flat; only a longer record can tell whether
            that is a plateau.

    Raises:
        ValueError: for a fraction outside (0, 1), or a variable that the record does not have.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> system = ld.System(line, network, ld.GradientDescent(0.1))
        >>> record = ld.solve(system, range(51))
        >>> round(float(ld.analysis.escape_time(record)), 2)
        3.75
    """
    flat_ends: list[str] = []
    measure = lambda times, curve, part: _escape(times, curve, part, flat_ends)
    escapes = _each(measure, record, fraction, variable, "escape_time", "plateau of")
    if flat_ends:
        warnings.warn(f"escape_time: {flat_ends[0]}", stacklevel=2)
    return escapes


def _each(
    measure: Any, record: Any, fraction: Any, variable: Any, name: str, what: str
) -> xr.DataArray:
    part = float(between("fraction", fraction, 0, 1))
    curves = variable_of(require_record("record", record), variable)
    times = np.asarray(curves["time"].values, np.float64)

    def measured(curve: np.ndarray) -> float:
        known = ~np.isnan(curve)
        return measure(times[known], curve[known], part) if np.any(known) else float("nan")

    measurements = xr.apply_ufunc(
        measured, curves, input_core_dims=[["time"]], vectorize=True, keep_attrs=False
    )
    text = f"time at {fraction:g} of the {what} {curves.name}"
    return measurements.rename(name).assign_attrs(
        units=curves["time"].attrs.get("units", "1"), long_name=text
    )


def _fall(times: np.ndarray, curve: np.ndarray, fraction: float) -> float:
    return _crossing(times, curve, fraction * curve[0])


def _escape(times: np.ndarray, curve: np.ndarray, fraction: float, flat_ends: list[str]) -> float:
    fallen = _fall(times, curve, fraction)
    if np.isnan(fallen) or _begins_on_plateau(times, curve, fallen, fraction):
        return fallen
    begins, slopes, heights = _octaves(times, curve, fallen)
    flat = slopes >= -FLAT
    left = flat & (curve[-1] <= fraction * heights)
    if np.any(left):
        best = np.flatnonzero(left)[np.argmax(slopes[left])]
        later = times >= begins[best]
        return _crossing(times[later], curve[later], fraction * heights[best])
    if len(flat) and flat[-1]:
        flat_ends.append(
            f"a curve fell at time {fallen:.3g} and ends flat at {curve[-1]:.3g}; where that is a "
            "plateau, a longer record shows the escape from it"
        )
    return fallen


def _begins_on_plateau(times, curve, fallen: float, fraction: float) -> bool:
    half = _at(times, curve, (times[0] + fallen) / 2)
    return bool(half - _log(curve[0]) > CONCAVE * np.log(fraction))


def _octaves(times: np.ndarray, curve: np.ndarray, after: float):
    """Stretches (t, 2t) after a time: their starts, slopes on logarithmic axes and heights."""
    begins = times[(times >= after) & (times > 0) & (2 * times <= times[-1])]
    first, last = _at(times, curve, begins), _at(times, curve, 2 * begins)
    return begins, (last - first) / np.log(2), np.exp((first + last) / 2)


def _at(times: np.ndarray, curve: np.ndarray, when: Any) -> Any:
    """The logarithm of a curve, interpolated between recorded times."""
    return np.interp(when, times, _log(curve))


def _log(values: Any) -> Any:
    return np.log(np.maximum(values, TINY))


def _crossing(times: np.ndarray, curve: np.ndarray, level: float) -> float:
    below = np.flatnonzero(curve <= level)
    if not (len(below) and level > 0):
        return float("nan")
    i = below[0]
    if i == 0:
        return float(times[0])
    a, b = np.log(curve[i - 1] / level), np.log(max(curve[i], TINY) / level)
    return float(times[i - 1] + (times[i] - times[i - 1]) * a / (a - b))
