"""Fig. 10: coefficients b_k λ̃_k at η = 1 for growing numbers of eigenvalues.

The paper goes to L = 125 with arbitrary precision; the secular equation goes on in float64.
The quick preset ends at L = 1000, the other at L = 10⁴.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling._modes import (
    coefficient,
    colors,
    largest_deviation,
    legend_beside,
    modes,
)

TITLE = "Coefficients of the modes at η = 1 against k, for many L (β = 0.1 and 1)"


@dataclasses.dataclass(frozen=True)
class Params:
    """Numbers of eigenvalues and exponents."""

    sizes: tuple[int, ...] = (10, 20, 30, 40, 50, 75, 100, 125, 1000)
    betas: tuple[float, ...] = (0.1, 1.0)
    eta: float = 1.0


PRESETS = {
    "quick": Params(),
    "paper": Params(sizes=(10, 20, 30, 40, 50, 75, 100, 125, 1000, 10_000)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The modes for each β and L."""
    rows, total = [], len(params.betas) * len(params.sizes)
    for beta in params.betas:
        row = []
        for L in params.sizes:
            row.append(modes(L, beta, params.eta, max(params.sizes)))
            report((len(rows) * len(params.sizes) + len(row)) / total)
        rows.append(xr.concat(row, xr.Variable("L", list(params.sizes))))
    data = xr.concat(rows, xr.Variable("beta", list(params.betas)))
    return data.assign_attrs(eta=params.eta)


def draw(data: xr.Dataset) -> Figure:
    """L b_k λ̃_k as lines; eigenvalues of the largest L dotted."""
    figure, axes = panels(data.sizes["beta"])
    for axis, beta in zip(axes, data["beta"].values, strict=True):
        row = data.sel(beta=beta)
        for L, color in zip(data["L"].values, colors(data.sizes["L"]), strict=True):
            axis.plot(data["k"], coefficient(row.sel(L=L)), color=color, label=f"L = {L}")
        axis.plot(data["k"], row["lam"].isel(L=-1), "k:", lw=1, label=r"$\lambda_k$, largest L")
        axis.set(xscale="log", yscale="log", xlabel="k", ylabel=r"$L\, b_k \tilde\lambda_k$")
        axis.set_title(f"η = {data.attrs['eta']:g}, β = {beta:g}", fontsize=9)
    legend_beside(figure)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Sum rule, the order in β, and what becomes of the power law past the paper's L."""
    return [_sum_rule(data), _smaller_beta(data), *(_bulk(data.sel(beta=b)) for b in data["beta"])]


def _sum_rule(data: xr.Dataset) -> Claim:
    L = int(data["L"].max())
    return Claim(
        statement=f"Σ b_k = T^(0) = 1 for every L up to {L}: largest deviation",
        source="Eqs. 56 and 57",
        relation="=",
        expected=0.0,
        measured=float(np.abs(data["Lb"].sum("k") / data["L"] - 1).max()),
        tolerance=L * float(np.finfo(float).eps),
        tolerance_from="rounding, L terms",
    )


def _smaller_beta(data: xr.Dataset) -> Claim:
    deviation = largest_deviation(data)
    low, high = deviation.isel(beta=0), deviation.isel(beta=-1)
    b = data["beta"].values
    return Claim(
        statement=f"max |ln(L b_k λ̃_k/λ_k)| at β = {b[0]:g} over that at {b[-1]:g}, smallest",
        source="App. B.2.1: the smaller β, the larger the deviation from a power law",
        relation="≥",
        expected=1.0,
        measured=float((low / high).min()),
        tolerance=0.0,
        tolerance_from="an order",
    )


def _bulk(row: xr.Dataset) -> Claim:
    """In the middle of the spectrum the power law comes back as L grows."""
    beta, last = float(row["beta"]), int(row["L"][-1])
    middle = [float(abs(row["Lb"].sel(L=L, k=L // 2) - 1)) for L in (125, last)]
    return Claim(
        statement=f"β = {beta:g}: |L b_k − 1| at k = L/2, from L = 125 to {last}",
        source="past Fig. 10: the deviation does not persist in the middle of the spectrum",
        relation="≤",
        expected=middle[0],
        measured=middle[1],
        tolerance=0.0,
        tolerance_from="an order",
        kind="finding",
    )
