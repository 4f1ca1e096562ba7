"""Fig. 13: the learning rate raises the error without changing its scaling.

Both presets are at the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._linear import units
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import corrections, learning_curve
from learndyn.theory.committee.setting import Setting

TITLE = "Eq. 6 against Eq. 8 for three learning rates"


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's; σ_J² = 0 is its square being below rounding.

    Fits are over the third quarter of the window, in ln α: before, the factor still varies by more
    than exponents differ, and a fit would exclude nothing.
    """

    L: int = 128
    beta: float = 1.0
    etas: tuple[float, ...] = (0.1, 0.5, 1.0)
    sigma_J: float = 1e-9
    points: int = 161


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Both curves over the window of the power law, for each learning rate."""
    rows = [_curves(params, eta) for eta in cases(params.etas, report)]
    data = xr.concat(rows, xr.Variable("eta", list(params.etas)))
    return data.assign_attrs(L=params.L, beta=params.beta)


def _curves(params: Params, eta: float) -> xr.Dataset:
    spectrum = ld.PowerLaw(params.L, params.L, params.beta)
    system = committee_system("linear", spectrum, eta=eta, sigma_J=params.sigma_J)
    given = units(params.L, params.beta, eta=eta)
    alpha = np.geomspace(*learning_curve.window(**given), params.points)
    curve = lambda order: linear.mean_curve(Setting.of(system), alpha, order)["error"]
    left = corrections.noise_remainder(alpha, sigma_J=params.sigma_J, **given)
    rows = {"alpha": alpha, "full": curve("full"), "flow": curve("flow"), "left_out": left}
    return xr.Dataset({name: ("point", values) for name, values in rows.items()})


def draw(data: xr.Dataset) -> Figure:
    """The curves for each learning rate, and last their ratio."""
    figure, axes = panels(data.sizes["eta"] + 1)
    for number, eta in enumerate(data["eta"].values):
        one = data.sel(eta=eta)
        axes[number].plot(one["alpha"], one["full"], color="C1", label="Eq. 6, corrected")
        axes[number].plot(one["alpha"], one["flow"], color="C0", label="Eq. 8, η → 0")
        axes[number].set(xscale="log", yscale="log", ylabel="generalisation error")
        axes[number].set_title(f"η = {eta:g}", fontsize=9)
        ratio, color = one["full"] / one["flow"], f"C{number + 2}"
        axes[-1].plot(one["alpha"], ratio, color=color, label=f"η = {eta:g}")
        axes[-1].axhline(corrections.noise_factor(eta), color=color, lw=0.8, ls=":")
    axes[-1].set(xscale="log", ylabel="Eq. 6 over Eq. 8")
    title = rf"N = L = {data.attrs['L']}, β = {data.attrs['beta']:g}, $\sigma_J = 0$"
    figure.suptitle(title, fontsize=10)
    for axis in axes:
        axis.set_xlabel("α [steps / N]")
        legend(axis, {"2/(2 − η)": {"ls": ":", "lw": 0.8}} if axis is axes[-1] else None)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Above Eq. 8, by the factor 2/(2 − η), with the same exponent."""
    source = "Sec. 4.1: consistently above the small learning rate solution"
    above = claim("Eq. 6 over Eq. 8, smallest over α and η", source).at_least(
        (data["full"] / data["flow"]).min(), 1.0, within=1e-12, because="rounding"
    )
    rows = [data.sel(eta=eta) for eta in data["eta"].values]
    return [above, *(found for one in rows for found in (_factor(one), _exponent(one)))]


def _factor(one: xr.Dataset) -> Claim:
    eta, middle = float(one["eta"]), one.isel(point=one.sizes["point"] // 2)
    expected = corrections.noise_factor(eta)
    said = f"η = {eta:g}: Eq. 6 over Eq. 8 in the middle of the window is 2/(2 − η)"
    return claim(said, "Fig. 13", kind="finding").equals(
        middle["full"] / middle["flow"],
        expected,
        within=expected * middle["left_out"],
        because="next order, η/(2 − η) · ε(α)/ε(0)",
    )


def _exponent(one: xr.Dataset) -> Claim:
    quarter = one.sizes["point"] // 4
    part = one.isel(point=slice(2 * quarter, 3 * quarter + 1))
    alpha, left_out = part["alpha"].values, float(part["left_out"].max())
    fit = lambda name: ld.analysis.fit_cut_power_law(alpha, part[name].values).exponent
    flow = fit("flow")
    said = f"η = {float(one['eta']):g}: exponent of Eq. 6 in the window is that of Eq. 8"
    return claim(said, "App. B.2.1: increases the error without changing its scaling").equals(
        fit("full"),
        flow,
        within=ld.analysis.cut_power_law_tolerance(alpha, left_out, flow),
        because="a factor that varies by η/(2 − η) · ε(α)/ε(0) over the fit",
    )
