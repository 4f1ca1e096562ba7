"""Phases of one example over ηλ₀, width and target (ours), with the boundaries of the theorems.

The diagram is the map's, from λ₀ = 1, c = 1/m and the first output 0 (1 where the target is 0).
Dots are quadratic twins of relu networks, trained from random weights; each is compared with as
many steps of the map from its own start, and with the thresholds 2 (Theorems B.3.1, 3.3.1) and 4
(Theorem B.7.1), which are exact for y = 0 and limits of m → ∞ otherwise. Their ηλ₀ keep 0.2 away
from 2 and 4. Starts that are unfinished end where ηλ is close to 0 or 2. A network that is
unfinished after its steps is in no regime: it is left out of the shares, and counted in the row.
Networks without a unit that is on learn nothing: others are drawn in their place, and the figure
says how many they were.
The quick preset has a coarser grid, and fewer targets, steps of the map and networks.

Notes: docs/results/zhu2024quadratic/phase_diagram/notes.md.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024quadratic import _model
from learndyn.theory.quadratic_model.catapult import Regime, follow
from learndyn.theory.quadratic_model.closed_map import advance

TITLE = "Monotone, catapult and divergent training over learning rate, width and target"
DIFFERS = "ours: the paper has no such figure"
PHASES = (0.3, 1.8), (2.2, 3.8), (4.2, 6.0)  # ηλ₀ of trained networks
UNFINISHED = int(Regime.UNFINISHED)
COLORS = "#9ecae1", "#fdd0a2", "#fc9272", "0.85"
NONE = -1  # regime of a network that is not there
CHAOS = 0.1  # fraction of networks with a target whose regime rounding or small widths may decide
CLAIMS = {
    "map": claim("target {y:g}: fraction of networks of all widths in the regime of the map from "
                 "their start (of {count}; {left} more are unfinished)", "Eqs. 3.11-3.12",
                 kind="theorem", because="the map is exact"),
    "exact": claim("target 0: fraction of networks of width {m} in the regimes by 2 and 4 (of "
                   "{count}; {left} more are unfinished)", "Theorems 3.3.1, B.3.1, B.7.1",
                   kind="theorem", within=Tolerance(0.0, "exact without a target")),
    "thresholds": claim("target {y:g}: fraction of networks of width {m} in the regimes by 2 and 4 "
                        "(of {count}; {left} more are unfinished)", "Theorems 3.3.1, B.3.1, B.7.1",
                        because="thresholds are limits of large widths, and training near 4 is "
                        "chaotic: nine of ten"),
    "gap": claim("target {y:g}: distance of the map's first divergence from 4, at the largest "
                 "width", "Theorems 3.3.1, B.7.1", kind="finding",
                 because="ε = log m/√m, a grid step"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """The grid: values of ηλ₀ in [0.5, 5], widths 10 … 10⁵, targets; trained networks.

    Of each width but the last, `trained` networks in each phase; of the last, `widest`.
    """

    rates: int = 61
    widths: int = 7
    targets: tuple[float, ...] = (0.0, 1.0, 2.0)
    most: int = 2000
    trained_widths: tuple[int, ...] = (10, 100, 1000)
    trained: int = 3
    widest: int = 24
    steps: int = 200
    d: int = 3
    key: int = 0


# 500 × 40 × 5 are 10⁵ starts.
PRESETS = {
    "quick": Params(),
    "paper": Params(
        rates=500, widths=40, targets=(0.0, 0.5, 1.0, 2.0, 4.0), most=5000, trained=30, widest=30
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Regimes of the map on the grid, and of networks in every phase."""
    jobs = [(y, m) for y in params.targets for m in params.trained_widths]
    rows = [_networks(params, y, m) for y, m in cases(jobs, report, end=0.9)]
    data = _model.stacked(rows, target=params.targets, trained_width=params.trained_widths)
    return data.merge(_grid(params))


def _grid(params: Params) -> xr.Dataset:
    v, m = np.linspace(0.5, 5, params.rates), np.geomspace(10, 1e5, params.widths)
    y = np.asarray(params.targets)[:, None, None]
    first = np.where(y == 0, 1.0, -y)
    course = follow(first, 1.0, 1 / m[:, None], y, v, most=params.most)
    table = {"map": (("target", "width", "v"), np.asarray(course.regime, np.int64))}
    return xr.Dataset(table, {"target": list(params.targets), "width": m, "v": v})


def _networks(params: Params, y: float, m: int) -> xr.Dataset:
    """Networks of one width; where it has fewer than others, the rest is `NONE`."""
    rng, most = _model.rng_of(params.key, 2), max(params.trained, params.widest)
    count = params.widest if m == params.trained_widths[-1] else params.trained
    v = np.concatenate([rng.uniform(low, high, count) for low, high in PHASES])
    rows = [(v[i], *_network(params, y, m, v, i)) for i in range(len(v))]
    rows += [(np.nan, NONE, NONE, 0)] * (len(PHASES) * most - len(rows))
    names = "trained_v", "trained_regime", "map_regime", "dead"
    columns = zip(*rows, strict=True)
    return xr.Dataset({n: ("network", list(c)) for n, c in zip(names, columns, strict=True)})


