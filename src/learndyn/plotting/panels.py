"""Figures with axes in rows."""

import string

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg

from learndyn.plotting.style import StyledFigure, style

COLUMNS = 4  # largest number of axes in a row: more are too small to read


def panels(count: int, *, columns: int = 2, size: tuple[float, float] = (4.6, 3.4)):
    """A figure with `count` axes, laid out in rows of `columns`, each with a letter.

    Args:
        count: number of axes.
        columns: number of axes per row, at most four.
        size: width and height of an axis, in inches.

    Returns:
        The figure and the list of axes.
    """
    columns = min(columns, count, COLUMNS)
    rows = -(-count // columns)
    with style():
        figure = StyledFigure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
        for spare in axes[count:]:
            spare.remove()
        for axis in axes[:count]:
            axis.grid()
        if count > 1:
            for axis, letter in zip(axes[:count], string.ascii_lowercase, strict=False):
                _letter(axis, letter)
    return figure, axes[:count]


def _letter(axis: Axes, letter: str) -> None:
    # Left of the axes, over the tick labels, where no title is.
    place = {"xytext": (-22, 5), "textcoords": "offset points", "annotation_clip": False}
    axis.annotate(letter, (0, 1), xycoords="axes fraction", weight="bold", **place)
