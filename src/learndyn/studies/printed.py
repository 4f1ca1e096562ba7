"""Tables of misprints: the published, the corrected and the measured value of each equation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels


class Row(NamedTuple):
    """One equation: what was measured and how, with the error of the measurement."""

    equation: str
    what: str
    how: str
    measured: float
    error: float
    corrected: float
    printed: float


def table(rows: Sequence[Any]) -> xr.Dataset:
    """Converts rows to a dataset.

    Args:
        rows: `Row`s, or your own named tuples whose first field names the row.

    Returns:
        One variable per field over the coordinate `row`; fields of type float hold floats.
    """
    kind, first = type(rows[0]), rows[0]._fields[0]
    columns = {
        name: ("row", [float(x) if kind.__annotations__[name] is float else x for x in values])
        for name, values in zip(kind._fields, zip(*rows, strict=True), strict=True)
    }
    return xr.Dataset(columns, {"row": columns.pop(first)[1]})


def rows_figure(data: xr.Dataset, labels: Sequence[str], height: float) -> tuple[Figure, Axes, Any]:
    """Makes a figure with one line per row; call `finish` after drawing.

    Args:
        data: a dataset with the dimension `row`.
        labels: one per row.
        height: of one row, in inches.

    Returns:
        The figure, its axis, and the positions of the rows on it.
    """
    figure, (axis,) = panels(1, size=(7.0, height * data.sizes["row"] + 1.2))
    place = np.arange(data.sizes["row"])
    axis.set_yticks(place, labels)
    axis.grid(axis="y", visible=False)
    return figure, axis, place


def finish(axis: Axes, columns: int) -> None:
    """Puts the first row at the top, and the legend above it."""
    axis.invert_yaxis()
    legend(axis, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)
