"""Fig. 6: dimension of the manifold of zero-error solutions against the student's width.

It is counted twice. All solutions are rotations of one: the rank of the directions in which
rotations move a solution. And a solution is W = S A with SᵀS = I, A fixed of full row rank: the
free entries of S minus the rank of the constraint. Both presets have the same sizes but for the
largest width; the paper does not name its N.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.numerics import stiefel
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import dimensions

TITLE = "Dimension of the solution manifold against the student's width, predicted and counted"
DIFFERS = (
    "the paper states neither N nor the teachers; here N = 6 and p* = 1, 2, 3, 5, 8, and the "
    "dimensions are also counted as ranks"
)
SOURCE, INTEGERS = "Fig. 6, Sec. 7.5.2", Tolerance(0.0, "integers")
CLAIMS = {
    "rotations": claim("the manifold has the dimension p(p−1)/2 − (p−k)(p−k−1)/2 with "
                       "k = min(p*, N){wide}, by rotations: widths where the count differs",
                       SOURCE, within=INTEGERS),
    "constraints": claim("the same by the constraints SᵀS = I: widths where the count differs",
                         SOURCE, within=INTEGERS),
    "retrieval": claim("phase retrieval, p* = 1: the dimension is p − 1: widths where the count "
                       "differs", SOURCE, within=INTEGERS),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Teachers and input dimension; teachers wider than N are of rank N."""

    teachers: tuple[int, ...] = (1, 2, 3, 5, 8)
    N: int = 6
    widest: int = 12
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(widest=30)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Predicted dimensions, and the two counts at a random solution of each size."""
    rng = np.random.default_rng(params.key)
    widths = np.arange(1, params.widest + 1)
    counts = np.full((3, len(params.teachers), len(widths)), np.nan)
    for i, p_star in cases(list(enumerate(params.teachers)), report):
        rank = min(p_star, params.N)
        for p in widths[rank - 1 :]:
            S = stiefel.random_point(p, rank, rng)
            rotations = dimensions.rotation_directions(S @ rng.standard_normal((rank, params.N)))
            counts[:, i, p - 1] = (
                dimensions.manifold_dimension(int(p), p_star, params.N),
                np.linalg.matrix_rank(rotations) if len(rotations) else 0,
                S.size - np.linalg.matrix_rank(dimensions.gram_jacobian(S)),
            )
    names = ("predicted", "rotations", "constraints")
    table = {name: (("p_star", "p"), row) for name, row in zip(names, counts, strict=True)}
    return xr.Dataset(table, {"p_star": list(params.teachers), "p": widths}, {"N": params.N})


def draw(data: xr.Dataset) -> Figure:
    """A line for each teacher with both counts on it."""
    figure, (axis,) = panels(1, size=(5.6, 4.0))
    rotations = {"marker": "o", "ms": 3.5, "ls": "none"}
    constraints = {"marker": "s", "ms": 7, "fillstyle": "none", "ls": "none"}
    for i, p_star in enumerate(data["p_star"].values):
        row, note = data.sel(p_star=p_star), " > N" if p_star > data.attrs["N"] else ""
        axis.plot(data["p"], row["predicted"], color=f"C{i}", label=f"p* = {p_star}{note}")
        axis.plot(data["p"], row["rotations"], color=f"C{i}", **rotations)
        axis.plot(data["p"], row["constraints"], color=f"C{i}", **constraints)
    axis.set(xlabel="student units p", ylabel=f"dimension of the manifold (N = {data.attrs['N']})")
    counts = {"rank of the rotations": rotations, "free entries − constraints": constraints}
    legend(axis, {"predicted": {}, **counts})
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Both counts are the predicted number, and p − 1 for one teacher."""
    differ = lambda name: (data[name] != data["predicted"]) & data["predicted"].notnull()
    wide = ", including p* > N" * bool((data["p_star"] > data.attrs["N"]).any())
    claims = [
        CLAIMS["rotations"].format(wide=wide).equals(differ("rotations").sum(), 0.0),
        CLAIMS["constraints"].equals(differ("constraints").sum(), 0.0),
    ]
    if 1 in data["p_star"]:
        wrong = data["rotations"].sel(p_star=1) != data["p"] - 1
        claims.append(CLAIMS["retrieval"].equals(wrong.sum(), 0.0))
    return claims
