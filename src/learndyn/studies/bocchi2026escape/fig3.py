"""Fig. 3: the solution that a start selects, and how the trajectory comes to it.

The two panels of the paper, and the tail that they do not show: for p > p* the distance falls
as 1/t only. A start that is not matched comes to the distance between its own solution and the
predicted one, and how it comes there is known too; that it ends within the triangle inequality of
it, as was said here before, any matrix would. The quick preset has the paper's sizes and fewer
points.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic

TITLE = "Distance to the predicted zero-error solution (p = 6, p* = 3)"


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
    p, q = params.p, params.p_star
    system = quadratic_system(p, q, params.eta, N=10_000)  # N only names the steps
    keys = [1000 * params.key + i for i in range(params.starts)]
    starts = [ld.start(system, state=small_overlaps(p, q, params.epsilon, key)) for key in keys]
    solve = lambda start: ld.solve(system, _times(params), start=start, rtol=1e-10, atol=1e-13)
    solved = [solve(start) for start in cases(starts, report)]
    records = xr.concat([record[["R", "error"]] for record in solved], "start")
    S = [solutions.polar_factor(start.state.R[0]) for start in starts]
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
    shown = data.sel(time=data["time"] <= data.attrs["alpha_shown"])
    _starts(axes[0], shown["distance"])
    _starts(axes[1], shown["error"])
    time, distance = data["time"].values[1:], data["distance"].values[0, 1:]
    limit = quadratic.approach_distance(data.attrs["p"], data.attrs["p_star"])
    late = time > 1000
    axes[2].loglog(time, distance, color="black")
    tail = limit / (data.attrs["eta"] * time[late])
    label = rf"{limit:.3g} / $\eta\alpha$ (theory)"
    axes[2].loglog(time[late], tail, "--", color="C3", label=label)
    axes[0].set_ylabel(r"distance $\|\rho(t) - \bar\rho\|$ to the prediction")
    axes[1].set_ylabel("generalisation error")
    axes[1].set_yscale("log")
    axes[2].set_ylabel(r"$\|\rho(t) - \bar\rho\|$ of the matched start")
    for axis in axes:
        axis.set_xlabel(r"$\alpha$ = steps / N")
    legend(axes[0])
    legend(axes[2])
    return figure


def _starts(axis: Axes, curves: xr.DataArray) -> None:
    for i in reversed(range(curves.sizes["start"])):
        look = {"color": "0.65", "lw": 1.0} if i else {"color": "black", "lw": 1.6}
        label = {0: "matched start", 1: "other starts"}.get(i)
        axis.plot(curves["time"], curves[i], label=label, **look)


def check(data: xr.Dataset) -> list[Claim]:
    """The approach at the predicted rate, from every start to its own solution."""
    p, q, eta = (data.attrs[name] for name in ("p", "p_star", "eta"))
    others = data.isel(start=slice(1, None))
    short = _tail(1 - (others["distance"] / others["separation"]) ** 2, eta)
    kept = short * quadratic.approach_share(p, q)
    matched = _tail(data["distance"][0], eta) * quadratic.approach_distance(p, q)
    rates = _tail(data["error"] ** 0.5, eta) * np.sqrt(quadratic.tail_risk(p, q, eta))
    left_out = quadratic.approach_error(p, q, eta, eta * float(data["time"][-1]))
    because = "next order k/t of the tail, t = ηα at the window's beginning"
    said = "the matched start reaches the predicted solution: 1/distance grows at the rate "
    said += "32 (p+2)/(p^(3/2) p* (p−p*)) of a tail 1/t, ratio of measured to predicted"
    apart = "a start that is not matched comes to the distance of its own solution: 1/(1 − squared "
    apart += "distance over separation) grows at the rate 32 (p+2)/(p p* (p−p*)), farthest "
    every = "every error goes to zero: 1/√error grows at the rate of the tail 1/t², largest "
    left = "Fig. 3 left, Eqs. 19, 20"
    return [
        claim(said, left).equals(matched, 1.0, within=left_out, because=because),
        claim(f"{apart}ratio of measured to predicted", left).equals(
            kept[abs(kept - 1).argmax("start")], 1.0, within=left_out, because=because
        ),
        claim(f"{every}ratio of measured to predicted", "Fig. 3 right").equals(
            rates[abs(rates - 1).argmax("start")], 1.0, within=left_out, because=because
        ),
    ]  # fmt: skip


def _tail(curve: xr.DataArray, eta: float) -> xr.DataArray:
    """Growth of 1/curve per t = ηα over the last half of the time."""
    time = curve["time"]
    half = curve.sel(time=time[-1] / 2, method="nearest")
    growth = 1 / curve.isel(time=-1, drop=True) - 1 / half.drop_vars("time")
    return growth / (eta * float(time[-1] - half["time"]))


def _times(params: Params) -> np.ndarray:
    shown = np.linspace(0, params.alpha_shown, params.points)
    tail = np.geomspace(params.alpha_shown, params.alpha, params.points // 2)
    return np.unique(np.concatenate([shown, tail, [params.alpha / 2]]))
