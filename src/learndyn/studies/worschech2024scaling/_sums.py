"""Figs. 7 to 9: Eq. 47's sum, its integrals and the bounds on their gap, panel by panel."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from learndyn.studies.claims import Claim
from learndyn.theory.committee import errata
from learndyn.theory.committee.power_law import corrections, learning_curve

CURVES = {
    "sum": learning_curve.error_sum,
    "integral": learning_curve.error_integral,
    "first_gamma": learning_curve.error_first_gamma,
    "ends": learning_curve.end_correction,
    "remainder": corrections.sum_remainder,
}


def panel(L: int, beta: float, eta: float, sigma_J: float, alpha: np.ndarray) -> xr.Dataset:
    """All forms of the error against α, with λ₊, the window and the bounds of App. B.2.

    Args:
        L: number of eigenvalues, N = L.
        beta: exponent of the spectrum.
        eta: learning rate.
        sigma_J: standard deviation of the student at the start.
        alpha: steps / N, positive.

    Returns:
        A dataset over `point`.
    """
    lam_plus = learning_curve.lam_plus(L, beta)
    units = {"lam_plus": lam_plus, "L": L, "beta": beta, "eta": eta, "sigma_J": sigma_J}
    found = {name: ("point", form(alpha, **units)) for name, form in CURVES.items()}
    no_beta, no_eta = ({k: v for k, v in units.items() if k != name} for name in ("beta", "eta"))
    window = learning_curve.window(**{k: v for k, v in units.items() if k != "sigma_J"})
    printed = ("point", errata.printed_eq49(alpha, **no_beta))
    return xr.Dataset(
        {
            **found,
            "alpha": ("point", alpha, {"long_name": "α", "units": "steps / N"}),
            "printed_bound": printed,
            "worst_bound": errata.printed_worst_case_bound(**no_eta),
            "initial_gap": learning_curve.initial_gap(**no_eta),
            "gap_at_zero": float(CURVES["sum"](0.0, **units) - CURVES["integral"](0.0, **units)),
            "lam_plus": lam_plus,
            "L": L,
            "beta": beta,
            "eta": eta,
            "alpha_min": window[0],
            "alpha_max": window[1],
        }
    )


def stack(panels: Sequence[xr.Dataset]) -> xr.Dataset:
    """The panels of a figure in one dataset, along `panel`."""
    return xr.concat(panels, "panel")


def gap(one: xr.Dataset) -> xr.DataArray:
    """Sum minus integral."""
    return one["sum"] - one["integral"]


def late(one: xr.Dataset) -> xr.Dataset:
    """The points at α ≥ 1/(2 η λ₊)."""
    return one.isel(point=(one["alpha"] >= one["alpha_min"]).values)


def at(one: xr.Dataset, x: float) -> xr.Dataset:
    """The point nearest to 2 η λ₊ α = x."""
    return one.isel(point=int(np.argmin(abs(one["alpha"] / one["alpha_min"] - x).values)))


def label(one: xr.Dataset) -> str:
    """The panel's parameters as text."""
    return f"β = {float(one['beta']):g}, η = {float(one['eta']):.2g}"


def ends_claim(one: xr.Dataset) -> Claim:
    """Integral and order 0 against the sum, for α ≥ 1/(2 η λ₊)."""
    part = late(one)
    return Claim(
        statement=f"{label(one)}: integral + order 0 misses the sum by, largest relative",
        source="App. B.2, Fig. 8",
        relation="=",
        expected=0.0,
        measured=float((np.abs(gap(part) - part["ends"]) / part["sum"]).max()),
        tolerance=float((part["remainder"] / part["sum"]).max()),
        tolerance_from="next order of Euler-Maclaurin: ∫|f''|/8 ≥ what order 0 leaves out",
    )


def draw_panel(axis: Axes, one: xr.Dataset, rows: Sequence[tuple[xr.DataArray, str]]) -> None:
    """The sum as a wide line, the other rows dashed on top, and where the window begins."""
    alpha = one["alpha"]
    axis.plot(alpha, one["sum"], color="C0", lw=3, alpha=0.5, label="sum, Eq. 47")
    for number, (values, name) in enumerate(rows, 1):
        axis.plot(alpha, values, "--", color=f"C{number}", lw=1.3, label=name)
    if alpha[0] < one["alpha_min"] < alpha[-1]:
        axis.axvline(float(one["alpha_min"]), color="0.5", lw=0.8, ls=":", label="1/(2ηλ₊)")
    axis.set(xscale="log", yscale="log", xlabel="α [steps / N]", ylabel="generalisation error")
    axis.set_title(f"N = L = {int(one['L'])}, {label(one)}", fontsize=9)
    axis.legend(framealpha=1, edgecolor="none", fontsize=8, loc="lower left")
