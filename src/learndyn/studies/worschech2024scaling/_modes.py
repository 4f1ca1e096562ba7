"""Figs. 10 to 12: rates and coefficients of the linear student at general learning rate."""

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.theory.committee.dynamics import linear


def modes(L: int, beta: float, eta: float, length: int) -> xr.Dataset:
    """λ_k, λ̃_k and L b_k for k = 1 … L, padded to `length`.

    Args:
        L: number of eigenvalues.
        beta: exponent of the spectrum.
        eta: learning rate η, which is ϵ of App. B.2.1 at a = 2, where |λ_B,k| = 2 λ̃_k.
        length: of the padded arrays; NaN beyond L.

    Returns:
        A dataset over `k`.
    """
    spectrum = ld.PowerLaw(L, L, beta)
    found = linear.modes(spectrum, eta)
    pad = lambda values: ("k", np.append(values, np.full(length - L, np.nan)))
    names = {"lam": spectrum.values, "rate": found.rates, "Lb": L * found.b}
    return xr.Dataset({name: pad(values) for name, values in names.items()}, _index(length))


def _index(length: int) -> dict:
    return {"k": ("k", np.arange(1, length + 1), {"long_name": "k"})}


def coefficient(one: xr.Dataset) -> xr.DataArray:
    """L b_k λ̃_k, which is λ_k in the limit η → 0."""
    return one["Lb"] * one["rate"]


def largest_deviation(one: xr.Dataset) -> xr.DataArray:
    """max_k |ln(L b_k λ̃_k/λ_k)|."""
    return abs(xr.ufuncs.log(coefficient(one) / one["lam"])).max("k")


def colors(count: int) -> list:
    """From dark to light, for curves in the order of L."""
    return [matplotlib.colormaps["viridis"](i / count) for i in range(count)]


def legend_beside(figure: Figure) -> None:
    """The legend of the first axes, to the right of all of them: no curve lies under it."""
    lines = figure.axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right center", frameon=False, fontsize=8)
