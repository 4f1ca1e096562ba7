"""Fig. 3: the solution that a start selects, and how the trajectory comes to it.

The two panels of the paper, and the tail that they do not show: for p > p* the distance falls
as 1/t only. The quick preset has the paper's sizes and fewer points.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic

TITLE = "Distance to the predicted zero-error solution (p = 6, p* = 3)"
BLACK, GREY = "black", "0.65"


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
    states = [
        small_overlaps(p, q, params.epsilon, key=1000 * params.key + i)
        for i in range(params.starts)
    ]
    solved = []
    for i, state in enumerate(states):
        solved.append(ld.solve(system, _times(params), start=ld.start(system, state=state)))
        report((i + 1) / params.starts)
    records = xr.concat([record[["R", "error"]] for record in solved], "start")
    ends = [solutions.solution_overlaps(solutions.polar_factor(state.R[0]))[0] for state in states]
    target = xr.DataArray(np.stack(ends), dims=("start", "student", "teacher"))
    norm = lambda gap: (gap**2).sum(("student", "teacher")) ** 0.5
    data = {
        "distance": norm(records["R"] - target.isel(start=0)),
        "own_distance": norm(records["R"] - target),
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
    axes[2].loglog(time, distance, color=BLACK)
    tail = limit / (data.attrs["eta"] * time[late])
    label = rf"{limit:.3g} / $\eta\alpha$ (theory)"
    axes[2].loglog(time[late], tail, "--", color="C3", label=label)
    axes[0].set_ylabel(r"distance $\|\rho(t) - \bar\rho\|$ to the prediction")
    axes[1].set_ylabel("generalisation error")
    axes[1].set_yscale("log")
    axes[2].set_ylabel(r"$\|\rho(t) - \bar\rho\|$ of the matched start")
    for axis in axes:
        axis.set_xlabel(r"$\alpha$ = steps / N")
    for axis in (axes[0], axes[2]):
        axis.legend(frameon=False, fontsize=8)
    return figure


def _starts(axis: Axes, curves: xr.DataArray) -> None:
    for i in reversed(range(curves.sizes["start"])):
        label = {0: "matched start", 1: "other starts"}.get(i)
        color = GREY if i else BLACK
        axis.plot(
            curves["time"], curves[i], color=color, linewidth=1.6 if i == 0 else 1.0, label=label
        )


def check(data: xr.Dataset) -> list[Claim]:
    """The approach at the predicted rate, from every start to its own solution."""
    p, q, eta = (data.attrs[name] for name in ("p", "p_star", "eta"))
    end, others = data.isel(time=-1), data.isel(time=-1, start=slice(1, None))
    nearest = int(others["distance"].argmin("start"))
    matched = _tail(data["distance"][0], eta) * quadratic.approach_distance(p, q)
    rates = _tail(data["error"] ** 0.5, eta) * np.sqrt(quadratic.tail_risk(p, q, eta))
    left_out = 2 * quadratic.approach_correction(p, q, eta) / (eta * float(end["time"]))
    next_from = "next order k/t of the tail, t = ηα at the window's beginning"
    return [
        Claim(
            "the matched start reaches the predicted solution: 1/distance grows at the rate "
            "32 (p+2)/(p^(3/2) p* (p−p*)) of a tail 1/t, ratio of measured to predicted",
            "Fig. 3 left, Eqs. 19, 20",
            "=",
            1.0,
            float(matched),
            left_out,
            next_from,
        ),
        Claim(
            "a start that is not matched keeps a finite distance, that of its own solution: "
            "the nearest of them",
            "Fig. 3 left, Eqs. 19, 20",
            "=",
            float(others["separation"][nearest]),
            float(others["distance"][nearest]),
            float(others["own_distance"][nearest]),
            "triangle inequality: what is left to its own solution",
        ),
        Claim(
            "every error goes to zero: 1/√error grows at the rate of the tail 1/t², largest "
            "ratio of measured to predicted",
            "Fig. 3 right",
            "=",
            1.0,
            float(rates[abs(rates - 1).argmax("start")]),
            left_out,
            next_from,
        ),
    ]


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
