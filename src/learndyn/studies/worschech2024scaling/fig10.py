"""Fig. 10: coefficients b_k λ̃_k at η = 1 for growing numbers of eigenvalues.

The paper goes to L = 125 with arbitrary precision; solved by the secular equation, float64 goes
further. The quick preset ends at L = 1000, the paper preset at L = 10⁴.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _modes

TITLE = "Coefficients of the modes at η = 1 against k, for many L (β = 0.1 and 1)"
DIFFERS = "L = 1000 and 10⁴ are added to the paper's 10 to 125"
SIZES = (10, 20, 30, 40, 50, 75, 100, 125)  # of the paper
CLAIMS = {
    "sum": claim("Σ b_k = T^(0) = 1 for every L up to {L}: largest deviation", "Eqs. 56 and 57",
                 kind="theorem", because="rounding, L terms"),
    "order": claim("max |ln(L b_k λ̃_k/λ_k)| at β = {low:g} over that at {high:g}, smallest",
                   "App. B.2.1: the smaller β, the larger the deviation from a power law",
                   because="an inequality"),
    "bulk": claim("β = {beta:g}: |L b_k − 1| at k = L/2 falls from L = 125 to {L}",
                  "past Fig. 10: the deviation does not persist in the middle of the spectrum",
                  kind="finding", because="an inequality"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Numbers of eigenvalues and exponents."""

    sizes: tuple[int, ...] = (*SIZES, 1000)
    betas: tuple[float, ...] = (0.1, 1.0)
    eta: float = 1.0


PRESETS = {"quick": Params(), "paper": Params(sizes=(*SIZES, 1000, 10_000))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The modes for each β and L."""
    betas = cases(params.betas, report)
    rows = [_modes.modes_by_size(params.sizes, beta, params.eta) for beta in betas]
    data = xr.concat(rows, xr.Variable("beta", list(params.betas)))
    return data.assign_attrs(eta=params.eta)


def draw(data: xr.Dataset) -> Figure:
    """L b_k λ̃_k as lines; the eigenvalues of the largest L dotted."""
    figure, axes = panels(data.sizes["beta"])
    for axis, beta in zip(axes, data["beta"].values, strict=True):
        row = data.sel(beta=beta)
        _modes.draw_modes(axis, _modes.coefficient(row))
        axis.plot(data["k"], row["lam"].isel(L=-1), "k:", lw=1, label=r"$\lambda_k$, largest L")
        axis.set_ylabel(r"$L\, b_k \tilde\lambda_k$")
        axis.set_title(f"η = {data.attrs['eta']:g}, β = {beta:g}", fontsize=9)
    _modes.legend_beside(figure)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The sum rule, the order in β, and how the power law returns past the paper's L."""
    L, betas, deviation = int(data["L"].max()), data["beta"].values, _modes.largest_deviation(data)
    off = abs(data["Lb"].sum("k") / data["L"] - 1)
    ratio = deviation.isel(beta=0) / deviation.isel(beta=-1)
    order = CLAIMS["order"].format(low=betas[0], high=betas[-1])
    return [
        CLAIMS["sum"].format(L=L).equals(off.max(), 0.0, L * np.finfo(float).eps),
        order.at_least(ratio.min(), 1.0),
        *(_bulk(data.sel(beta=beta)) for beta in betas),
    ]


def _bulk(row: xr.Dataset) -> Claim:
    before, last = SIZES[-1], int(row["L"][-1])
    off = [abs(row["Lb"].sel(L=L, k=L // 2) - 1) for L in (before, last)]
    return CLAIMS["bulk"].format(beta=float(row["beta"]), L=last).at_most(off[1], off[0])
