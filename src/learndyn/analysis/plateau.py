"""Where a curve stands still before it goes on."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from learndyn.analysis.given import record_of, variable_of
from learndyn.numerics.checks import positive
from learndyn.numerics.types import Number


class Plateau(NamedTuple):
    """The longest flat stretch of a curve; NaN everywhere where there is none.

    Attributes:
        start: the first time on it.
        end: the last time on it.
        height: the curve's value where it is flattest.
    """

    start: float
    end: float
    height: float

    @property
    def length(self) -> float:
        """How long it lasts."""
        return self.end - self.start


def find_plateau(
    record: xr.Dataset,
    *,
    variable: str = "error",
    flatness: Number = 0.1,
    span: Number = 2.0,
) -> Plateau:
    """The plateau of a curve: where |d ln variable / d ln time| stays below `flatness`.

    Slopes are read between recorded times; times 0 and values that are not positive are
    left out. Of several flat stretches the one that is longest on a logarithmic time axis
    counts; the last point of the record may end it.

    Args:
        record: a record; where it has runs their mean is taken.
        variable: a positive variable with dimension time and no other but run.
        flatness: the largest slope on logarithmic axes.
        span: the least ratio of the plateau's end to its start.

    Returns:
        The plateau.

    Raises:
        ValueError: for a variable with other dimensions.
    """
    flatness, span = float(positive("flatness", flatness)), float(positive("span", span))
    curve = variable_of(record_of("record", record), variable)
    curve = curve.mean("run") if "run" in curve.dims else curve
    if curve.dims != ("time",):
        raise ValueError(f"variable: got {variable!r} with {curve.dims}; allowed is ('time',)")
    times, values = curve["time"].values, curve.values
    keep = (times > 0) & (values > 0)
    times, values = times[keep], values[keep]
    steep = np.abs(np.diff(np.log(values)) / np.diff(np.log(times)))
    stretches = [s for s in _runs(steep <= flatness) if times[s[1]] >= span * times[s[0]]]
    if not stretches:
        return Plateau(float("nan"), float("nan"), float("nan"))
    first, last = max(stretches, key=lambda s: times[s[1]] / times[s[0]])
    flattest = first + int(np.argmin(steep[first:last]))
    height = float(np.sqrt(values[flattest] * values[flattest + 1]))
    return Plateau(float(times[first]), float(times[last]), height)


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, last + 1) of every stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
