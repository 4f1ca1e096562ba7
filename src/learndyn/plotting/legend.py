"""A legend that also explains line styles and markers used in several colours."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

GREY = "0.3"


def legend(axis: Axes, styles: Mapping[str, Mapping[str, Any]] | None = None, **options) -> None:
    """Adds a legend: the labels of the axis, then line styles and markers, in grey.

    Args:
        axis: the axis.
        styles: label → properties of a `Line2D`, such as `{"ls": ":"}`; `{"marker": "o"}` is a
            marker without a line.
        options: options of `Axes.legend`.
    """
    for label, style in (styles or {}).items():
        line = "none" if "marker" in style else "-"
        axis.plot([], [], label=label, **{"color": GREY, "ls": line, **style})
    axis.legend(**{"frameon": False, **options})
