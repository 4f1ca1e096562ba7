"""`plot`: theories as lines, simulations as markers with bands, labelled from the records."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from learndyn.analysis import mean_and_error
from learndyn.analysis.compare import is_approximate
from learndyn.plotting.panels import panels
from learndyn.plotting.style import color_of, label_decades, line_of, marker_of, style
from learndyn.plotting.swept import plot_swept
from learndyn.records import require_match, require_record
from learndyn.runtime.checks import instance, one_of, shown

MARKERS = 16  # largest number of markers per simulated curve
LOG = ("", "x", "y", "xy", "auto")
KEYS = 20  # largest number of entries of a variable that a panel names
BAND = 2  # half width of a theory's band, in its standard deviations
COLUMN = (3.4, 2.6)  # inches: a panel is as wide as a column of a journal


def plot(
    record: xr.Dataset,
    simulation: xr.Dataset | None = None,
    *,
    variables: Sequence[str] | None = None,
    log: str = "auto",
    same_system: bool = True,
    x: str | None = None,
    ax: Axes | None = None,
    **swept: Any,
) -> Figure:
    """Plots one panel per variable: theory as lines, simulation as markers with a band.

    The simulation's band is the standard error of its mean. A theory that predicts a standard
    deviation (`fluctuations=True`) has a light band of ± 2 standard deviations, where a single run
    should lie.

    Args:
        record: a record of `solve`, or of `simulate` alone.
        simulation: a record of `simulate`, drawn over the first; with `x`, a sweep of runs.
        variables: the variables to plot; None takes all that depend on time.
        log: logarithmic axes: "", "x", "y", "xy", or "auto", which chooses them for wide positive
            ranges.
        same_system: whether the records must be of the same system. False allows drawing two
            systems together; their unit of time must still be the same, since they share an axis.
        x: for data of a sweep, the horizontal axis; they are drawn by `plot_swept`.
        ax: axes of your own to draw a single variable on, over what is there already; None makes
            a figure with one panel per variable, each as wide as a column.
        swept: further arguments of `plot_swept`: `y`, `color`, `value`, `contours`.

    Returns:
        The figure; with `ax`, the one that it is in.

    Raises:
        ValueError: for records of different systems or units of time, and for variables or axes
            that are not allowed.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> system = ld.System(line, network, ld.GradientDescent(0.1))
        >>> figure = ld.plot(ld.solve(system, range(51)), variables=["error"])
        >>> len(figure.axes)
        1
    """
    if ax is not None:
        instance("ax", ax, Axes, "matplotlib axes")
    if x is not None:
        return plot_swept(record, simulation, x=x, log=log, ax=ax, **swept)
    if swept:
        raise ValueError(f"plot: got {', '.join(swept)} without x; allowed is both, for a sweep")
    if isinstance(record, xr.Dataset) and "point_status" in record.coords:
        axes = ", ".join(map(str, record["point_status"].dims))
        if axes:  # without any, it is the record of a single point
            allowed = f"allowed is one of its axes, {axes}"
            raise ValueError(f"x: got None with data of a sweep; {allowed}")
    one_of("log", log, LOG)
    one_of("same_system", same_system, (False, True))
    names = _chosen(require_record("record", record), variables)
    if simulation is not None:
        _require_runs(record, require_record("simulation", simulation))
        require_match(record, simulation, names=("record", "simulation"), same_system=same_system)
    if ax is not None and len(names) > 1:
        got = f"axes for {len(names)} variables"
        raise ValueError(
            f"ax: got {got}; allowed is one variable, such as variables=['{names[0]}']"
        )
    figure, axes = panels(len(names), size=COLUMN) if ax is None else (ax.figure, [ax])
    with style():
        for axis, name in zip(axes, names, strict=True):
            wide = _scale(axis, record[name], log)
            for each in (record, simulation):
                if each is not None and name in each:
                    shown = each if not wide else each.isel(time=each["time"].values > 0)
                    curves(axis, shown[name], std=shown.get(f"{name}_std"))
            _key(axis, record[name])
            if ax is not None:  # figures of others do not label their axes when they are drawn
                label_decades(ax.xaxis)
                label_decades(ax.yaxis)
        _legend(axes[0] if ax is not None else figure, record, simulation)
    return figure.figure  # of a subfigure, the whole


def curves(
    axis: Axes,
    values: xr.DataArray,
    *,
    entries: Sequence[tuple[int, ...]] | None = None,
    std: xr.DataArray | None = None,
) -> None:
    """Draws a variable against time: as lines, or as markers with a band if it has runs.

    Args:
        axis: the axis to draw on.
        values: the variable, with dimension time and possibly run.
        entries: which entries of the other dimensions; None takes all (for a student-student
            matrix the upper triangle).
        std: the standard deviation that a theory predicts, drawn as a band of ± 2 of them.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> from learndyn.plotting import curves, panels
        >>> figure, (axis,) = panels(1)
        >>> curves(axis, xr.DataArray(np.exp([0.0, -1.0]), {"time": [0, 1]}, name="error"))
        >>> axis.get_ylabel()
        'error'
    """
    others = [d for d in values.dims if d not in ("time", "run")]
    chosen = _entries(values, others) if entries is None else entries
    for number, entry in enumerate(chosen):
        place, color = dict(zip(others, entry, strict=True)), color_of(number)
        if std is not None:
            _band(axis, values.isel(place), BAND * std.isel(place), color, alpha=0.12)
        _curve(axis, values.isel(place), number)
    time = values["time"].attrs
    axis.set_xlabel(f"{time.get('long_name', 'time')} [{time.get('unit', '')}]")
    axis.set_ylabel(values.attrs.get("long_name", values.name))


def _curve(axis: Axes, curve: xr.DataArray, number: int) -> None:
    color = color_of(number)
    curve = curve.dropna("time", how="all")  # a recorder may have read it at some of the times only
    time = curve["time"].values
    if axis.get_yscale() == "log":  # matplotlib would draw a line to zero as one to a small number
        curve = curve.where(curve > 0)
    if "run" not in curve.dims:
        axis.plot(time, curve.values, ls=line_of(number), color=color)
        return
    mean, error = mean_and_error(curve)
    every = max(1, -(-len(time) // MARKERS))  # rounded up
    axis.plot(time, mean, marker_of(number), color=color, mfc="white", markevery=every)
    if curve.sizes["run"] > 1:
        _band(axis, mean, error, color, alpha=0.25)


def _band(axis: Axes, middle: xr.DataArray, half: xr.DataArray, color: str, alpha: float) -> None:
    low, high = middle - half, middle + half
    axis.fill_between(middle["time"], low, high, color=color, alpha=alpha, linewidth=0)


def _require_runs(record: xr.Dataset, simulation: xr.Dataset) -> None:
    if "run" in record.dims:
        raise ValueError("record: got runs beside a simulation; allowed is a record of `solve`")
    if "run" not in simulation.dims:
        raise ValueError("simulation: got no dimension 'run'; allowed is a record of `simulate`")


def _chosen(record: xr.Dataset, variables: Sequence[str] | None) -> list[str]:
    numeric = {n: v for n, v in record.data_vars.items() if v.dtype.kind in "fiub"}
    timed = [str(name) for name, values in numeric.items() if "time" in values.dims]
    if not timed or "time" not in record.coords:
        raise ValueError("record: got no variable with the dimension time; allowed is a record")
    if variables is not None and not isinstance(variables, list | tuple):
        allowed = f"a list of {', '.join(timed)}"
        raise ValueError(f"variables: got {shown(variables)}; allowed is {allowed}")
    for name in variables or ():
        if not isinstance(name, str) or name not in timed:
            raise ValueError(f"variables: got {shown(name)}; allowed are {', '.join(timed)}")
    if variables:
        return list(variables)
    return [name for name in timed if name.removesuffix("_std") not in {*timed} - {name}]


def _entries(values: xr.DataArray, others: list) -> list[tuple[int, ...]]:
    every = list(itertools.product(*(range(values.sizes[d]) for d in others)))
    if others == ["student", "student'"]:
        return [(i, j) for i, j in every if i <= j]
    return every


def _scale(axis: Axes, values: xr.DataArray, log: str) -> bool:
    """Sets the scales of the axes; returns whether time is logarithmic, without time 0."""
    time = values["time"].values
    positive = time[time > 0]
    wide_time = len(positive) > 3 and positive[-1] > 300 * positive[0]
    finite = values.values[np.isfinite(values.values)]
    wide = finite.size > 0 and finite.min() > 0 and finite.max() > 30 * finite.min()
    if "y" in log or (log == "auto" and wide):
        axis.set_yscale("log")
    if "x" in log or (log == "auto" and wide_time):
        axis.set_xscale("log")
        return True
    return False


def _key(axis: Axes, values: xr.DataArray) -> None:
    """Adds a key above the panel: the colour of each entry, by its index."""
    entries = _entries(values, [d for d in values.dims if d not in ("time", "run")])
    if not 1 < len(entries) <= KEYS:
        return
    labels = [_typeset(str(values.name), entry) for entry in entries]
    lines = [_line(n) for n in range(len(entries))]
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": min(len(entries), 4)}
    small = {"columnspacing": 1.0, "frameon": False}
    # In addition to the legend of the axes, which explains line styles.
    key = Legend(axis, lines, labels, borderaxespad=0.2, **place, **small)
    axis.add_artist(key)
    for part in (key, *key.get_children()):  # it lies outside the axes
        part.set_clip_on(False)


def _line(number: int) -> Line2D:
    """The n-th entry's line and marker, for a key."""
    color, marker = color_of(number), marker_of(number)
    return Line2D([], [], ls=line_of(number), color=color, marker=marker, mfc="white")


