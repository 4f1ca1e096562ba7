"""How values over width are drawn."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from learndyn.studies.zhu2024linearity._model import HALF


def over_width(axis: Axes, values: xr.DataArray, label: str, color: str, **style) -> None:
    """The geometric mean over seeds, and its standard error."""
    log, m = np.log(values.transpose("seed", "width").values), values["width"].values
    mean, error = np.exp(log.mean(axis=0)), log.std(axis=0, ddof=1) / np.sqrt(len(log))
    look = {"color": color, "marker": "o", "ms": 4, "lw": 1.2, "capsize": 2, **style}
    axis.errorbar(m, mean, yerr=mean * error, label=label, **look)


def half(axis: Axes, values: xr.DataArray) -> None:
    """The line m^(−1/2) through the first point of these values."""
    m = values["width"].values
    first = float(np.exp(np.log(values.isel(width=0).values).mean()))
    axis.plot(m, first * (m / m[0]) ** HALF, color="black", ls="--", lw=0.8, label="$m^{-1/2}$")


def width_axes(axis: Axes, widths: xr.DataArray, ylabel: str, title: str = "") -> None:
    """Logarithmic axes, with the widths as ticks."""
    axis.set(xscale="log", yscale="log", xlabel="width m", ylabel=ylabel, title=title)
    shown = widths.values[:: -(-widths.size // 6)]
    axis.set_xticks(shown, [f"{width}" for width in shown], minor=False)
    axis.set_xticks([], minor=True)
