"""Fig. 2: learning curves and losses of balanced networks by stiffness.

Lines are the closed forms of Eq. 21, markers real networks of a depth and a rule that have the
stiffness; p = 2 needs infinite depth and has none. The caption starts at zero for p < 1, where no
network can start: zero is a fixed point of its weights. The networks begin at a small fraction of
the target instead, on a curve that is the caption's but for a delay that is known.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.simulation.flow import RTOL
from learndyn.studies.claims import Claim, claim
from learndyn.studies.curvature2020linear._model import linear_system, target_with
from learndyn.studies.registry import Report, cases
from learndyn.theory.deep_linear import map_dynamics

TITLE = "Learning curves and losses for stiffness p from 0 to 2"
SLACK = 1e4 * RTOL  # steps of the integrator, times the growth of their errors
SLACK_FROM = "rtol 1e-10 of the integrator × 1e4 for the number of steps and the growth of errors"


@dataclasses.dataclass(frozen=True)
class Params:
    """Depths and powers 1/q that belong together by place, targets, starts over targets."""

    depth: tuple[int, ...] = (2, 2, 4, 2, 4)
    power: tuple[float, ...] = (1.0, 0.5, 0.5, 0.0, 0.0)
    targets: tuple[float, ...] = (2.0, 1.4, 1.0)
    start: float = 0.01
    small_start: float = 1e-8
    points: int = 101
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        depth=(2, 2, 3, 4, 2, 3, 4, 6),
        power=(1.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0),
        targets=(2.0, 1.6, 1.3, 1.0, 0.8),
        points=201,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Closed forms from the caption's starts and from the networks', and the networks."""
    jobs = [*zip(map(float, params.depth), params.power, strict=True), (np.inf, 0.0)]
    rows = [_curves(params, *job) for job in cases(jobs, report)]
    return xr.concat(rows, "case").assign_coords(target=("mode", list(params.targets)))


def _curves(params: Params, depth: float, power: float) -> xr.Dataset:
    """One stiffness; times in units of 1/η̄, until the slowest mode has converged."""
    targets = np.asarray(params.targets)
    p = float(map_dynamics.stiffness(depth, power))
    first = targets * (params.start if p >= 1 else params.small_start)
    caption = targets * (params.start if p >= 1 else 0.0)
    half = map_dynamics.half_maximum_time(targets, first, p)
    times = _times(params.points, half, half.max() + 5 / targets.min() ** p)
    found = _network(params, depth, power, times, first) if np.isfinite(depth) else _map(
        times, targets, first, p
    )  # fmt: skip
    curve = lambda start: map_dynamics.solution(times[:, None], targets, start, p)
    shapes = {"time": ("step", times), "half": ("mode", half), "first": ("mode", first)}
    curves = {"found": found, "closed": curve(first), "caption": curve(caption)}
    table = shapes | {name: (("step", "mode"), value) for name, value in curves.items()}
    return xr.Dataset(table | {"p": p, "depth": float(depth), "power": power})


def _times(points: int, half: np.ndarray, end: float) -> np.ndarray:
    """A grid that contains the predicted times, where nothing is interpolated if they are right."""
    special = np.unique(np.round(half, 12))  # one and the same for p = 0
    return np.union1d(np.linspace(0, end, points - len(special)), special)


def _network(
    params: Params, depth: float, power: float, times: np.ndarray, first: np.ndarray
) -> np.ndarray:
    """σ̄(t) of a balanced network, its time rescaled to η̄ = 1."""
    depth, n = int(depth), len(params.targets)
    rule = ld.NaturalGradient(1.0, power=power) if power else ld.GradientDescent(1.0)
    layers = np.repeat(first[:, None] ** (1 / depth), depth, axis=1)
    target = target_with(params.targets, n, n, params.key)
    system = linear_system(rule, target, (depth + 1) * [n], ld.Aligned(layers))
    rate = float(map_dynamics.depth_calibrated_rate(1.0, depth, power))
    return ld.simulate(system, times / rate, method="flow", key=params.key)["map"].values[0]


def _map(times: np.ndarray, targets: np.ndarray, first: np.ndarray, p: float) -> np.ndarray:
    """Eq. 21 integrated, where no network has its stiffness."""
    field = lambda _, sigma: map_dynamics.map_velocity(np.maximum(sigma, 0), targets, p, 1.0)
    span = (0.0, times[-1])
    found = solve_ivp(field, span, first, "DOP853", times, rtol=RTOL, atol=RTOL * first.min())
    return found.y.T


def draw(data: xr.Dataset) -> Figure:
    """Learning curves above losses, as in the paper, one column a stiffness."""
    columns = data.sizes["case"]
    figure, axes = panels(2 * columns, columns=columns, size=(2.6, 2.5))
    for case in range(columns):
        one = data.isel(case=case)
        _learning(axes[case], one)
        _losses(axes[columns + case], one)
    axes[0].set_ylabel("map $\\barσ(t)$")
    axes[columns].set_ylabel("loss $(\\barσ - \\barσ_*)^2/2$")
    network, half = {"marker": ".", "ls": "none"}, {"marker": "o", "color": "black"}
    styles = {"closed form": {}, "network (p = 2: ODE)": network}
    styles["half-maximum"] = half | {"fillstyle": "none"}
    legend(axes[0], styles, fontsize=6.5, loc="lower right")
    return figure


