"""What Figs. 10 to 12 share: modes of the linear student at a finite learning rate."""

from collections.abc import Sequence

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.theory.committee.dynamics import linear


def modes(L: int, beta: float, eta: float, length: int) -> xr.Dataset:
    """λ_k, λ̃_k and L b_k of the linear student for k = 1 … L, NaN from there to `length`.

    η is ϵ of App. B.2.1 at a = 2, where |λ_B,k| = 2 λ̃_k.
    """
    spectrum = ld.PowerLaw(L, L, beta)
    found = linear.modes(spectrum, eta)
    pad = lambda values: ("k", np.append(values, np.full(length - L, np.nan)))
    rows = {"lam": pad(spectrum.values), "rate": pad(found.rates), "Lb": pad(L * found.b)}
    return xr.Dataset(rows, {"k": ("k", np.arange(1, length + 1), {"long_name": "k"})})


def modes_by_size(sizes: Sequence[int], beta: float, eta: float) -> xr.Dataset:
    """The modes along L, padded to the largest."""
    rows = [modes(L, beta, eta, max(sizes)) for L in sizes]
    return xr.concat(rows, xr.Variable("L", list(sizes)))


def coefficient(one: xr.Dataset) -> xr.DataArray:
    """L b_k λ̃_k, which is λ_k in the limit η → 0."""
    return one["Lb"] * one["rate"]


def largest_deviation(one: xr.Dataset) -> xr.DataArray:
    """max_k |ln(L b_k λ̃_k/λ_k)|."""
    return abs(xr.ufuncs.log(coefficient(one) / one["lam"])).max("k")


def draw_modes(axis: Axes, values: xr.DataArray) -> None:
    """One curve per L, from dark to light."""
    for number, L in enumerate(values["L"].values):
        color = matplotlib.colormaps["viridis"](number / values.sizes["L"])
        axis.plot(values["k"], values.sel(L=L), color=color, label=f"L = {L}")
    axis.set(xscale="log", yscale="log", xlabel="k")


def legend_beside(figure: Figure) -> None:
    """The legend of the first axes, to the right of all of them, where it hides no curve."""
    lines = figure.axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right center", frameon=False, fontsize=8)
