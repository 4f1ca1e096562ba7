"""Figures with axes in rows."""

import re
import string

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation

from learndyn.plotting.style import StyledFigure, style

COLUMNS = 4  # largest number of axes in a row: more are too small to read
# Titles that are or begin with a letter of their own: on the left, and centred.
OWN = re.compile(r"[A-Za-z](?!\S)"), re.compile(r"[A-Z](,|$)")


def panels(count: int, *, columns: int = 2, size: tuple[float, float] = (4.6, 3.4)):
    """A figure with `count` axes, laid out in rows of `columns`, each with a letter.

    Args:
        count: number of axes.
        columns: number of axes per row, at most four.
        size: width and height of an axis, in inches.

    Returns:
        The figure and the list of axes.

    Example:
        >>> from learndyn.plotting import panels
        >>> figure, (left, right) = panels(2)
        >>> lines = left.plot([0, 1], [1, 0])
        >>> figure.get_size_inches().tolist()
        [9.2, 3.4]
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
                _Letter(axis, letter)
    return figure, axes[:count]


class _Letter(Annotation):
    """A panel's letter, left of the axes, over the tick labels, where no title is.

    It gives way to a letter in a title, such as one that a paper's figure has.
    """

    def __init__(self, axis: Axes, letter: str):
        place = {"xytext": (-22, 5), "textcoords": "offset points", "annotation_clip": False}
        super().__init__(letter, (0, 1), xycoords="axes fraction", weight="bold", **place)
        axis.add_artist(self)
        self.set_clip_on(False)
        self._axis = axis

    def get_visible(self) -> bool:
        titles = (self._axis.get_title("left"), self._axis.get_title("center"))
        own = (letter.match(title) for letter, title in zip(OWN, titles, strict=True))
        return super().get_visible() and not any(own)
