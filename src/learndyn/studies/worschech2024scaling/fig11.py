"""Fig. 11: coefficients b_k λ̃_k for L = 40 against the eigenvalues, for three learning rates.

Both presets are at the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling._modes import coefficient, largest_deviation, modes

TITLE = "Coefficients of the modes against the eigenvalues, L = 40, for many β and η"


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's; the learning rates `small` and half of it show the limit η → 0."""

    L: int = 40
    betas: tuple[float, ...] = (1.0, 0.5, 0.1, 0.01)
    etas: tuple[float, ...] = (0.1, 0.5, 1.0)
    small: float = 0.01


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The modes for each learning rate and β."""
    etas, rows = (params.small / 2, params.small, *params.etas), []
    for eta in etas:
        row = [modes(params.L, beta, eta, params.L) for beta in params.betas]
        rows.append(xr.concat(row, xr.Variable("beta", list(params.betas))))
        report(len(rows) / len(etas))
    data = xr.concat(rows, xr.Variable("eta", list(etas)))
    return data.assign_attrs(L=params.L)


def draw(data: xr.Dataset) -> Figure:
    """One panel for each of the paper's learning rates."""
    figure, axes = panels(data.sizes["eta"] - 2, columns=3, size=(3.8, 3.4))
    for axis, eta in zip(axes, data["eta"].values[2:], strict=True):
        for number, beta in enumerate(data["beta"].values):
            one, color = data.sel(eta=eta, beta=beta), f"C{number}"
            axis.plot(data["k"], coefficient(one), color=color, label=f"β = {beta:g}")
            axis.plot(data["k"], one["lam"], "--", color=color, lw=1)
        axis.set(xscale="log", yscale="log", xlabel="k")
        axis.set_title(f"L = {data.attrs['L']}, η = {eta:g}", fontsize=9)
    axes[0].plot([], [], "k-", label=r"$L\, b_k \tilde\lambda_k$")
    axes[0].plot([], [], "k--", lw=1, label=r"$\lambda_k$")
    axes[0].set_ylabel(r"$L\, b_k \tilde\lambda_k$ and $\lambda_k$")
    axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The limit of small η, the growth with η, and the order in β."""
    deviation = largest_deviation(data).transpose("eta", "beta").values
    rising = [
        ("grows with η: smallest step in η", np.diff(deviation, axis=0)),
        ("grows as β falls: smallest step in β", np.diff(deviation, axis=1)),
    ]
    return [
        _limit(data),
        *(
            Claim(
                statement=f"max |ln(L b_k λ̃_k/λ_k)|, L = {data.attrs['L']}, {what}",
                source="App. B.2.1",
                relation="≥",
                expected=0.0,
                measured=float(steps.min()),
                tolerance=0.0,
                tolerance_from="an order",
            )
            for what, steps in rising
        ),
    ]


def _limit(data: xr.Dataset) -> Claim:
    """Halving a small η halves what b_k differs from 1/L, up to the difference itself."""
    half, whole = (abs(data["Lb"].isel(eta=i) - 1).max("k") for i in (0, 1))
    ratio = whole / half
    worst = int(np.argmax(abs(ratio - 2).values))
    eta = float(data["eta"][1])
    return Claim(
        statement=f"b_k = 1/L to order η: max |L b_k − 1| at η = {eta:g} over that at {eta / 2:g}",
        source="App. B.2.1",
        relation="=",
        expected=2.0,
        measured=float(ratio[worst]),
        tolerance=2 * float(whole.max()),
        tolerance_from="next order in η: the deviation itself",
    )
