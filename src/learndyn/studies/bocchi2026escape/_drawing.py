"""How panels are labelled."""

from matplotlib.axes import Axes

from learndyn.plotting import legend


def finish(
    axis: Axes, xlabel: str, ylabel: str, title: str = "", styles: dict | None = None, **settings
) -> None:
    """Labels, a small title, and a legend if anything has a label or a style is given."""
    axis.set(xlabel=xlabel, ylabel=ylabel, **settings)
    axis.set_title(title, fontsize=9)
    if styles or axis.get_legend_handles_labels()[0]:
        legend(axis, styles)
