"""Fig. 10: coefficients b_k λ̃_k at η = 1 for growing numbers of eigenvalues.

The paper goes to L = 125 with arbitrary precision; the secular equation goes on in float64.
The quick preset ends at L = 1000, the other at L = 10⁴.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._linear import (
    coefficient,
    draw_modes,
    largest_deviation,
    legend_beside,
    modes_by_size,
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
    rows = [modes_by_size(params.sizes, beta, params.eta) for beta in cases(params.betas, report)]
    data = xr.concat(rows, xr.Variable("beta", list(params.betas)))
    return data.assign_attrs(eta=params.eta)


def draw(data: xr.Dataset) -> Figure:
    """L b_k λ̃_k as lines; eigenvalues of the largest L dotted."""
    figure, axes = panels(data.sizes["beta"])
    for axis, beta in zip(axes, data["beta"].values, strict=True):
        row = data.sel(beta=beta)
        draw_modes(axis, coefficient(row))
        axis.plot(data["k"], row["lam"].isel(L=-1), "k:", lw=1, label=r"$\lambda_k$, largest L")
        axis.set_ylabel(r"$L\, b_k \tilde\lambda_k$")
        axis.set_title(f"η = {data.attrs['eta']:g}, β = {beta:g}", fontsize=9)
    legend_beside(figure)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Sum rule, the order in β, and what becomes of the power law past the paper's L."""
    L, b, deviation = int(data["L"].max()), data["beta"].values, largest_deviation(data)
    ratio = deviation.isel(beta=0) / deviation.isel(beta=-1)
    low = f"max |ln(L b_k λ̃_k/λ_k)| at β = {b[0]:g} over that at {b[-1]:g}, smallest"
    return [
        claim(
            f"Σ b_k = T^(0) = 1 for every L up to {L}: largest deviation", "Eqs. 56 and 57",
            kind="theorem",
        ).equals(
            np.abs(data["Lb"].sum("k") / data["L"] - 1).max(),
            0.0,
            within=L * np.finfo(float).eps,
            because="rounding, L terms",
        ),
        claim(low, "App. B.2.1: the smaller β, the larger the deviation from a power law")
        .at_least(ratio.min(), 1.0, because="an order"),
        *(_bulk(data.sel(beta=beta)) for beta in b),
    ]  # fmt: skip


def _bulk(row: xr.Dataset) -> Claim:
    """In the middle of the spectrum the power law comes back as L grows."""
    last = int(row["L"][-1])
    middle = [abs(row["Lb"].sel(L=L, k=L // 2) - 1) for L in (125, last)]
    said = f"β = {float(row['beta']):g}: |L b_k − 1| at k = L/2, from L = 125 to {last}"
    past = "past Fig. 10: the deviation does not persist in the middle of the spectrum"
    return claim(said, past, kind="finding").at_most(middle[1], middle[0], because="an order")
