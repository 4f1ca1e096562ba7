"""Fig. 5: degrees of freedom of the student against its width, counted as ranks.

What the student can express is WᵀW. The dimension of the set of these matrices is the rank of the
Jacobian of W -> WᵀW at a random W. The quick preset has smaller N than the paper preset; the paper
does not name its N.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import dimensions

TITLE = "Degrees of freedom of the student against its width, predicted and counted"
DIFFERS = (
    "the paper does not state N; here 10, 20, 30, and the dimensions are also counted as ranks"
)
INTEGERS = Tolerance(0.0, "integers")
CLAIMS = {
    "narrow": claim("degrees of freedom are N p − p(p−1)/2 for p ≤ N: widths where the count "
                    "differs", "Fig. 5, Sec. 7.5.1", within=INTEGERS),
    "wide": claim("degrees of freedom are N(N+1)/2 for p > N: widths where the count differs",
                  "Fig. 5, Sec. 7.5.1", within=INTEGERS),
    "beyond": claim("units beyond p = N = {N} add no expressivity: growth there", "Sec. 7.5.1",
                    within=INTEGERS),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Input dimensions; the widths go to `factor` times each."""

    sizes: tuple[int, ...] = (5, 10, 15)
    factor: float = 1.5
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(sizes=(10, 20, 30))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Predicted dimensions and counted ranks at random weights."""
    rng = np.random.default_rng(params.key)
    widths = np.arange(1, int(params.factor * max(params.sizes)) + 1)
    predicted, counted = np.full((2, len(params.sizes), len(widths)), np.nan)
    for i, N in cases(list(enumerate(params.sizes)), report):
        for j, p in enumerate(widths[: int(params.factor * N)]):
            predicted[i, j] = dimensions.degrees_of_freedom(N, int(p))
            weights = rng.standard_normal((p, N))
            counted[i, j] = np.linalg.matrix_rank(dimensions.gram_jacobian(weights))
    table = {"predicted": (("N", "p"), predicted), "counted": (("N", "p"), counted)}
    return xr.Dataset(table, {"N": list(params.sizes), "p": widths})


def draw(data: xr.Dataset) -> Figure:
    """Lines that rise to p = N and stay there, with the counts on them."""
    figure, (axis,) = panels(1, size=(5.6, 4.0))
    for i, N in enumerate(data["N"].values):
        row, color = data.sel(N=N), f"C{i}"
        axis.plot(data["p"], row["predicted"], color=color, label=f"N = {N}")
        axis.plot(data["p"], row["counted"], "o", markersize=3.5, color=color)
        axis.axvline(N, color=color, linestyle=":", linewidth=1)
    axis.set(xlabel="student units p", ylabel=r"degrees of freedom of $W^\top W$")
    counted = {"marker": "o", "ms": 3.5}
    legend(axis, {"predicted": {}, "rank of the Jacobian": counted, "p = N": {"ls": ":", "lw": 1}})
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Every count is the predicted number, on both sides of p = N."""
    wrong = (data["counted"] != data["predicted"]) & data["counted"].notnull()
    narrow = data["p"] <= data["N"]
    last, N = data["counted"].isel(N=-1).dropna("p"), int(data["N"][-1])
    growth = last.sel(p=last["p"] > N).max() - last.sel(p=N)
    return [
        CLAIMS["narrow"].equals((wrong & narrow).sum(), 0.0),
        CLAIMS["wide"].equals((wrong & ~narrow).sum(), 0.0),
        CLAIMS["beyond"].format(N=N).equals(growth, 0.0),
    ]
