"""What figures of the linear student share: sums (7 to 9), modes (10 to 12), starts (3 and 15).

The error of one start differs from the next by far more than theory and network differ. So every
network is divided by the flow from its own weights, whose mean over starts is known.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies.claims import Claim, claim
from learndyn.studies.statistics import student_bound
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import corrections, learning_curve

CURVES = {
    "sum": learning_curve.error_sum,
    "integral": learning_curve.error_integral,
    "first_gamma": learning_curve.error_first_gamma,
    "ends": learning_curve.end_correction,
    "remainder": corrections.sum_remainder,
}
FIRST = 1.0  # the α at which the paper's curves with N_l trained directions begin
LEVEL = 0.01  # chance of a false alarm in each claim on random starts

CLOSE = 0.02  # what 'enough' and '≈' are read as
HIDDEN = "read as 2 %: half a millimetre where a decade has five centimetres"


def units(L: int, beta: float, **more: float) -> dict[str, Any]:
    """What the forms of `learning_curve` take by name: λ₊, L and β, and what is given besides."""
    return {"lam_plus": learning_curve.lam_plus(L, beta), "L": L, "beta": beta, **more}


def sums(alpha: np.ndarray, L: int, beta: float, eta: float, sigma_J: float) -> xr.Dataset:
    """All forms of the error against α, with λ₊, the window and the bounds of App. B.2."""
    given, no_eta = units(L, beta, eta=eta, sigma_J=sigma_J), units(L, beta, sigma_J=sigma_J)
    window = learning_curve.window(**units(L, beta, eta=eta))
    no_beta = {name: value for name, value in given.items() if name != "beta"}
    at_zero = {name: float(CURVES[name](0.0, **given)) for name in ("sum", "integral")}
    curves = {name: ("point", form(alpha, **given)) for name, form in CURVES.items()}
    numbers = {name: given[name] for name in ("lam_plus", "L", "beta", "eta")}
    return xr.Dataset(
        {
            **curves,
            **numbers,
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
    part, said = late(one), "integral + order 0 misses the sum by, largest relative"
    return claim(f"{label(one)}: {said}", "App. B.2, Fig. 8", kind="theorem").equals(
        (np.abs(gap(part) - part["ends"]) / part["sum"]).max(),
        0.0,
        within=(part["remainder"] / part["sum"]).max(),
        because="next order of Euler-Maclaurin: ∫|f''|/8 ≥ what order 0 leaves out",
    )


def enough_claim(one: xr.Dataset) -> Claim:
    """The paper's sentence: a line of its figures hides 2 %."""
    part, said = late(one), "order 0 is enough from α = 1/(2ηλ₊) on: largest relative miss"
    return claim(f"{label(one)}: {said}", "App. B.2: 0th order corrections are enough").at_most(
        (np.abs(gap(part) - part["ends"]) / part["sum"]).max(), CLOSE, because=HIDDEN
    )


def draw_sums(axis: Axes, one: xr.Dataset, rows: Mapping[str, xr.DataArray]) -> None:
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
    """A curve for each L, from dark to light."""
    for number, L in enumerate(values["L"].values):
        color = matplotlib.colormaps["viridis"](number / values.sizes["L"])
        axis.plot(values["k"], values.sel(L=L), color=color, label=f"L = {L}")
    axis.set(xscale="log", yscale="log", xlabel="k")


def legend_beside(figure: Figure) -> None:
    """The legend of the first axes, to the right of all of them: no curve lies under it."""
    lines = figure.axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right center", frameon=False, fontsize=8)


def step_times(horizon: float, points: int, system: ld.System) -> np.ndarray:
    """Times α from FIRST to `horizon`, evenly in ln α, at whole steps."""
    return np.unique(np.rint(np.geomspace(FIRST, horizon, points) * system.dim)) / system.dim


class Ratio(NamedTuple):
    """Mean error of networks over the mean flow from their own starts, at every time.

    Attributes:
        value: the ratio, (time,).
        error: its standard error, (time,).
        starts: how many.
    """

    value: np.ndarray
    error: np.ndarray
    starts: int

    def allowed(self, entries: int = 1) -> np.ndarray:
        """What chance allows at LEVEL over so many entries together, by Student's t, (time,)."""
        return np.asarray(student_bound(self.starts, entries, LEVEL) * self.error)


def ratio_to_flow(one: xr.Dataset) -> Ratio:
    """The ratio of the means over `start` of networks and flow."""
    found, own = (one[name].transpose("start", ...).values for name in ("networks", "flow"))
    value, starts = np.asarray(found.mean(0) / own.mean(0)), len(own)
    rest = (found - value * own) / own.mean(0)
    return Ratio(value, np.asarray(rest.std(0, ddof=1) / np.sqrt(starts)), starts)


def follows_flow(
    one: xr.Dataset, left_out: np.ndarray, who: str, source: str, printed: str = ""
) -> Claim:
    """The claim that networks follow the flow, at the α where they do so least.

    Args:
        one: networks and flow over start and time.
        left_out: the relative size of what the flow leaves out, (time,).
        who: whose mean error, for the statement.
        source: of the claim.
        printed: what the paper prints, where that is wrong.

    Returns:
        The claim.
    """
    ratio, alpha = ratio_to_flow(one), one["time"].values
    off, bound = np.abs(ratio.value - 1), left_out + ratio.allowed(len(alpha))
    worst, name = int(np.argmax(off - bound)), f"{who}: relative deviation of the mean error"
    times = f"{ratio.starts} starts, {len(alpha)} times"
    said = claim(f"{name}, worst at α = {alpha[worst]:.4g}", source, name=name)
    return (said.erratum(printed) if printed else said).equals(
        off[worst],
        0.0,
        within=bound[worst],
        because=f"next order in η, Student t, {times}, {LEVEL:.0%}",
        rate=1 - LEVEL,
    )


def draw_starts(axis: Axes, one: xr.Dataset, color: str) -> None:
    """Networks of one N_l as markers over the flow from their starts, and the mean of theory."""
    alpha, n = one["time"], int(one["n"])
    axis.plot(alpha, one["flow"].mean("start"), color=color, lw=1.3, zorder=2.5)
    axis.plot(alpha, one["theory"], "--", color="0.2", lw=1, zorder=2)
    mean = one["networks"].mean("start")
    axis.plot(alpha, mean, "o", ms=3.5, color=color, zorder=3, label=f"$N_l$ = {n}")
