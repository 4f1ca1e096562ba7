"""Sec. 4.2: the exponent β/(1+β) in the window, by a pure power law and with its finite-L term.

For small β the finite-L term is large everywhere in the window, and a pure power law finds an
exponent that is far too large. The quick preset ends at L = 10⁴, the other at L = 10⁵.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.theory.committee.power_law import corrections, learning_curve

TITLE = "Fitted exponents of Eq. 8 against β, with and without the finite-L term"


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes; fits are over the second quarter of the window, in ln α. η only sets the clock."""

    sizes: tuple[int, ...] = (128, 1000, 10_000)
    betas: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
    eta: float = 0.01
    points: int = 40


PRESETS = {"quick": Params(), "paper": Params(sizes=(128, 1000, 10_000, 100_000))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Both fits, and what they may be off, for each L and β."""
    rows: list[xr.Dataset] = []
    for L in params.sizes:
        row = [_fits(params, L, beta) for beta in params.betas]
        rows.append(xr.concat(row, xr.Variable("beta", list(params.betas))))
        report(len(rows) / len(params.sizes))
    return xr.concat(rows, xr.Variable("L", list(params.sizes)))


def _fits(params: Params, L: int, beta: float) -> xr.Dataset:
    units = {"lam_plus": learning_curve.lam_plus(L, beta), "L": L, "beta": beta, "eta": params.eta}
    first, last = learning_curve.window(**units)
    quarter, half = np.exp(np.log(first) + np.log(last / first) * np.array([0.25, 0.5]))
    alpha, s = np.geomspace(quarter, half, params.points), learning_curve.exponent(beta)
    error = learning_curve.error_sum(alpha, sigma_J=1.0, **units)
    ends = learning_curve.end_correction(alpha, sigma_J=1.0, **units)
    left = (ends + corrections.sum_remainder(alpha, sigma_J=1.0, **units)) / error
    left = float(np.max(left + corrections.gamma_remainder(alpha, **units)))
    local = learning_curve.local_exponent(alpha, **units)
    fits = {
        "pure": ld.analysis.fit_cut_power_law(alpha, error).exponent,
        "corrected": ld.analysis.fit_cut_power_law(alpha, error, end=last).exponent,
        "expected": s,
        "local_first": local[0],
        "local_last": local[-1],
        "pure_tolerance": ld.analysis.cut_power_law_tolerance(alpha, left, s),
        "corrected_tolerance": ld.analysis.cut_power_law_tolerance(alpha, left, s, end=last),
    }
    return xr.Dataset({name: float(value) for name, value in fits.items()})


def draw(data: xr.Dataset) -> Figure:
    """Left: a pure power law. Right: with the finite-L term."""
    figure, axes = panels(2)
    titles = {"pure": r"$\alpha^{-s}$", "corrected": r"$\alpha^{-s} - \alpha_{max}^{-s}$"}
    for axis, (name, form) in zip(axes, titles.items(), strict=True):
        line = np.linspace(0, float(data["beta"].max()) * 1.05, 200)
        exact = [learning_curve.exponent(b) for b in line]
        axis.plot(line, exact, color="0.3", lw=1.2, label="β/(1+β)")
        for number, L in enumerate(data["L"].values):
            style = {"color": f"C{number}", "ms": 4, "label": f"L = {L}"}
            axis.plot(data["beta"], data[name].sel(L=L), "o", **style)
        axis.set(xlabel="β", ylabel="fitted exponent s", ylim=(0, 0.7), xlim=(0, line[-1]))
        axis.set_title(f"Eq. 8 fitted by {form}", fontsize=9)
        axis.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """At the largest L: the corrected fit is right, the pure one is off as predicted."""
    largest = data.isel(L=-1)
    claims = [_corrected(largest.sel(beta=beta)) for beta in data["beta"].values]
    return claims + [_pure(largest.sel(beta=beta)) for beta in data["beta"].values if beta <= 0.5]


def _corrected(one: xr.Dataset) -> Claim:
    return Claim(
        statement=f"β = {float(one['beta']):g}, L = {int(one['L'])}: exponent in the window",
        source="Sec. 4.2: ε ∝ α^-β/(1+β), with the next term of Γ(s, z)",
        relation="=",
        expected=float(one["expected"]),
        measured=float(one["corrected"]),
        tolerance=float(one["corrected_tolerance"]),
        tolerance_from="next orders of Γ(s, z) and of Euler-Maclaurin, over the fit's range",
    )


def _pure(one: xr.Dataset) -> Claim:
    """A fit's slope is a mean of local ones, which rise from the first to the last point."""
    first, last = float(one["local_first"]), float(one["local_last"])
    return Claim(
        statement=f"β = {float(one['beta']):g}: a pure power law finds s/(1 − (α/α_max)^s)",
        source="Eq. 51: the second term of Γ(s, z) is not small",
        relation="=",
        expected=(first + last) / 2,
        measured=float(one["pure"]),
        tolerance=(last - first) / 2 + float(one["pure_tolerance"]),
        tolerance_from="the fit's range of local exponents; next orders",
        kind="finding",
    )
