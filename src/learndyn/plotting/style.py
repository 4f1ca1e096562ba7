"""The style of figures: `learndyn.mplstyle`, and figures that keep it."""

import contextlib
import functools
import io
import pathlib
from collections.abc import Iterator
from typing import Any

import matplotlib
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import (
    FuncFormatter,
    LogFormatter,
    LogFormatterSciNotation,
    NullFormatter,
)

from learndyn.plotting.mathematics import mathematics

FILE = pathlib.Path(__file__).with_name("learndyn.mplstyle")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")


@functools.cache
def _settings() -> dict[Any, Any]:
    return dict(matplotlib.rc_params_from_file(FILE, use_default_template=False))


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draws in the style of this package; matplotlib's settings are as before afterwards.

    The same settings are `learndyn.plotting.learndyn` for `matplotlib.pyplot.style.use`.

    Returns:
        A context: `with style():` has the settings inside, and so has a function decorated by
        `@style()`.

    Examples:
        >>> import matplotlib
        >>> from learndyn.plotting import style
        >>> with style():
        ...     matplotlib.rcParams["savefig.dpi"]
        200.0
    """
    with matplotlib.rc_context(_settings()):
        yield


class StyledFigure(Figure):
    """A figure that is drawn and saved in the style.

    Matplotlib looks up some settings, such as the colour "C0" and how text is written, only when
    it draws; so the style must hold then as well. Text that was asked for in a smaller size than
    that of a legend is drawn in that size, and plain text such as "η_crit" as mathematics. A
    logarithmic axis is labelled at decades, or by plain numbers where it has fewer than two.
    """

    def draw(self, renderer: Any) -> None:
        with style():
            for text in self.findobj(Text):
                text.set_fontsize(max(text.get_fontsize(), _settings()["legend.fontsize"]))
                text.set_text(mathematics(text.get_text()))
            for axis in self.findobj(Axis):
                label_decades(axis)
                _set_named_ticks(axis)
            super().draw(renderer)

    def savefig(self, *args: Any, **options: Any) -> None:
        with style():
            super().savefig(*args, **options)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """What a notebook shows: sharp, at 100 dots per inch of the page.

        Only figures of pyplot are shown by Jupyter's own means.
        """
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=200)
        width, height = (round(100 * inches) for inches in self.get_size_inches())
        return content.getvalue(), {"width": width, "height": height}


def _set_named_ticks(axis: Any) -> None:
    """Sets tick labels that were given as texts as mathematics: axes write them anew when drawn."""
    formatter = axis.get_major_formatter()
    if type(formatter) is FuncFormatter:
        axis.set_major_formatter(_Mathematics(formatter))


class _Mathematics(FuncFormatter):
    """The texts of another formatter as mathematics."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return mathematics(self.func(x, pos))


class _Plain(LogFormatterSciNotation):
    """2, 3, 4, 6 for 2 × 10⁰ and so on, at the places that matplotlib labels."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def label_decades(axis: Any) -> None:
    """Labels a logarithmic axis at decades only, or, if it has fewer than two, by plain numbers."""
    if axis.get_scale() != "log" or not isinstance(axis.get_minor_formatter(), LogFormatter):
        return
    low, high = sorted(axis.get_view_interval())
    if sum(low <= place <= high for place in axis.get_majorticklocs()) > 1:
        axis.set_minor_formatter(NullFormatter())
    elif low >= 1e-3 and high < 1e5:
        axis.set_major_formatter(_Plain())
        axis.set_minor_formatter(_Plain(minor_thresholds=(1, 0.4)))


def color_of(number: int) -> str:
    """The colour of the n-th of several curves."""
    return f"C{number % _colors()}"


def line_of(number: int) -> Any:
    """The line style of the n-th of several curves; with the colour it repeats after 32."""
    return LINES[(number + number // _colors()) % len(LINES)]


def marker_of(number: int) -> str:
    """The marker of the n-th of several curves; with the colour it repeats after 64."""
    return MARKERS[(number + number // _colors()) % len(MARKERS)]


def _colors() -> int:
    return len(_settings()["axes.prop_cycle"])
