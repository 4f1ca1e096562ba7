"""Eq. 22: the effective depth, measured from learning curves of real networks.

A balanced network's stiffness p is the slope of log[(dσ̄/dt)/(σ̄_* − σ̄)] in log σ̄ (Eq. 21). It is
read off the curve of one mode, without knowledge of depth and rule, and turned into the depth of
the gradient-descent network of the same stiffness. The paper has no figure of this; the paper
preset has more networks and points.
"""

import dataclasses
from typing import cast

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.curvature2020linear._model import balanced_map
from learndyn.studies.registry import Report, cases
from learndyn.theory.deep_linear import map_dynamics

TITLE = "Effective depth of networks under curvature correction, from their learning curves"
DIFFERS = "Eq. 22 has no figure; here 13 networks of depths 2 to 8"
WINDOW = (0.1, 0.9)  # of σ̄/σ̄_*, where the slope is read
CLAIMS = {
    "depth": claim("depth {depth}, {rule}: effective depth from the learning curve", "Eqs. 21, 22",
                   because="slope of a cubic spline, h³ with h the step over the mode's time "
                   "scale, × 10 for the derivatives; × d_eff²/2 from stiffness to depth"),
    "below": claim("the effective depth stays below q: largest d_eff/q measured",
                   "Eq. 22, Sec. 3.2", because="that of the measured depths"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Depths and q of the rules, in pairs; q = 0 stands for no correction."""

    depth: tuple[int, ...] = (2, 3, 4, 3)
    q: tuple[float, ...] = (2.0, 2.0, 3.0, 0.0)
    target: float = 1.3
    other: float = 0.7
    start: float = 0.02
    points: int = 401
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        depth=(2, 3, 4, 6, 8, 2, 3, 4, 6, 2, 3, 4, 4),
        q=(2.0, 2.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 0.0, 0.0, 0.0, 1.0),
        points=801,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Learning curves of balanced networks, from just above zero to the target."""
    jobs = list(zip(params.depth, params.q, strict=True))
    rows = [_curve(params, depth, 1 / q if q else 0.0) for depth, q in cases(jobs, report)]
    return xr.concat(rows, "network").assign_attrs(target=params.target)


def _curve(params: Params, depth: int, power: float) -> xr.Dataset:
    """σ̄(t) of the stronger of two modes, on even times."""
    strengths = np.array([params.target, params.other])
    p = float(map_dynamics.stiffness(depth, power))
    rate = float(map_dynamics.depth_calibrated_rate(1.0, depth, power))
    half = map_dynamics.half_maximum_time(params.target, params.start * params.target, p, rate)
    times = np.linspace(0, float(half) + 4 / (rate * params.target**p), params.points)
    first = params.start * strengths
    curve = balanced_map(strengths.tolist(), first, depth, power, times, params.key)[:, 0]
    table = {"time": ("step", times), "map": ("step", curve)}
    return xr.Dataset(table | {"depth": depth, "power": power, "unit": rate * params.target**p})


def draw(data: xr.Dataset) -> Figure:
    """Slopes in the curves, and effective depth against depth."""
    figure, (left, right) = panels(2, size=(4.8, 3.8))
    colors = {power: f"C{i}" for i, power in enumerate(np.unique(data["power"].values))}
    for index in range(data.sizes["network"]):
        one = data.isel(network=index)
        x, rate = _rates(one, data.attrs["target"])
        color = colors[float(one["power"])]
        name = f"{_rule(float(one['power']))}, d = {int(one['depth'])}"
        left.loglog(x, rate / rate[-1], color=color, alpha=2 / int(one["depth"]), label=name)
        right.plot(int(one["depth"]), _measured(one, data.attrs["target"]), "o", color=color)
    depths = np.linspace(1, max(8, int(data["depth"].max())), 100)
    for power, color in colors.items():
        line = map_dynamics.effective_depth(depths, power)
        right.plot(depths, line, color=color, label=f"Eq. 22, {_rule(power)}")
        if power:
            right.axhline(1 / power, color=color, linestyle=":", linewidth=0.8)
    left.set(xlabel="map $\\barσ/\\barσ_*$",
             ylabel="$\\dot{\\barσ}/(\\barσ_* - \\barσ)$, 1 at the end of the window")  # fmt: skip
    right.set(xlabel="depth $d$", ylabel="effective depth, measured (circles)", ylim=(0.8, 5))
    legend(left, fontsize=7)
    legend(right, fontsize=7)
    return figure


def _rule(power: float) -> str:
    return f"q = {1 / power:.3g}" if power else "SGD"


def check(data: xr.Dataset) -> list[Claim]:
    """Eq. 22 for every network, and the bound by q."""
    networks = [data.isel(network=i) for i in range(data.sizes["network"])]
    depths = [_measured(one, data.attrs["target"]) for one in networks]
    rows, ratios = [], []
    for measured, one in zip(depths, networks, strict=True):
        depth, power = int(one["depth"]), float(one["power"])
        sentence = CLAIMS["depth"].format(depth=depth, rule=_rule(power))
        expected = map_dynamics.effective_depth(depth, power)
        rows.append(sentence.equals(measured, expected, _error(one)))
        ratios += [measured * power] if power else []
    return [*rows, CLAIMS["below"].at_most(max(ratios), 1.0, max(map(_error, networks)))]


def _error(one: xr.Dataset) -> float:
    h = float(one["time"][1] - one["time"][0]) * float(one["unit"])
    return map_dynamics.spline_depth_error(h, int(one["depth"]), float(one["power"]))


def _rates(one: xr.Dataset, target: float) -> tuple[np.ndarray, np.ndarray]:
    """σ̄/σ̄_* and (dσ̄/dt)/(σ̄_* − σ̄) inside the window."""
    curve = one["map"].values
    slope = CubicSpline(one["time"].values, curve)(one["time"].values, 1)
    x = curve / target
    inside = (x > WINDOW[0]) & (x < WINDOW[1])
    return x[inside], slope[inside] / (target - curve[inside])


def _measured(one: xr.Dataset, target: float) -> float:
    """The depth at which gradient descent has the stiffness of the curve."""
    x, rate = _rates(one, target)
    p = float(np.polyfit(np.log(x), np.log(rate), 1)[0])
    excess = lambda inverse: float(map_dynamics.stiffness(1 / inverse, 0.0)) - p
    # Slopes of a linear curve scatter around 0, which is depth 1: clipped there.
    return 1 / cast(float, brentq(excess, 1e-9, 1.0)) if p > 0 else 1.0
