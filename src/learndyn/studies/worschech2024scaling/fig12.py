"""Fig. 12: the spectrum of B at any learning rate, and its difference from the eigenvalues.

The paper goes to L = 150 with arbitrary precision. The quick preset adds L = 1000, the paper
preset L = 1000 and 10⁴.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _modes
from learndyn.studies.worschech2024scaling._sums import VISIBLE

TITLE = "Spectrum of B = 2 A₁ + ϵ U against that of the data, for many L"
DIFFERS = "L = 1000 and 10⁴ are added to the paper's 10 to 150"
SIZES = (10, 15, 20, 25, 50, 75, 100, 125, 150)  # of the paper
# The last two are what a rank-one matrix does to a spectrum: trace and interlacing.
CLAIMS = {
    "perturbed": claim("{column}: the pure power law of the spectrum is perturbed: largest "
                       "ln(2λ_k/|λ_B,k|), smallest over L", "App. B.2.1, Fig. 12",
                       because=VISIBLE.because),
    "trace": claim("{column}: Σ_k [2λ_k − |λ_B,k|] over T^(2) is ϵ, L up to {L}; farthest",
                   "Eq. 27", kind="theorem", because="rounding, L terms"),
    "outside": claim("{column}: |λ_B,k|/2 outside λ_k+1 … λ_k, number of k and L", "App. B.2.1",
                     kind="theorem", within=Tolerance(0.0, "integers")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Numbers of eigenvalues; (ϵ, β) of the two columns, with a = 2."""

    sizes: tuple[int, ...] = (*SIZES, 1000)
    epsilons: tuple[float, ...] = (1.0, 0.5)
    betas: tuple[float, ...] = (0.1, 1.0)


PRESETS = {"quick": Params(), "paper": Params(sizes=(*SIZES, 1000, 10_000))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The modes for each column and L."""
    columns = [*zip(params.epsilons, params.betas, strict=True)]
    rows = [
        _modes.modes_by_size(params.sizes, beta, epsilon).assign(epsilon=epsilon, beta=beta)
        for epsilon, beta in cases(columns, report)
    ]
    return xr.concat(rows, "column")


def draw(data: xr.Dataset) -> Figure:
    """Above |λ_B,k| = 2 λ̃_k, below 2 λ_k − |λ_B,k|."""
    figure, axes = panels(4)
    labels = r"$|\lambda_{B,k}|$", r"$2\lambda_k - |\lambda_{B,k}|$"
    for column in range(2):
        one = data.isel(column=column)
        rows = zip(axes[column::2], labels, (2 * one["rate"], _shift(one)), strict=True)
        for axis, label, values in rows:
            _modes.draw_modes(axis, values)
            axis.set_ylabel(label)
            axis.set_title(_name(one), fontsize=9)
    _modes.legend_beside(figure)
    return figure


def _shift(one: xr.Dataset) -> xr.DataArray:
    return 2 * (one["lam"] - one["rate"])


def _name(one: xr.Dataset) -> str:
    return f"ϵ = {float(one['epsilon']):g}, β = {float(one['beta']):g}"


def check(data: xr.Dataset) -> list[Claim]:
    """The spectrum is perturbed, by a matrix of rank one."""
    return [row for column in range(2) for row in _column(data.isel(column=column))]


def _column(one: xr.Dataset) -> list[Claim]:
    L, lam, rate, epsilon = int(one["L"].max()), one["lam"], one["rate"], one["epsilon"]
    trace = _shift(one).sum("k") / (lam**2).sum("k") * one["L"]
    farthest = trace[int(np.argmax(abs(trace - epsilon).values))]
    outside = (rate > lam) | (rate < lam.shift(k=-1).fillna(0.0))
    bent = xr.ufuncs.log(lam / rate).max("k").min("L")
    sentence = lambda name: CLAIMS[name].format(column=_name(one), L=L)
    return [
        sentence("perturbed").at_least(bent, VISIBLE.value),
        sentence("trace").equals(farthest, epsilon, L * np.finfo(float).eps),
        sentence("outside").equals(outside.sum(), 0.0),
    ]
