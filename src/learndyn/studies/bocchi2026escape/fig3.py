"""Fig. 3: the solution that a start selects, and how the trajectory comes to it.

The two panels of the paper, and the tail that they do not show: for p > p* the distance falls only
as 1/t. A start that is not matched comes to the distance between its own solution and the
predicted one, along a known tail. The quick preset has the paper's sizes and fewer points.

Notes: docs/results/bocchi2026escape/fig3/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import ode, small_overlaps
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic

TITLE = "Distance to the predicted zero-error solution (p = 6, p* = 3)"
DIFFERS = (
    "the number of starts and the times are not stated; here 11 starts, shown to α = 6000 and "
    "followed to 10⁵"
)
LEFT, NEXT = "Fig. 3 left, Eqs. 19, 20", "next order k/t of the tail, t = ηα at the window's start"
CLAIMS = {
    "matched": claim("the matched start reaches the predicted solution along a tail 1/t: growth of "
                     "1/distance over the rate 32 [p+2]/(p^(3/2) p* (p−p*))", LEFT, because=NEXT),
    "other": claim("a start that is not matched comes to the distance of its own solution: growth "
                   "of 1/(1 − squared distance over separation) over the rate "
                   "32 [p+2]/(p p* (p−p*)), farthest from 1", LEFT, because=NEXT),
    "error": claim("every error goes to zero along a tail 1/t²: growth of 1/√error over the "
                   "predicted rate, farthest from 1", "Fig. 3 right", because=NEXT),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure."""

    p: int = 6
    p_star: int = 3
    eta: float = 0.01
    epsilon: float = 0.01
    starts: int = 6
    alpha_shown: float = 6_000.0
    alpha: float = 100_000.0
    points: int = 61
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(starts=11, points=201)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE from several starts; the first is the one whose solution is predicted."""
    size = params.p, params.p_star, params.epsilon
    states = [small_overlaps(*size, 1000 * params.key + i) for i in range(params.starts)]
    shown = np.linspace(0, params.alpha_shown, params.points)
    tail = np.geomspace(params.alpha_shown, params.alpha, params.points // 2)
    times = np.unique(np.concatenate([shown, tail, [params.alpha / 2]]))
    solve = lambda state: ode(state, params.eta, times, 10_000, rtol=1e-10, atol=1e-13)
    solved = [solve(state)[["R", "error"]] for state in cases(states, report)]
    records = xr.concat(solved, "start")
    S = [solutions.polar_factor(state.R[0]) for state in states]
    ends = np.stack([solutions.solution_overlaps(each)[0] for each in S])
    target = xr.DataArray(ends, dims=("start", "student", "teacher"))
    norm = lambda gap: (gap**2).sum(("student", "teacher")) ** 0.5
    data = {
        "distance": norm(records["R"] - target.isel(start=0)),
        "separation": norm(target - target.isel(start=0)),
        "error": records["error"],
    }
    return xr.Dataset(data, attrs=dataclasses.asdict(params))


def draw(data: xr.Dataset) -> Figure:
    """The paper's two panels, and the matched distance beside its predicted tail."""
    figure, axes = panels(3, columns=3, size=(3.9, 3.3))
    shown, alpha = data.sel(time=data["time"] <= data.attrs["alpha_shown"]), r"$\alpha$ = steps / N"
    for axis, curves in zip(axes, (shown["distance"], shown["error"]), strict=False):
        for i in reversed(range(curves.sizes["start"])):
            look = {"color": "0.65", "lw": 1.0} if i else {"color": "black", "lw": 1.6}
            label = {0: "matched start", 1: "other starts"}.get(i)
            axis.plot(curves["time"], curves[i], label=label, **look)
    finish(axes[0], alpha, r"distance $\|\rho(t) - \bar\rho\|$ to the prediction")
    finish(axes[1], alpha, "generalisation error", yscale="log")
    time, distance = data["time"].values[1:], data["distance"].values[0, 1:]
    limit = quadratic.approach_distance(data.attrs["p"], data.attrs["p_star"])
    late = time[time > 1000]
    axes[2].loglog(time, distance, color="black")
    label = rf"{limit:.3g} / $\eta\alpha$ (theory)"
    axes[2].loglog(late, limit / (data.attrs["eta"] * late), "--", color="C3", label=label)
    finish(axes[2], alpha, r"$\|\rho(t) - \bar\rho\|$ of the matched start")
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The approach at the predicted rate, from every start to its own solution."""
    p, q, eta = (data.attrs[name] for name in ("p", "p_star", "eta"))
    others = data.isel(start=slice(1, None))
    short = _tail(1 - (others["distance"] / others["separation"]) ** 2, eta)
    kept = short * quadratic.approach_share(p, q)
    matched = _tail(data["distance"][0], eta) * quadratic.approach_distance(p, q)
    rates = _tail(data["error"] ** 0.5, eta) * np.sqrt(quadratic.tail_risk(p, q, eta))
    farthest = lambda ratios: ratios[abs(ratios - 1).argmax("start")]
    within = quadratic.approach_error(p, q, eta, eta * float(data["time"][-1]))
    return [
        CLAIMS["matched"].equals(matched, 1.0, within),
        CLAIMS["other"].equals(farthest(kept), 1.0, within),
        CLAIMS["error"].equals(farthest(rates), 1.0, within),
    ]


def _tail(curve: xr.DataArray, eta: float) -> xr.DataArray:
    """Growth of 1/curve per t = ηα over the last half of the time."""
    time = curve["time"]
    half = curve.sel(time=time[-1] / 2, method="nearest")
    growth = 1 / curve.isel(time=-1, drop=True) - 1 / half.drop_vars("time")
    return growth / (eta * float(time[-1] - half["time"]))