def _learning(axis: Axes, data: xr.Dataset) -> None:
    times, every = data["time"].values, max(1, data.sizes["step"] // 20)
    for mode in range(data.sizes["mode"]):
        color, target = f"C{mode}", float(data["target"][mode])
        axis.axhline(target, color=color, linestyle="--", linewidth=0.7)
        axis.plot(times, data["caption"][:, mode], color=color, linewidth=1.2)
        axis.plot(times, data["found"][:, mode], ".", color=color, markersize=4, markevery=every)
        half = float(data["half"][mode])
        axis.plot(half, target / 2, "o", color="black", fillstyle="none", markersize=6)
    axis.set_title(_name(data), fontsize=8)
    axis.set_xlabel("time [$1/\\barη$]")


def _losses(axis: Axes, data: xr.Dataset) -> None:
    every = max(1, data.sizes["step"] // 20)
    gaps = ((data[name] - data["target"]) ** 2 / 2 for name in ("caption", "found"))
    lines, marks = (gap.transpose("mode", "step").values for gap in gaps)
    for mode, (line, mark) in enumerate(zip(lines, marks, strict=True)):
        axis.plot(data["time"], line, color=f"C{mode}", linewidth=1.2)
        axis.plot(data["time"], mark, ".", color=f"C{mode}", markersize=4, markevery=every)
    axis.set_xlabel("time [$1/\\barη$]")


def _name(data: xr.Dataset) -> str:
    p, depth, power = (float(data[name]) for name in ("p", "depth", "power"))
    rule = {0.0: "SGD", 0.5: "√NGD", 1.0: "NGD"}.get(power, f"power {power:.2g}")
    return f"p = {p:.3g}: {rule}, d = {'∞' if np.isinf(depth) else int(depth)}"


def check(data: xr.Dataset) -> list[Claim]:
    """Closed forms, half-maxima and their slope, and the caption's zero starts."""
    return [row for case in range(data.sizes["case"]) for row in _case(data.isel(case=case))]


def _case(one: xr.Dataset) -> list[Claim]:
    p, target = float(one["p"]), one["target"].values
    gap = abs(one["found"] - one["closed"]) / one["target"]
    what = "network" if np.isfinite(one["depth"]) else "integrated Eq. 21"
    nearest = [int(np.argmin(abs(one["time"].values - half))) for half in one["half"].values]
    halves = one["found"].values[nearest, range(len(target))] / target
    times = np.array([_half_maximum(one, mode) for mode in range(len(target))])
    said = lambda text, source: claim(f"{_name(one)}: {text}", source)
    rows = [
        said(f"closed form against {what}, largest |Δσ̄|/σ̄_*", "Eq. 21, Fig. 2").equals(
            gap.max(), 0.0, within=SLACK, because=SLACK_FROM
        ),
        said("σ̄/σ̄_* at the predicted half-maximum, farthest from 1/2", "Fig. 2, circles").equals(
            halves[np.argmax(abs(halves - 0.5))], 0.5, within=SLACK, because=SLACK_FROM
        ),
        said("half-maximum time ∝ σ̄_*^(−p), measured exponent", "Fig. 2, Sec. 3.2").equals(
            np.polyfit(np.log(target), np.log(times), 1)[0], 0.0 - p,
            within=map_dynamics.half_maximum_exponent_error(SLACK, target),
            because="the integrator's 1e-6 in σ̄/σ̄_*, over speed and range of targets",
        ),
    ]  # fmt: skip
    return [*rows, _zero(one, times)] if 0 < p < 1 else rows


def _zero(one: xr.Dataset, times: np.ndarray) -> Claim:
    p, target = float(one["p"]), one["target"].values
    known = -map_dynamics.time_to(one["first"].values, target, 0.0, p)
    miss = times - map_dynamics.half_maximum_time(target, 0.0, p) - known
    said = f"{_name(one)}: half-maximum from zero and from a small start differ by the known time "
    said += "between both starts; largest miss over η̄ σ̄_*^(−p)"
    return claim(said, "Fig. 2, initial conditions").equals(
        np.max(abs(miss) * target**p), 0.0, within=4 * SLACK,
        because="the integrator's 1e-6 in σ̄/σ̄_*, over a speed of at least 1/4",
    )  # fmt: skip


def _half_maximum(one: xr.Dataset, mode: int) -> float:
    """Where a spline through the measured curve crosses half of the target."""
    curve, half = one["found"][:, mode].values, float(one["target"][mode]) / 2
    return float(CubicSpline(one["time"].values, curve - half).roots(extrapolate=False)[0])
