"""Figures with axes in rows."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def panels(count: int, *, columns: int = 2, size: tuple[float, float] = (4.6, 3.4)):
    """A figure with `count` axes, laid out in rows of `columns`.

    Args:
        count: number of axes.
        columns: number of axes per row.
        size: width and height of an axis, in inches.

    Returns:
        The figure and the list of axes.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[count:]:
        spare.remove()
    for axis in axes[:count]:
        axis.grid(alpha=0.25, linewidth=0.5)
    return figure, list(axes[:count])
