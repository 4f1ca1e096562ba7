"""Plateaus: where a curve is flat for a while."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from learndyn.analysis.arguments import variable_of
from learndyn.records import require_record
from learndyn.runtime.checks import positive
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Number


@shown_as_table
class Plateau(NamedTuple):
    """The longest flat stretch of a curve; all NaN if there is none.

    Attributes:
        start: the first time on it.
        end: the last time on it.
        height: the curve's value where it is flattest.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import learndyn as ld
        >>> time = np.linspace(0, 20, 201)
        >>> curve = 1.0 + np.exp(-5 * time) - 0.9 / (1 + np.exp(-5 * (time - 12)))
        >>> record = xr.Dataset({"error": ("time", curve)}, {"time": time})
        >>> plateau = ld.analysis.find_plateau(record)
        >>> plateau.start < 3 and plateau.end > 9, round(float(plateau.height), 3)
        (True, 1.0)
    """

    start: float
    end: float
    height: float

    @property
    def length(self) -> float:
        """Its duration."""
        return self.end - self.start

    def _shown(self) -> Shown:
        names = ("start", "end", "length", "height")
        return Shown("Plateau", [(name, float(getattr(self, name))) for name in names])


def find_plateau(
    record: xr.Dataset,
    *,
    variable: str | None = None,
    flatness: Number = 0.1,
    span: Number = 2.0,
) -> Plateau:
    """The plateau of a curve: where |d ln variable / d ln time| stays below `flatness`.

    Slopes are taken between recorded times, without time 0 and values that are not positive. Of
    several flat stretches the longest on a logarithmic time axis counts; it may extend to the end
    of the record.

    Args:
        record: a record; if it has several runs, their mean is taken.
        variable: a positive variable with no dimensions other than time and run; None is `error`,
            or `loss` if there is no `error`.
        flatness: the largest slope on logarithmic axes.
        span: the smallest ratio of the plateau's end to its start.

    Returns:
        The plateau.

    Raises:
        ValueError: for a variable with other dimensions.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> system = ld.System(line, network, ld.GradientDescent(0.1))
        >>> start = ld.start(system, state=ld.Modes([[1e-3, 1e-3]]))
        >>> plateau = ld.analysis.find_plateau(ld.solve(system, range(51), start=start))
        >>> round(plateau.height, 2), plateau.end
        (2.0, 25.0)
    """
    flatness, span = float(positive("flatness", flatness)), float(positive("span", span))
    curve = variable_of(require_record("record", record), variable)
    curve = curve.mean("run") if "run" in curve.dims else curve
    if curve.dims != ("time",):
        raise ValueError(f"variable: got {curve.name!r} with {curve.dims}; allowed is ('time',)")
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
