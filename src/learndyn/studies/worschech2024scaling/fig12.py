"""Fig. 12: spectrum of B at general learning rate, and its difference from the eigenvalues.

The paper goes to L = 150 with arbitrary precision. The quick preset adds L = 1000, the other
L = 10⁴ besides.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._linear import (
    CLOSE,
    HIDDEN,
    draw_modes,
    legend_beside,
    modes_by_size,
)

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
    columns = [*zip(params.epsilons, params.betas, strict=True)]
    rows = [
        modes_by_size(params.sizes, beta, epsilon).assign(epsilon=epsilon, beta=beta)
        for epsilon, beta in cases(columns, report)
    ]
    return xr.concat(rows, "column")


def draw(data: xr.Dataset) -> Figure:
    """Above |λ_B,k| = 2 λ̃_k, below 2 λ_k − |λ_B,k|."""
    figure, axes = panels(4)
    for column in range(2):
        one = data.isel(column=column)
        rows = {
            r"$|\lambda_{B,k}|$": 2 * one["rate"],
            r"$2\lambda_k - |\lambda_{B,k}|$": _shift(one),
        }
        for axis, (label, values) in zip(axes[column::2], rows.items(), strict=True):
            draw_modes(axis, values)
            axis.set_ylabel(label)
            axis.set_title(_name(one), fontsize=9)
    legend_beside(figure)
    return figure


def _shift(one: xr.Dataset) -> xr.DataArray:
    return 2 * (one["lam"] - one["rate"])


def _name(one: xr.Dataset) -> str:
    return f"ϵ = {float(one['epsilon']):g}, β = {float(one['beta']):g}"


def check(data: xr.Dataset) -> list[Claim]:
    """What a rank-one matrix does to a spectrum: trace and interlacing."""
    return [found for column in range(2) for found in _of_column(data.isel(column=column))]


def _of_column(one: xr.Dataset) -> list[Claim]:
    largest, epsilon = int(one["L"].max()), one["epsilon"]
    trace = _shift(one).sum("k") / (one["lam"] ** 2).sum("k") * one["L"]
    farthest = trace[int(np.argmax(abs(trace - epsilon).values))]
    below = one["lam"].shift(k=-1).fillna(0.0)
    outside = (one["rate"] > one["lam"]) | (one["rate"] < below)
    ours = lambda what, source: claim(f"{_name(one)}: {what}", source, kind="theorem")
    rounding = largest * np.finfo(float).eps
    bent = xr.ufuncs.log(one["lam"] / one["rate"]).max("k").min("L")
    said = "the pure power law of the spectrum is perturbed: largest ln(2λ_k/|λ_B,k|), least L"
    return [
        claim(f"{_name(one)}: {said}", "App. B.2.1, Fig. 12").at_least(bent, CLOSE, because=HIDDEN),
        ours(f"Σ_k (2λ_k − |λ_B,k|) over T^(2) is ϵ, L to {largest}; farthest", "Eq. 27").equals(
            farthest, epsilon, within=rounding, because="rounding, L terms"
        ),
        ours("|λ_B,k|/2 outside λ_k+1 … λ_k, number of k and L", "App. B.2.1").equals(
            outside.sum(), 0.0, within=0.0, because="integers"
        ),
    ]
