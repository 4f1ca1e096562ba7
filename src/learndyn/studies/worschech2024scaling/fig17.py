"""Fig. 17: the plateau of the error against the approximate fixed point of Eq. 95.

One start per L, in the flow limit. The quick preset has two numbers of levels. The paper preset has
L = 100 besides those of the paper, whose powers of the covariance end near L = 12; it starts at the
σ_J of Fig. 5, since at σ_J = 0.01 the students part before the slow levels settle. N is rounded
down to a multiple of L.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _erf

TITLE = "Plateau of the error against its approximate and its exact fixed point (Fig. 17)"
DIFFERS = (
    "L = 100 is added to the paper's 2, 8, 10, 12, with σ_J = 10⁻⁶ instead of 0.01; N is "
    "rounded down to a multiple of L"
)
CLAIMS = {
    "exact": claim("L = {L}: error on the plateau, exact fixed point",
                   "Fig. 17; fixed point of the flow", kind="finding", because=_erf.SETTLED),
    "approximate": claim("L = {L}: error on the plateau, approximate fixed point",
                         "Eq. 95, Fig. 17", because="unevenness of T, squared"),
}  # fmt: skip


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
    """The flow from one start per L, and what is predicted for its teacher."""
    pairs = [*zip(params.levels, params.sigma_J, strict=True)]
    rows = [_one(params, L, sigma_J) for L, sigma_J in cases(pairs, report)]
    return xr.concat(rows, xr.Variable("L", list(params.levels))).assign_attrs(M=params.M)


def _one(params: Params, L: int, sigma_J: float) -> xr.Dataset:
    system = _erf.plateau_system(L, params.M, params.N, sigma_J)
    start = ld.start(system, key=params.key)
    times = np.linspace(0, params.end, params.points)
    record = ld.solve(system, times, start=start, order="flow")
    expected = _erf.predictions(system, start.state)
    measured = _erf.flattest_point(record, float(expected["times_exact"].max()))
    curve = record[["error"]].drop_vars("step").drop_attrs(deep=False)
    return curve.merge(expected).assign({**measured, "N": system.dim, "sigma_J": sigma_J})


def draw(data: xr.Dataset) -> Figure:
    """Left: the plateaus. Right: by how much each formula misses the exact fixed point."""
    figure, (left, right) = panels(2)
    for k, L in enumerate(data["L"].values):
        one, color, sigma_J = data.sel(L=L), f"C{k}", float(data["sigma_J"].sel(L=L))
        label = f"L = {L}" + f", $\\sigma_J$ = {sigma_J:g}" * (sigma_J != _erf.SIGMA_J)
        left.plot(data["time"], one["error"], color=color, lw=1.4, label=label)
        left.axhline(float(one["error_95"]), color=color, ls="--", lw=1.0)
        left.axhline(float(one["error_exact"]), color=color, ls=":", lw=1.4)
    low, high = float(data["error_exact"].min()), float(data["error_exact"].max())
    left.set(ylim=(1.1 * low - 0.1 * high, 1.6 * high - 0.6 * low))
    left.set(xlabel="time [steps / N]", ylabel="generalisation error")
    styles = {"ODE": {}, "Eq. 95": {"ls": "--"}, "exact fixed point": {"ls": ":"}}
    legend(left, styles, fontsize=7, ncols=2, loc="upper right")
    left.set_title(f"K = M = {data.attrs['M']}, N = {int(data['N'].max())}, flow", fontsize=9)
    _draw_misses(right, data)
    return figure


def _draw_misses(axis: Axes, data: xr.Dataset) -> None:
    looks = {"error_95": ("Eq. 95", "s"), "error_99": ("Eq. 99, corrected", "^"),
             "height": ("ODE", "o")}  # fmt: skip
    for name, (label, marker) in looks.items():
        miss = np.abs(data[name] / data["error_exact"] - 1)
        axis.plot(data["L"], miss, marker, ms=5, ls="none", label=label)
    second = data["uneven_1"] ** 2
    axis.plot(data["L"], second, color="0.5", lw=1, ls="--", label="unevenness of T, squared")
    axis.set(xscale="log", yscale="log", xlabel="levels L")
    axis.set_ylabel("relative distance from the fixed point")
    axis.set_xticks(data["L"].values, [str(L) for L in data["L"].values])
    axis.set_xticks([], minor=True)
    legend(axis, fontsize=7, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """For each L the exact fixed point, and Eq. 95."""
    return [row for L in data["L"].values for row in _level(data.sel(L=L))]


def _level(one: xr.Dataset) -> list[Claim]:
    exact, approximate = (CLAIMS[name].format(L=int(one["L"])) for name in CLAIMS)
    height, distance, error = one["height"], float(one["distance"]), one["error_95"]
    second_order = float(error * one["uneven_1"] ** 2)
    return [
        exact.equals(height, one["error_exact"], distance),
        approximate.equals(height, error, distance + second_order),
    ]
