"""Fig. 13: the learning rate raises the error without changing its scaling.

Both presets have the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._linear import units
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import corrections, learning_curve
from learndyn.theory.committee.setting import CommitteeSetting

TITLE = "Eq. 6 against Eq. 8 for three learning rates"
DIFFERS = "none known: sizes are those that the paper states, with σ_J = 10⁻⁹ for 0"
CLAIMS = {
    "above": claim("Eq. 6 over Eq. 8, smallest over α and η",
                   "Sec. 4.1: consistently above the small learning rate solution",
                   within=Tolerance(1e-12, "rounding")),
    "factor": claim("η = {eta:g}: Eq. 6 over Eq. 8 in the middle of the window is 2/(2 − η)",
                    "Fig. 13", kind="finding", because="next order, η/(2 − η) · ε(α)/ε(0)"),
    "exponent": claim("η = {eta:g}: exponent of Eq. 6 in the window is that of Eq. 8",
                      "App. B.2.1: increases the error without changing its scaling",
                      because="a factor that varies by η/(2 − η) · ε(α)/ε(0) over the fit"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's; σ_J = 0 is taken as a number whose square is below rounding.

    Fits are over the third quarter of the window, in ln α. Earlier, the factor still varies by more
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
    curve = lambda order: linear.mean_curve(CommitteeSetting.of(system), alpha, order)["error"]
    left = corrections.noise_remainder(alpha, sigma_J=params.sigma_J, **given)
    rows = {"alpha": alpha, "full": curve("full"), "flow": curve("flow"), "left_out": left}
    return xr.Dataset({name: ("point", values) for name, values in rows.items()})


def draw(data: xr.Dataset) -> Figure:
    """The curves for each learning rate, and last their ratio."""
    figure, axes = panels(data.sizes["eta"] + 1)
    for number, eta in enumerate(data["eta"].values):
        one, axis = data.sel(eta=eta), axes[number]
        axis.plot(one["alpha"], one["full"], color="C1", label="Eq. 6, corrected")
        axis.plot(one["alpha"], one["flow"], color="C0", label="Eq. 8, η → 0")
        axis.set(xscale="log", yscale="log", ylabel="generalisation error")
        axis.set_title(f"η = {eta:g}", fontsize=9)
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
    return [
        CLAIMS["above"].at_least((data["full"] / data["flow"]).min(), 1.0),
        *(row for eta in data["eta"].values for row in _rate(data.sel(eta=eta), float(eta))),
    ]


def _rate(one: xr.Dataset, eta: float) -> list[Claim]:
    """The factor in the middle of the window, and the exponent in its third quarter."""
    quarter = one.sizes["point"] // 4
    middle = one.isel(point=one.sizes["point"] // 2)
    part = one.isel(point=slice(2 * quarter, 3 * quarter + 1))
    factor, exponent = (CLAIMS[name].format(eta=eta) for name in ("factor", "exponent"))
    size, ratio = corrections.noise_factor(eta), middle["full"] / middle["flow"]
    alpha, left_out = part["alpha"].values, float(part["left_out"].max())
    fit = lambda name: ld.analysis.fit_cut_power_law(alpha, part[name].values).exponent
    tolerance = ld.analysis.cut_power_law_tolerance(alpha, left_out, fit("flow"))
    return [
        factor.equals(ratio, size, size * middle["left_out"]),
        exponent.equals(fit("full"), fit("flow"), tolerance),
    ]