def _network(params: Params, y: float, m: int, v: np.ndarray, i: int) -> tuple[int, int, int]:
    """The regime of a trained twin, and of the map from its start; dead networks before it."""
    x, model, dead = responding(params.d, m, params.key + i, len(v))
    eta, times = float(v[i]) / _model.top_kernel(model, x), np.arange(params.steps + 1.0)
    record = _model.train(_model.half_sum(x, [y]), ld.quadratic(model), model.weights, eta, times)
    r, kernel = (float(record[name][0, 0]) for name in ("residual", "kernel"))
    by_map = _losses(np.float64(r), np.float64(kernel), 1 / m, y, eta, params.steps)
    return _model.regime_of(record["error"].values), _model.regime_of(by_map), dead


def responding(d: int, m: int, seed: int, step: int) -> tuple[np.ndarray, ld.Model, int]:
    """An input and a network that responds to it, by the first of the seeds that has such a pair.

    The third number is how many seeds came before.

    With probability 2^-m all units of a network are off: its kernel is 0, it learns nothing, and
    no learning rate gives it a chosen ηλ₀.
    """
    seeds = itertools.count(seed, step)
    drawn = ((_model.one_example(i, d), _model.two_layers(d, m, i)) for i in seeds)
    tried = ((x, model, dead) for dead, (x, model) in enumerate(drawn))
    return next(each for each in tried if _model.top_kernel(each[1], each[0]) > 0)


def _losses(r: Any, kernel: Any, c: float, y: float, eta: float, steps: int) -> np.ndarray:
    """½ r² of the map, step by step."""
    losses = [r**2 / 2]
    with np.errstate(all="ignore"):  # divergence is a result
        for _ in range(steps):
            r, kernel = advance(r, kernel, c, y, eta)
            losses.append(r**2 / 2)
    return np.array(losses)


def draw(data: xr.Dataset) -> Figure:
    """One panel per target: the map's regimes, thresholds and networks."""
    figure, axes = panels(data.sizes["target"], columns=3, size=(4.0, 3.4))
    look = {"cmap": ListedColormap(COLORS), "vmin": -0.5, "vmax": 3.5, "rasterized": True}
    for axis, y in zip(axes, data["target"].values, strict=True):
        one = data.sel(target=y)
        axis.pcolormesh(one["v"], one["width"], one["map"], **look)
        for edge in (2, 4):
            axis.axvline(edge, color="black", ls="--", lw=0.8)
        _dots(axis, one)
        axis.set(xlabel="ηλ₀", ylabel="width m", yscale="log", xlim=(0.5, 5))
        dead = int(one["dead"].sum())
        axis.set_title(f"target {y:g}" + f" (dead networks replaced: {dead})" * (dead > 0))
    names = ("monotone", "catapult", "divergent", "unfinished")
    styles = {n: {"marker": "s", "color": c} for n, c in zip(names, COLORS, strict=True)}
    shown = {"trained, as the map": {"marker": "o", "mfc": "none", "color": "black"}}
    other = {"trained, otherwise": {"marker": "x", "color": "black"}}
    legend(axes[0], styles | shown | other)
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].get_legend().remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    return figure


def _dots(axis: Any, one: xr.Dataset) -> None:
    for m in one["trained_width"].values:
        row = one.sel(trained_width=m)
        same = (row["trained_regime"] == row["map_regime"]).values
        v = row["trained_v"].values  # NaN, which is not drawn, where there is no network
        axis.plot(v[same], [m] * sum(same), "o", color="black", mfc="none", ms=4)
        axis.plot(v[~same], [m] * sum(~same), "x", color="black", ms=5)


def check(data: xr.Dataset) -> list[Claim]:
    """Networks against the map and the thresholds; the map's second boundary."""
    targets = [float(y) for y in data["target"].values]
    rows = [row for y in targets for row in _regimes(data.sel(target=y), y)]
    m, step = float(data["width"][-1]), float(data["v"][1] - data["v"][0])
    for y in targets:
        diverges = data["map"].sel(target=y).isel(width=-1).values == int(Regime.DIVERGENT)
        gap = abs(float(data["v"].values[np.argmax(diverges)]) - 4)
        rows.append(CLAIMS["gap"].format(y=y).at_most(gap, np.log(m) / np.sqrt(m), step))
    return rows


def _regimes(one: xr.Dataset, y: float) -> list[Claim]:
    """Networks that ended, against the map and, if they are of the last width, the thresholds."""
    same = one["trained_regime"] == one["map_regime"]
    wide, m = one.isel(trained_width=-1), int(one["trained_width"][-1])
    wanted = (wide["trained_v"] > 2).astype(int) + (wide["trained_v"] > 4).astype(int)
    as_said = _ended(wide["trained_regime"] == wanted, wide)
    kept, left = _ended(same, one), lambda part: int((part["trained_regime"] == UNFINISHED).sum())
    within = Tolerance(CHAOS, "chaotic near the divergence, where there is a target")
    by_map = CLAIMS["map"].format(y=y, count=len(kept), left=left(one))
    key = "thresholds" if y else "exact"
    thresholds = CLAIMS[key].format(y=y, m=m, count=len(as_said), left=left(wide))
    return [
        by_map.equals(kept.mean(), 1.0, within if y else None),
        thresholds.at_least(intervals.of_share(as_said, "networks"), 1 - CHAOS)
        if y
        else thresholds.equals(as_said.mean(), 1.0),
    ]


def _ended(values: xr.DataArray, of: xr.Dataset) -> np.ndarray:
    """The values of networks whose training has ended in a regime."""
    regime = of["trained_regime"]
    return values.values[((regime != NONE) & (regime != UNFINISHED)).values]
