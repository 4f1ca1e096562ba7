"""Fig. 17: the plateau of the error against the approximate fixed point of Eq. 95.

One start for each L, flow limit. The quick preset has two numbers of levels, the paper preset
L = 100 besides those of the paper, whose powers of the covariance end near L = 12; it starts at the
σ_J of Fig. 5, since at σ_J = 0.01 the students part before the slow levels settle. N goes down to a
multiple of L.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._erf import (
    SETTLED,
    SIGMA_J,
    flattest_point,
    plateau_system,
    predictions,
)

TITLE = "Plateau of the error against its approximate and its exact fixed point (Fig. 17)"


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; times are α."""

    levels: tuple[int, ...] = (2, 10)
    sigma_J: tuple[float, ...] = (0.01, 0.01)
    M: int = 4
    N: int = 7000
    end: float = 1750.0
    points: int = 351
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(levels=(2, 8, 10, 12, 100), sigma_J=(*[0.01] * 4, 1e-6)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow from one start for each L, and what is predicted for its teacher."""
    pairs = [*zip(params.levels, params.sigma_J, strict=True)]
    rows = [_one(params, L, sigma_J) for L, sigma_J in cases(pairs, report)]
    return xr.concat(rows, xr.Variable("L", list(params.levels))).assign_attrs(M=params.M)


def _one(params: Params, L: int, sigma_J: float) -> xr.Dataset:
    system = plateau_system(L, params.M, params.N, sigma_J)
    start = ld.start(system, key=params.key)
    times = np.linspace(0, params.end, params.points)
    record = ld.solve(system, times, start=start, order="flow")
    expected = predictions(system, start.state)
    measured = flattest_point(record, float(expected["times_exact"].max()))
    curve = record[["error"]].drop_vars("step").drop_attrs(deep=False)
    return curve.merge(expected).assign({**measured, "N": system.dim, "sigma_J": sigma_J})


def draw(data: xr.Dataset) -> Figure:
    """Left: the plateaus. Right: by how much each formula misses the exact fixed point."""
    figure, (left, right) = panels(2)
    for k, L in enumerate(data["L"].values):
        one, color = data.sel(L=L), f"C{k}"
        left.plot(data["time"], one["error"], color=color, lw=1.4, label=_label(one))
        left.axhline(float(one["error_95"]), color=color, ls="--", lw=1.0)
        left.axhline(float(one["error_exact"]), color=color, ls=":", lw=1.4)
    heights = data["error_exact"].values
    low, high = heights.min(), heights.max()
    left.set(ylim=(1.1 * low - 0.1 * high, 1.6 * high - 0.6 * low))
    left.set(xlabel="time [steps / N]", ylabel="generalisation error")
    styles = {"ODE": {}, "Eq. 95": {"ls": "--"}, "exact fixed point": {"ls": ":"}}
    legend(left, styles, fontsize=7, ncols=2, loc="upper right")
    left.set_title(f"K = M = {data.attrs['M']}, N = {int(data['N'].max())}, flow", fontsize=9)
    _draw_misses(right, data)
    return figure


def _label(one: xr.Dataset) -> str:
    unusual = float(one["sigma_J"]) != SIGMA_J
    return f"L = {int(one['L'])}" + f", $\\sigma_J$ = {float(one['sigma_J']):g}" * unusual


def _draw_misses(axis, data: xr.Dataset) -> None:
    rows = (
        ("error_95", "Eq. 95", "s"),
        ("error_99", "Eq. 99, corrected", "^"),
        ("height", "ODE", "o"),
    )
    for name, label, marker in rows:
        miss = np.abs(data[name] / data["error_exact"] - 1)
        axis.plot(data["L"], miss, marker, ms=5, ls="none", label=label)
    second = data["uneven_1"] ** 2
    axis.plot(data["L"], second, color="0.5", lw=1, ls="--", label="unevenness of T, squared")
    axis.set(xscale="log", yscale="log", xlabel="levels L")
    axis.set_ylabel("relative distance from the fixed point")
    axis.set_xticks(data["L"].values, [str(L) for L in data["L"].values])
    axis.set_xticks([], minor=True)
    legend(axis, fontsize=7, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))


def check(data: xr.Dataset) -> list[Claim]:
    """For each L the exact fixed point, and Eq. 95."""
    return [found for L in data["L"].values for found in _level(data.sel(L=L))]


def _level(one: xr.Dataset) -> list[Claim]:
    settled, name = float(one["distance"]), f"L = {int(one['L'])}: error on the plateau"
    exact = claim(f"{name}, exact fixed point", "Fig. 17; fixed point of the flow", kind="finding")
    return [
        exact.equals(one["height"], one["error_exact"], within=settled, because=SETTLED),
        claim(f"{name}, approximate fixed point", "Eq. 95, Fig. 17").equals(
            one["height"],
            one["error_95"],
            within=settled + float(one["error_95"] * one["uneven_1"] ** 2),
            because="unevenness of T, squared",
        ),
    ]
