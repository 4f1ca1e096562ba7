"""Sec. 4.2: the exponent β/(1+β) in the window, by a pure power law and with its finite-L term.

The paper claims a pure power law. For small β the finite-L term is large everywhere in the window,
and a pure power law finds an exponent that is far too large. There the paper's statement fails, and
the form with the finite-L term is its correction. The quick preset ends at L = 10⁴, the paper
preset at 10⁵.
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
from learndyn.theory.committee.power_law import corrections, learning_curve

TITLE = "Fitted exponents of Eq. 8 against β, with and without the finite-L term"
DIFFERS = "Sec. 4.2 has no figure of exponents; here L = 128 to 10⁵ and β = 0.1 to 1.5"
SMALL = 0.5  # β up to which the finite-L term is as large as the power law itself
READ = 0.2  # relative accuracy that the paper's exponent is read with
_CORRECTED = claim("β = {beta:g}, L = {L}: exponent in the window",
                   "Sec. 4.2: ε ∝ α^-β/(1+β), with the next term of Γ(s, z)",
                   because="next orders of Γ(s, z) and of Euler-Maclaurin, over the fit's range",
                   )  # fmt: skip
CLAIMS = {
    "paper": claim("β = {beta:g}: a pure power law fits the window with β/(1+β)",
                   "Sec. 4.2: ε ∝ α^-β/(1+β)",
                   because=f"'scales as' read as an exponent to {100 * READ:g} %"),
    "corrected": _CORRECTED,
    "corrected, small β": _CORRECTED.erratum("a pure power law, which finds {pure:.3g}"),
    "pure": claim("β = {beta:g}: a pure power law finds s/(1 − (α/α_max)^s)",
                  "Eq. 51: the second term of Γ(s, z) is not small", kind="finding",
                  because="the fit's range of local exponents; next orders"),
}  # fmt: skip
_FAR = "the finite-L term is as large as the power law: the exponent is too large at any feasible L"
_FAILING = {CLAIMS["paper"].format(beta=beta).statement: _FAR for beta in (0.1, 0.25)}
FAILS = {"quick": _FAILING, "paper": _FAILING}


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes; fits are over the second quarter of the window, in ln α. η only sets the clock."""

    sizes: tuple[int, ...] = (128, 1000, 10_000)
    betas: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
    eta: float = 0.01
    points: int = 40


PRESETS = {"quick": Params(), "paper": Params(sizes=(128, 1000, 10_000, 100_000))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Both fits, and by how much they may be off, for each L and β."""
    sizes, betas = list(params.sizes), list(params.betas)
    row = lambda L: [_fits(params, L, beta) for beta in betas]
    rows = [xr.concat(row(L), xr.Variable("beta", betas)) for L in cases(sizes, report)]
    return xr.concat(rows, xr.Variable("L", sizes))


def _fits(params: Params, L: int, beta: float) -> xr.Dataset:
    given = units(L, beta, eta=params.eta)
    first, last = learning_curve.window(**given)
    quarter, half = np.exp(np.log(first) + np.log(last / first) * np.array([0.25, 0.5]))
    alpha, s = np.geomspace(quarter, half, params.points), learning_curve.exponent(beta)
    forms = learning_curve.error_sum, learning_curve.end_correction, corrections.sum_remainder
    error, ends, remainder = (form(alpha, sigma_J=1.0, **given) for form in forms)
    gamma = corrections.gamma_remainder(alpha, **given)
    left_out = float(np.max((ends + remainder) / error + gamma))
    local = learning_curve.local_exponent(alpha, **given)
    fit, tolerance = ld.analysis.fit_cut_power_law, ld.analysis.cut_power_law_tolerance
    numbers = {
        "pure": fit(alpha, error).exponent,
        "corrected": fit(alpha, error, end=last).exponent,
        "expected": s,
        "local_first": local[0],
        "local_last": local[-1],
        "pure_tolerance": tolerance(alpha, left_out, s),
        "corrected_tolerance": tolerance(alpha, left_out, s, end=last),
    }
    return xr.Dataset({name: float(value) for name, value in numbers.items()})


def draw(data: xr.Dataset) -> Figure:
    """Left: a pure power law. Right: with the finite-L term."""
    figure, axes = panels(2)
    titles = {"pure": r"$\alpha^{-s}$", "corrected": r"$\alpha^{-s} - \alpha_{max}^{-s}$"}
    line = np.linspace(0, float(data["beta"].max()) * 1.05, 200)
    for axis, (name, form) in zip(axes, titles.items(), strict=True):
        exact = [learning_curve.exponent(b) for b in line]
        axis.plot(line, exact, color="0.3", lw=1.2, label="β/(1+β)")
        for L in data["L"].values:
            axis.plot(data["beta"], data[name].sel(L=L), "o", ms=4, label=f"L = {L}")
        axis.set(xlabel="β", ylabel="fitted exponent s", ylim=(0, 0.7), xlim=(0, line[-1]))
        axis.set_title(f"Eq. 8 fitted by {form}", fontsize=9)
        legend(axis, loc="lower right")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """At the largest L: the corrected fit is right, the pure one is off as predicted."""
    paper, corrected, pure = [], [], []
    for one in (data.isel(L=-1).sel(beta=beta) for beta in data["beta"].values):
        fields = {"beta": float(one["beta"]), "L": int(one["L"]), "pure": float(one["pure"])}
        rows, s = {name: each.format(**fields) for name, each in CLAIMS.items()}, one["expected"]
        paper.append(rows["paper"].equals(one["pure"], s, READ * s))
        row = rows["corrected"]
        if one["beta"] <= SMALL:
            row = rows["corrected, small β"].erratum(value=fields["pure"])
            # The slope of a fit is a mean of local ones, which rise from first to last.
            first, last = one["local_first"], one["local_last"]
            off = (last - first) / 2 + one["pure_tolerance"]
            pure.append(rows["pure"].equals(one["pure"], (first + last) / 2, off))
        corrected.append(row.equals(one["corrected"], s, one["corrected_tolerance"]))
    return [*paper, *corrected, *pure]
