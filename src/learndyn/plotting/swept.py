"""Figures of sweeps: a heat map, or coloured curves, over the axes of a sweep, with contours."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.plotting.panels import panels
from learndyn.plotting.style import marker_of, style
from learndyn.runtime.checks import instance, shown

WIDE = 30.0  # a positive range this wide is drawn on a logarithmic scale
CURVES = "viridis"
SIZE = (4.6, 3.4)  # inches
TICKS = 12  # largest number of integers that all have a tick


def plot_swept(
    data: xr.Dataset,
    simulation: xr.Dataset | None = None,
    *,
    x: str,
    y: str | None = None,
    color: str | None = None,
    value: str | None = None,
    contours: Mapping[str, float] | str | None = None,
    log: str = "auto",
    ax: Axes | None = None,
) -> Figure:
    """Plots a heat map of a value over two axes, or coloured curves of it over one.

    Values are averaged over all other axes (keys, runs), without missing ones. Theory over runs:
    curves of `data` are lines and those of `simulation` markers of the same colours; of a map, the
    cells are those of `simulation`, and contours of `data` are drawn on them at its own ticks.

    Args:
        data: the data of a sweep.
        simulation: a second sweep over the same axes, of runs; None draws `data` alone.
        x: the horizontal axis.
        y: the vertical axis of a heat map; None draws curves of the value.
        color: the axis that colours the curves; None draws a single curve.
        value: the variable to draw; None takes the only one.
        contours: landmarks stored by the function, drawn on top of a heat map: a variable, whose
            contour at 1 is drawn, or a dict of variables with their levels.
        log: logarithmic scales, of "x", "y" and "c" (the value); "auto" chooses them for wide
            positive ranges and for axes with equal ratios.
        ax: axes of your own to draw on; None makes a figure.

    Returns:
        The figure; with `ax`, the one that it is in.

    Raises:
        ValueError: for names that the data do not have.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> from learndyn.plotting import plot_swept
        >>> axes = {"eta": [0.1, 0.2, 0.4], "units": [2, 3]}
        >>> data = xr.Dataset({"error": (("eta", "units"), np.ones((3, 2)))}, axes)
        >>> plot_swept(data, x="eta", y="units").axes[0].get_xlabel()
        'eta'
    """
    instance("record", data, xr.Dataset, "a Dataset of a sweep")
    named = {"x": x, "y": y, "color": color}
    axes = [_axis(data, *each) for each in named.items() if each[1] is not None]
    if simulation is not None:
        instance("simulation", simulation, xr.Dataset, "a Dataset of a sweep")
        for each in axes:
            _axis(simulation, "simulation", each)
    name = _value(data, value)
    if y is not None and color is not None:
        raise ValueError("plot: got y and color; allowed is y for a map, color for curves")
    figure, (axis,) = panels(1, size=SIZE) if ax is None else (ax.figure, [ax])
    values = _over(data[name], axes)
    runs = None if simulation is None else _over(simulation[_value(simulation, name)], axes)
    with style():
        if y is None:
            _curves(axis, values, x, color, log, "-" if runs is not None else "o-")
            if runs is not None:
                _curves(axis, runs, x, color, log, "o")
        else:
            _map(axis, values if runs is None else runs, x, y, log)
            if runs is not None:
                _same_levels(axis, values, x, y)
            for landmark, level in _levels(contours).items():
                _contour(axis, _over(data[_known(data, landmark)], axes), x, y, level)
    return figure.figure


def _axis(data: xr.Dataset, argument: str, axis: str) -> str:
    if not isinstance(axis, str) or axis not in data.dims:
        known = ", ".join(map(str, data.dims))
        raise ValueError(
            f"{argument}: got {shown(axis)}; allowed are the data's dimensions: {known}"
        )
    return axis


def _value(data: xr.Dataset, value: str | None) -> str:
    names = [str(n) for n, v in data.data_vars.items() if v.dtype.kind in "fiub"]
    if value is None and len(names) == 1:
        return names[0]
    if not names:
        raise ValueError("record: got no variable of numbers; allowed is a Dataset of a sweep")
    if value not in names:
        raise ValueError(f"value: got {value!r}; allowed is one of {', '.join(names)}")
    return value


def _known(data: xr.Dataset, name: str) -> str:
    if name not in data:
        raise ValueError(f"contours: got {name!r}; allowed are {', '.join(map(str, data))}")
    return name


def _levels(contours: Mapping[str, float] | str | None) -> Mapping[str, float]:
    return {contours: 1.0} if isinstance(contours, str) else contours or {}


def _over(values: xr.DataArray, axes: list[str]) -> xr.DataArray:
    """The mean over all other axes, with numbers in increasing order: sweeps may have any."""
    others = [dim for dim in values.dims if dim not in axes]
    mean = values.astype(float).mean(others, keep_attrs=True)
    numbers = [dim for dim in axes if dim in mean.coords and mean[dim].dtype.kind in "fiu"]
    return mean.sortby(numbers).transpose(*axes, missing_dims="ignore")


def _wide(numbers: np.ndarray) -> bool:
    finite = numbers[np.isfinite(numbers)]
    return bool(finite.size and finite.min() > 0 and finite.max() > WIDE * finite.min())


def _geometric(numbers: np.ndarray) -> bool:
    """Whether neighbouring values of an axis have equal ratios."""
    if len(numbers) < 4 or numbers.dtype.kind != "f" or np.any(numbers <= 0):
        return False
    steps = np.diff(np.log(numbers))
    return bool(np.all(np.abs(steps - steps[0]) < 1e-6 * abs(steps[0])))


def _edges(numbers: np.ndarray, log: bool) -> np.ndarray:
    """The edges of the cells: half-way between neighbouring values."""
    places = np.log(numbers) if log else numbers.astype(float)
    middle = (places[1:] + places[:-1]) / 2
    step = np.diff(places) if len(places) > 1 else np.ones(1)
    ends = np.concatenate([[places[0] - step[0] / 2], middle, [places[-1] + step[-1] / 2]])
    return np.exp(ends) if log else ends


def _scaled(which: str, numbers: np.ndarray, log: str, *, axis: bool = False) -> bool:
    wide = _wide(numbers) or (axis and _geometric(numbers))
    return wide if log == "auto" else which in log


def _places(values: xr.DataArray, dim: str) -> tuple[np.ndarray, list[str] | None]:
    """The numbers of an axis and None; for texts their positions, and the texts."""
    labels = values[dim].values if dim in values.coords else np.arange(values.sizes[dim])
    if labels.dtype.kind in "fiu":
        return labels, None
    return np.arange(len(labels)), [str(label) for label in labels]


def _label(values: xr.DataArray, dim: str) -> str:
    attrs: Mapping[str, Any] = values[dim].attrs if dim in values.coords else {}
    return str(attrs.get("long_name", dim))


def _map(axis: Axes, values: xr.DataArray, x: str, y: str, log: str) -> None:
    from matplotlib.colors import LogNorm

    ends = {}
    for which, dim in (("x", x), ("y", y)):
        numbers, texts = _places(values, dim)
        logarithmic = texts is None and _scaled(which, numbers, log, axis=True)
        ends[dim] = _edges(numbers, logarithmic)
        getattr(axis, f"set_{which}label")(_label(values, dim))
        if logarithmic:
            getattr(axis, f"set_{which}scale")("log")
        if texts is not None or (numbers.dtype.kind in "iu" and len(numbers) <= TICKS):
            getattr(axis, f"set_{which}ticks")(numbers, texts)
    drawn = values.transpose(y, x).values
    norm = LogNorm() if _scaled("c", drawn, log) else None
    mesh = axis.pcolormesh(ends[x], ends[y], drawn, norm=norm)
    axis.grid(False)
    label = str(values.attrs.get("long_name", values.name))
    axis.figure.colorbar(mesh, ax=axis, label=label)


def _contour(axis: Axes, values: xr.DataArray, x: str, y: str, level: float) -> None:
    places = (_places(values, dim)[0] for dim in (x, y))
    drawn = values.transpose(y, x).values
    lines = axis.contour(*places, drawn, levels=[level], colors="white", linewidths=1.4)
    label = str(values.attrs.get("long_name", values.name))
    axis.clabel(lines, fmt=lambda _: label, fontsize="small")


def _same_levels(axis: Axes, values: xr.DataArray, x: str, y: str) -> None:
    """Contours of a theory at the ticks of the colours of the map below."""
    mesh: Any = axis.collections[0]
    places = (_places(values, dim)[0] for dim in (x, y))
    low, high = mesh.get_clim()
    ticks = [level for level in mesh.colorbar.get_ticks() if low < level < high]
    lines = axis.contour(
        *places, values.transpose(y, x).values, levels=sorted(ticks), colors="black", linewidths=1.0
    )
    axis.clabel(lines, fontsize="small")


def _curves(
    axis: Axes, values: xr.DataArray, x: str, color: str | None, log: str, kind: str = "o-"
) -> None:
    """Curves over x: lines, markers, or both, as `kind` says; markers alone have no key."""
    import matplotlib

    numbers, texts = _places(values, x)
    rows = [None] if color is None else range(values.sizes[color])
    shades = matplotlib.colormaps[CURVES](np.linspace(0, 0.92, len(rows)))
    for row, shade in zip(rows, shades, strict=True):
        one = values if row is None else values.isel({color: row})
        named = row is not None and "-" in kind
        label = f"{_label(values, str(color))} = {_text(one, color)}" if named else None
        form = kind.replace("o", marker_of(row or 0))
        axis.plot(numbers, one.values, form, lw=1.2, color=shade, label=label)
    if texts is not None:
        axis.set_xticks(numbers, texts)
    elif _scaled("x", numbers, log, axis=True):
        axis.set_xscale("log")
    if _scaled("y", values.values, log):
        axis.set_yscale("log")
    ylabel = str(values.attrs.get("long_name", values.name))
    axis.set(xlabel=_label(values, x), ylabel=ylabel)
    if color is not None:
        axis.legend()


def _text(one: xr.DataArray, color: str | None) -> str:
    value = one.coords[color].item() if color in one.coords else ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