def _typeset(name: str, entry: tuple[int, ...]) -> str:
    """The symbol of an entry, its indices as in the record, from 0."""
    symbol = name if len(name) == 1 else rf"\mathrm{{{name}}}".replace("_", r"\_")
    return f"${symbol}_{{{','.join(map(str, entry))}}}$"


def _legend(place: Axes | FigureBase, record: xr.Dataset, simulation: xr.Dataset | None) -> None:
    """One key for all panels: above the figure, or in the caller's axes."""
    handles: list[Artist] = []
    for each in (record, simulation):
        if each is None:
            continue
        if "run" in each.dims:
            runs = each.sizes["run"]
            label = f"simulation, {runs} run{'s' * (runs > 1)}"
            handles.append(Line2D([], [], ls="", marker="o", mfc="white", color="0.3", label=label))
        else:
            also = ", approximate" * is_approximate(each)
            label = f"theory ({each.attrs.get('order', '')}{also})"
            handles.append(Line2D([], [], color="0.3", label=label))
            if any(f"{name}_std" in each for name in each.data_vars):
                label = f"± {BAND} standard deviations at N = {each.attrs.get('size', '?')}"
                handles.append(Patch(color="0.3", alpha=0.12, linewidth=0, label=label))
    if isinstance(place, Axes):
        place.legend(handles=handles)
    else:
        place.legend(handles=handles, loc="outside upper center", ncols=len(handles))
