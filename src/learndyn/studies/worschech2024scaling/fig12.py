"""Fig. 12: spectrum of B at general learning rate, and its difference from the eigenvalues.

The paper goes to L = 150 with arbitrary precision. The quick preset adds L = 1000, the other
L = 10⁴ besides.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling._modes import colors, legend_beside, modes

TITLE = "Spectrum of B = 2 A₁ + ϵ U against that of the data, for many L"


@dataclasses.dataclass(frozen=True)
class Params:
    """Numbers of eigenvalues; (ϵ, β) of the two columns, with a = 2."""

    sizes: tuple[int, ...] = (10, 15, 20, 25, 50, 75, 100, 125, 150, 1000)
    epsilons: tuple[float, ...] = (1.0, 0.5)
    betas: tuple[float, ...] = (0.1, 1.0)


PRESETS = {
    "quick": Params(),
    "paper": Params(sizes=(10, 15, 20, 25, 50, 75, 100, 125, 150, 1000, 10_000)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The modes for each column and L."""
    rows: list[xr.Dataset] = []
    total = len(params.betas) * len(params.sizes)
    for epsilon, beta in zip(params.epsilons, params.betas, strict=True):
        row: list[xr.Dataset] = []
        for L in params.sizes:
            row.append(modes(L, beta, epsilon, max(params.sizes)))
            report((len(rows) * len(params.sizes) + len(row)) / total)
        column = xr.concat(row, xr.Variable("L", list(params.sizes)))
        rows.append(column.assign(epsilon=epsilon, beta=beta))
    return xr.concat(rows, "column")


def draw(data: xr.Dataset) -> Figure:
    """Above |λ_B,k| = 2 λ̃_k, below 2 λ_k − |λ_B,k|."""
    figure, axes = panels(4)
    for column in range(2):
        one = data.isel(column=column)
        rows = [
            (2 * one["rate"], r"$|\lambda_{B,k}|$"),
            (_shift(one), r"$2\lambda_k - |\lambda_{B,k}|$"),
        ]
        for axis, (values, label) in zip(axes[column::2], rows, strict=True):
            for L, color in zip(data["L"].values, colors(data.sizes["L"]), strict=True):
                axis.plot(data["k"], values.sel(L=L), color=color, label=f"L = {L}")
            axis.set(xscale="log", yscale="log", xlabel="k", ylabel=label)
            axis.set_title(f"ϵ = {float(one['epsilon']):g}, β = {float(one['beta']):g}", fontsize=9)
    legend_beside(figure)
    return figure


def _shift(one: xr.Dataset) -> xr.DataArray:
    return 2 * (one["lam"] - one["rate"])


def check(data: xr.Dataset) -> list[Claim]:
    """What a rank-one matrix does to a spectrum: trace and interlacing."""
    return [claim for c in range(2) for claim in _of_column(data.isel(column=c))]


def _of_column(one: xr.Dataset) -> list[Claim]:
    name = f"ϵ = {float(one['epsilon']):g}, β = {float(one['beta']):g}"
    largest, eps = int(one["L"].max()), float(np.finfo(float).eps)
    trace = _shift(one).sum("k") / (one["lam"] ** 2).sum("k") * one["L"]
    below = one["lam"].shift(k=-1).fillna(0.0)
    outside = (one["rate"] > one["lam"]) | (one["rate"] < below)
    rows = [
        (f"{name}: Σ_k (2λ_k − |λ_B,k|) over T^(2) is ϵ, L to {largest}; farthest", "Eq. 27",
         float(one["epsilon"]), float(trace[int(np.argmax(abs(trace - one["epsilon"]).values))]),
         largest * eps, "rounding, L terms"),
        (f"{name}: |λ_B,k|/2 outside λ_k+1 … λ_k, number of k and L", "App. B.2.1",
         0.0, float(outside.sum()), 0.0, "integers"),
    ]  # fmt: skip
    return [
        Claim(
            statement=statement,
            source=source,
            relation="=",
            expected=expected,
            measured=measured,
            tolerance=tolerance,
            tolerance_from=why,
            kind="finding",
        )
        for statement, source, expected, measured, tolerance, why in rows
    ]
