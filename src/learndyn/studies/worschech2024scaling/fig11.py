"""Fig. 11: coefficients b_k λ̃_k for L = 40 against the eigenvalues, for three learning rates.

Both presets have the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._modes import coefficient, largest_deviation, modes

TITLE = "Coefficients of the modes against the eigenvalues, L = 40, for many β and η"
DIFFERS = "sizes are those that the paper states; η = 0.005 and 0.01 are added"
_DEVIATION = "max |ln(L b_k λ̃_k/λ_k)|, L = {L}"
CLAIMS = {
    "limit": claim("b_k = 1/L to order η: max |L b_k − 1| at η = {eta:g} over that at {half:g}",
                   "App. B.2.1", because="next order in η: the deviation itself"),
    "eta": claim(f"{_DEVIATION}, grows with η: smallest step in η", "App. B.2.1",
                 because="an inequality"),
    "beta": claim(f"{_DEVIATION}, grows as β falls: smallest step in β", "App. B.2.1",
                  because="an inequality"),
}  # fmt: skip


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
    L, betas, etas = params.L, list(params.betas), [params.small / 2, params.small, *params.etas]
    row = lambda eta: [modes(L, beta, eta, L) for beta in betas]
    rows = [xr.concat(row(eta), xr.Variable("beta", betas)) for eta in cases(etas, report)]
    return xr.concat(rows, xr.Variable("eta", etas)).assign_attrs(L=L)


def draw(data: xr.Dataset) -> Figure:
    """One panel per learning rate of the paper."""
    figure, axes = panels(data.sizes["eta"] - 2, columns=3, size=(3.8, 3.4))
    for axis, eta in zip(axes, data["eta"].values[2:], strict=True):
        for number, beta in enumerate(data["beta"].values):
            one, color = data.sel(eta=eta, beta=beta), f"C{number}"
            axis.plot(data["k"], coefficient(one), color=color, label=f"β = {beta:g}")
            axis.plot(data["k"], one["lam"], "--", color=color, lw=1)
        axis.set(xscale="log", yscale="log", xlabel="k")
        axis.set_title(f"L = {data.attrs['L']}, η = {eta:g}", fontsize=9)
    axes[0].set_ylabel(r"$L\, b_k \tilde\lambda_k$ and $\lambda_k$")
    styles = {r"$L\, b_k \tilde\lambda_k$": {}, r"$\lambda_k$": {"ls": "--", "lw": 1}}
    legend(axes[0], styles, loc="lower left")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The limit of small η, the growth with η, and the order in β."""
    deviation = largest_deviation(data).transpose("eta", "beta").values
    # Halving a small η halves the distance of b_k from 1/L, up to that distance itself.
    half, whole = (abs(data["Lb"].isel(eta=i) - 1).max("k") for i in (0, 1))
    ratio, eta = whole / half, float(data["eta"][1])
    farthest = ratio[int(np.argmax(abs(ratio - 2).values))]
    rising = [
        CLAIMS[name].format(L=data.attrs["L"]).at_least(np.diff(deviation, axis=axis).min(), 0.0)
        for axis, name in enumerate(("eta", "beta"))
    ]
    limit = CLAIMS["limit"].format(eta=eta, half=eta / 2)
    return [limit.equals(farthest, 2.0, 2 * whole.max()), *rising]
