"""Legends that also explain line styles and markers, and one legend for several panels."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from learndyn.plotting.style import style

GREY = "0.3"


@style()
def legend(axis: Axes, styles: Mapping[str, Mapping[str, Any]] | None = None, **options) -> None:
    """Adds a legend: the labels of the axis, then line styles and markers, in grey.

    Args:
        axis: the axis.
        styles: label → properties of a `Line2D`, such as `{"ls": ":"}`; `{"marker": "o"}` is a
            marker without a line.
        options: options of `Axes.legend`.

    Example:
        >>> from learndyn.plotting import legend, panels
        >>> figure, (axis,) = panels(1)
        >>> lines = axis.plot([0, 1], label="theory")
        >>> legend(axis, {"runs": {"marker": "o"}})
        >>> [text.get_text() for text in axis.get_legend().get_texts()]
        ['theory', 'runs']
    """
    for label, look in (styles or {}).items():
        line = "none" if "marker" in look else "-"
        axis.plot([], [], label=label, **{"color": GREY, "ls": line, **look})
    axis.legend(**options)


@style()
def shared_legend(
    axes: Sequence[Axes], styles: Mapping[str, Mapping[str, Any]] | None = None, **options
) -> None:
    """One legend for panels that share labels: in the empty place after the last, or below all.

    Args:
        axes: the panels, of one figure; legends of their own are taken off.
        styles: as for `legend`.
        options: options of the legend.

    Example:
        >>> from learndyn.plotting import panels, shared_legend
        >>> figure, axes = panels(2)
        >>> lines = [axis.plot([0, 1], label="theory") for axis in axes]
        >>> shared_legend(axes)
        >>> len(figure.legends)
        1
    """
    legend(axes[0], styles)
    shown: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
        if own := axis.get_legend():
            own.remove()
    last, figure = axes[-1], axes[0].get_figure(root=True)
    spec = last.get_subplotspec()
    assert figure is not None
    if spec is not None and not spec.is_last_col():
        place = {"loc": "center left", "bbox_to_anchor": (1.2, 0.5), **options}
        last.legend(shown.values(), shown, **place).set_in_layout(False)
    else:
        place = {"loc": "outside lower center", "ncols": min(len(shown), 6), **options}
        figure.legend(shown.values(), shown, **place)
