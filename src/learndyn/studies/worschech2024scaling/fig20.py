"""Fig. 20: the late stage of K = M = 2, first order in the overlaps beside the exact end.

The flow is integrated from a drawn teacher and student; the approximations start from its state at
α₀. Both presets have the paper's sizes, the quick preset fewer points.
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
from learndyn.theory.committee.late_stage import erf_symmetric

TITLE = "The late stage of K = M = 2: Eqs. 121 and 122, and what they leave out"
DIFFERS = "none known: sizes are those that the paper states"
M, ETA, BETA = _erf.LATE_M, _erf.LATE_ETA, _erf.LATE_BETA
EXCELLENT = 0.1  # what the paper's word is read as
CLAIMS = {
    "slower": claim("convergence slows down with L: error at the end, L = {many} over L = {few}",
                    "Fig. 20 left, App. C.5", because="an inequality"),
    "agrees": claim("L = {L}: Eq. 122 agrees excellently with Eq. 121 along the flow, largest "
                    "relative gap", "Fig. 20, App. C.5",
                    because=f"'excellent agreement' read as {100 * EXCELLENT:g} %"),
    "hessian": claim("L = {L}: the Hessian at the teacher gives the flow, largest relative gap",
                     "leading order in J − B, from α₀", kind="finding",
                     because="next order: |J − B|/|B| at α₀"),
    "above": claim("L = {L}: gap of Eq. 121 to the error at α = {end:g} is above |J − B|/|B|",
                   "never exact: (r − t)², which Eq. 121 drops, is of the order of e",
                   kind="finding", because="an inequality"),
    "rate": claim("L = {L}: decay rate at the end over a λ_L, the smaller group", "Eqs. 17, 122",
                  because="T drawn instead of typical, and next order |J − B|/|B|"),
}  # fmt: skip
_FIRST = "first order in the overlaps, from α₀ on: the two differ by more than a tenth"
_FAILING = {CLAIMS["agrees"].format(L=L).statement: _FIRST for L in (3, 9)}
FAILS = {"quick": _FAILING, "paper": _FAILING}


@dataclasses.dataclass(frozen=True)
class Params:
    """Numbers of eigenvalues, dimension, last α, where the approximations begin, points in α."""

    levels: tuple[int, ...] = (3, 9)
    N: int = 9000
    end: float = 3000.0
    alpha_0: float = 1000.0
    points: int = 121
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(points=301)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow and the approximations for every L."""
    times, levels = np.linspace(0, params.end, params.points), cases(params.levels, report)
    rows = [_erf.late_stage(L, params.N, times, params.alpha_0, params.key) for L in levels]
    data = xr.concat(rows, xr.Variable("L", list(params.levels)))
    return data.assign_attrs(N=params.N, alpha_0=params.alpha_0, key=params.key)


def draw(data: xr.Dataset) -> Figure:
    """The error, the approximations from α₀ for every L, and the gaps of the two expansions."""
    figure, (first, *middle, last) = panels(2 + data.sizes["L"])
    for i, L in enumerate(data["L"].values):
        first.plot(data["time"], data["error"].sel(L=L), color=f"C{i}", label=f"L = {L}")
        _draw_late(middle[i], _late(data).sel(L=L))
        _draw_gaps(last, _late(data).sel(L=L), f"C{i}")
    first.axvline(data.attrs["alpha_0"], color="0.6", ls=":", lw=1, label="α₀")
    first.set(yscale="log", xlabel="α [steps / N]", ylabel=r"generalisation error $\epsilon_g$")
    first.set_title(f"flow, K = M = {M}, η = {ETA:g}, β = {BETA:g}, N = {data.attrs['N']}", size=9)
    legend(first)
    last.set(yscale="log", xlabel="α [steps / N]", ylabel="relative gap to the flow's error")
    last.set_ylim(top=5)
    last.set_title("Expansions at the flow's own state", size=9)
    styles = {"leading order in J − B": {"ls": "--"}, "|J − B| / |B|": {"ls": ":", "lw": 1}}
    legend(last, styles, ncols=2)
    return figure


def _draw_late(axis: Axes, late: xr.Dataset) -> None:
    alpha, every = late["time"] - late.attrs["alpha_0"], max(1, late.sizes["time"] // 16)
    axis.plot(alpha, late["error"], color="0.2", lw=1.6, label="flow")
    axis.plot(alpha, late["hessian"], "--", color="C2", lw=1.6, label="Hessian at the teacher")
    axis.plot(alpha, late["eq122"], color="C1", lw=1.2, label="Eq. 122 from α₀")
    points = {"marker": "o", "ls": "", "ms": 3, "color": "C0", "markevery": every}
    axis.plot(alpha, late["eq121"], **points, label="Eq. 121 along the flow")
    axis.set(yscale="log", xlabel="α − α₀ [steps / N]", ylabel=r"$\epsilon_g$")
    axis.set_title(f"L = {int(late['L'])}, from the flow's state at α₀", size=9)
    legend(axis)


def _draw_gaps(axis: Axes, late: xr.Dataset, color: str) -> None:
    label = f"Eq. 121, L = {int(late['L'])}"
    axis.plot(late["time"], _gap(late, "eq121"), color=color, label=label)
    axis.plot(late["time"], _gap(late, "leading"), "--", color=color)
    axis.plot(late["time"], late["distance"], ":", color=color, lw=1)


def _late(data: xr.Dataset) -> xr.Dataset:
    return data.sel(time=slice(data.attrs["alpha_0"], None))


def _gap(data: xr.Dataset, name: str) -> xr.DataArray:
    return abs(data[name] / data["error"] - 1)


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The paper's comparison, the exact end, and what first order leaves out."""
    late, (few, *_, many) = _late(data), data["L"].values
    end = data["error"].isel(time=-1)
    return [
        CLAIMS["slower"].format(few=few, many=many).at_least(end.sel(L=many) / end.sel(L=few), 1.0),
        *(row for L in data["L"].values for row in _approximations(late.sel(L=L))),
        _rate(late.isel(L=0)),
    ]


def _approximations(late: xr.Dataset) -> list[Claim]:
    sentence = lambda name: CLAIMS[name].format(L=int(late["L"]), end=float(late["time"][-1]))
    first, last = late.isel(time=0), late.isel(time=-1)
    return [
        sentence("agrees").at_most(abs(late["eq122"] / late["eq121"] - 1).max(), EXCELLENT),
        sentence("hessian").equals(_gap(late, "hessian").max(), 0.0, first["distance"]),
        sentence("above").at_least(_gap(last, "eq121"), last["distance"]),
    ]


def _rate(late: xr.Dataset) -> Claim:
    """The last decay rate of the smallest L, whose slowest level is alone by then."""
    L, N, alpha = int(late["L"]), int(late.attrs["N"]), late["time"].values
    error, lam = late["error"].values, ld.PowerLaw(N, L, BETA).values[-1]
    unit = erf_symmetric.rate_unit(M, ETA) * lam
    drawn, expected = float(late["slow_rate"]) / unit, erf_symmetric.late_exponents(M)[0]
    measured = -np.log(error[-1] / error[-2]) / (alpha[-1] - alpha[-2]) / unit
    tolerance = abs(drawn - expected) + expected * float(late["distance"][-1])
    return CLAIMS["rate"].format(L=L).equals(measured, expected, tolerance)
