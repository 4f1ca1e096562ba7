"""What Figs. 7 to 9 share: the sum of Eq. 47 and what App. B.2 approximates it by.

The sum is written as an integral (Eq. 50) and Euler-Maclaurin's corrections, of which order 0 is
half of the summand at both ends.
"""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.worschech2024scaling._linear import units
from learndyn.theory.committee import errata
from learndyn.theory.committee.power_law import corrections, learning_curve

FORMS = {
    "sum": learning_curve.error_sum,
    "integral": learning_curve.error_integral,
    "first_gamma": learning_curve.error_first_gamma,
    "ends": learning_curve.end_correction,
    "remainder": corrections.sum_remainder,
}
# What 'enough' and '≈' are read as.
VISIBLE = Tolerance(0.02, "read as 2 %: half a millimetre where a decade spans five centimetres")
CLAIMS = {
    "enough": claim("{panel}: order 0 is enough from α = 1/(2ηλ₊) on: largest relative miss",
                    "App. B.2: 0th order corrections are enough", because=VISIBLE.because),
    "ends": claim("{panel}: integral + order 0 against the sum, largest relative miss",
                  "App. B.2, Fig. 8", kind="theorem",
                  because="next order of Euler-Maclaurin: ∫|f''|/8 ≥ what order 0 leaves out"),
}  # fmt: skip


def sums(alpha: np.ndarray, L: int, beta: float, eta: float, sigma_J: float) -> xr.Dataset:
    """All forms of the error against α, with λ₊, the window and the bounds of App. B.2."""
    given, no_eta = units(L, beta, eta=eta, sigma_J=sigma_J), units(L, beta, sigma_J=sigma_J)
    window = learning_curve.window(**units(L, beta, eta=eta))
    no_beta = {name: value for name, value in given.items() if name != "beta"}
    at_zero = {name: float(FORMS[name](0.0, **given)) for name in ("sum", "integral")}
    return xr.Dataset(
        {
            **{name: ("point", form(alpha, **given)) for name, form in FORMS.items()},
            **{name: given[name] for name in ("lam_plus", "L", "beta", "eta")},
            "alpha": ("point", alpha, {"long_name": "α", "units": "steps / N"}),
            "printed_bound": ("point", errata.printed_eq49(alpha, **no_beta)),
            "worst_bound": errata.printed_worst_case_bound(**no_eta),
            "initial_gap": learning_curve.initial_gap(**no_eta),
            "gap_at_zero": at_zero["sum"] - at_zero["integral"],
            "alpha_min": window[0],
            "alpha_max": window[1],
        }
    )


def each_panel(data: xr.Dataset) -> list[xr.Dataset]:
    """The panels of a figure."""
    return [data.isel(panel=number) for number in range(data.sizes["panel"])]


def gap(one: xr.Dataset) -> xr.DataArray:
    """Sum minus integral."""
    return one["sum"] - one["integral"]


def late(one: xr.Dataset) -> xr.Dataset:
    """The points at α ≥ 1/(2ηλ₊)."""
    return one.isel(point=(one["alpha"] >= one["alpha_min"]).values)


def at(one: xr.Dataset, x: float) -> xr.Dataset:
    """The point nearest to 2ηλ₊α = x."""
    return one.isel(point=int(np.argmin(abs(one["alpha"] / one["alpha_min"] - x).values)))


def label(one: xr.Dataset) -> str:
    """The panel's parameters as text."""
    return f"β = {float(one['beta']):g}, η = {float(one['eta']):.2g}"


def ends_claim(one: xr.Dataset) -> Claim:
    """Integral and order 0 against the sum, for α ≥ 1/(2ηλ₊), within the next order."""
    next_order = (late(one)["remainder"] / late(one)["sum"]).max()
    return CLAIMS["ends"].format(panel=label(one)).equals(_miss(one), 0.0, next_order)


def enough_claim(one: xr.Dataset) -> Claim:
    """The paper's sentence: the same difference is not visible."""
    return CLAIMS["enough"].format(panel=label(one)).at_most(_miss(one), VISIBLE.value)


def _miss(one: xr.Dataset) -> xr.DataArray:
    part = late(one)
    return (np.abs(gap(part) - part["ends"]) / part["sum"]).max()


def draw_sums(data: xr.Dataset, rows: Callable[[xr.Dataset], Mapping[str, xr.DataArray]]) -> Figure:
    """One panel for each dataset of `each_panel`; `rows` gives its dashed curves by label."""
    figure, axes = panels(data.sizes["panel"])
    for axis, one in zip(axes, each_panel(data), strict=True):
        _draw_panel(axis, one, rows(one))
    return figure


def _draw_panel(axis: Axes, one: xr.Dataset, rows: Mapping[str, xr.DataArray]) -> None:
    """The sum as a wide line, the rows dashed on top, and where the window begins."""
    alpha = one["alpha"]
    axis.plot(alpha, one["sum"], color="C0", lw=3, alpha=0.5, label="sum, Eq. 47")
    for number, (name, values) in enumerate(rows.items(), 1):
        axis.plot(alpha, values, "--", color=f"C{number}", lw=1.3, label=name)
    if alpha[0] < one["alpha_min"] < alpha[-1]:
        axis.axvline(float(one["alpha_min"]), color="0.5", lw=0.8, ls=":", label="1/(2ηλ₊)")
    axis.set(xscale="log", yscale="log", xlabel="α [steps / N]", ylabel="generalisation error")
    axis.set_title(f"N = L = {int(one['L'])}, {label(one)}", fontsize=9)
    legend(axis, frameon=True, framealpha=1, edgecolor="none", loc="lower left")


def with_order_zero(one: xr.Dataset) -> dict[str, xr.DataArray]:
    """The curves of Figs. 7 and 8: the integral without and with order 0."""
    ends = one["integral"] + one["ends"]
    return {"integral, Eq. 50": one["integral"], "integral + order 0": ends}
