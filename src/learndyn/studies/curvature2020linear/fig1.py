"""Fig. 1: one mode of a two-layer network, its paths and its speed under five rules.

Every mode of one network is one start of the figure: the map to be learned is σ̄_* times the
identity, and aligned modes do not see each other. Networks whose modes are not aligned with the
target are trained beside it. The paper preset has finer grids, and unaligned networks of depth 3.
"""

import dataclasses
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.networks.solvable.matrix_product import product
from learndyn.plotting import legend, panels
from learndyn.runtime.precision import in_float64
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.curvature2020linear._model import POWERS, RULES, SLACK, linear_system
from learndyn.studies.registry import Report, cases
from learndyn.theory.deep_linear import map_dynamics, modes

TITLE = "Paths and speeds of a singular mode in the plane (σ1, σ2), d = 2"
DIFFERS = (
    "starts and target are not stated; here six starts and target 1; unaligned networks of "
    "depth 3 are added to the figure's d = 2"
)
FULL = ["SGD", "NGD", "√NGD"]  # the rules that correct all layers together
STEP = 1e-3  # learning rate of the single steps
ROUNDING = Tolerance(1e-10, "rounding of one step of the real network")
MOVED = 1e3  # times what the integrator can do
KEPT = {"NGD-d": ("log σ1/σ2", "Eq. 24, Fig. 1D"), "√NGD-d": ("|σ1| − |σ2|", "Eq. 26, Fig. 1E")}
CLAIMS = {
    "kept": claim("{rule} conserves {what} along the paths of networks: drift", "{source}",
                  within=SLACK),
    "exponent": claim("{rule}: exponent of ‖σ̇‖/|σ_Δ| in ‖j‖ is 1 − 2/q", "Eqs. 8, 13, 15, 16",
                      within=ROUNDING),
    "constant": claim("{rule}: ‖σ̇‖/|σ_Δ| = η everywhere; the value farthest from it", "{source}",
                      within=ROUNDING),
    "path": claim("modes (Eqs. 14, 24, 26) and real networks follow the same path: largest |Δσ|",
                  "Eqs. 14, 24, 26", within=SLACK),
    "times": claim("NGD and NGD-d cross the contours at equal times: largest |Δσ̄|", "Fig. 1B, D",
                   within=SLACK),
    "end": claim("SGD, NGD and √NGD end at the same point of the plane: largest |Δσ|, aligned "
                 "modes", "Fig. 1A-C", within=SLACK),
    "apart": claim("unaligned networks of depth {depth}: {rule} converges elsewhere than SGD, to "
                   "the same map and conserved quantities: ‖Δw‖/‖w‖ over the largest miss of these "
                   "(distance {distance:.2f})", "abstract, Sec. 5",
                   because="1e3 × what the integrator's error makes of shared numbers; a shared "
                   "path has a single end")
    .erratum("follows precisely the same path in the underlying manifold as gradient descent "
             "(true for aligned modes)", 0.0),
    "unfrozen": claim("{rule}: a mode with σ̄ = 0 but one strength above zero learns σ̄_*",
                      "footnote 3", within=SLACK)
    .erratum("inactive modes that have σ̄ = 0 stay frozen (true where two strengths are 0)", 0.0),
    "frozen": claim("modes with two strengths at zero are frozen: largest |σ̄|", "footnote 3",
                    kind="theorem", within=SLACK),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """The target, the starts of the modes, the depth of the unaligned networks and times."""

    target: float = 1.0
    sigma_1: tuple[float, ...] = (0.1, 0.5, 1.0, 1.7, 2.0, 0.15)
    sigma_2: tuple[float, ...] = (0.2, 0.1, 0.05, 0.2, 1.5, 1.8)
    unaligned_depth: int = 2
    scale: float = 0.7
    horizon: float = 24.0
    points: int = 41
    grid: int = 11
    key: int = 1


PRESETS = {"quick": Params(), "paper": Params(unaligned_depth=3, points=81, grid=15)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The field on a grid, paths of theory and networks, and what the errata are about."""
    # Dense while the modes move, sparse until they have converged.
    early, late = np.linspace(0, 4, params.points), np.linspace(4, params.horizon, 11)[1:]
    times = np.concatenate([early, late])
    parts = [_aligned(params, name, times) for name in cases(list(RULES), report, end=0.7)]
    aligned = cast(xr.Dataset, xr.concat(parts, xr.Variable("rule", list(RULES))))
    others = [_others(params, name, times) for name in cases(FULL, report, begin=0.7)]
    rest = cast(xr.Dataset, xr.concat(others, xr.Variable("full_rule", FULL)))
    data = xr.merge([aligned, rest]).assign_coords(time=times)
    return data.assign_attrs(target=params.target, unaligned_depth=params.unaligned_depth)


def _system(params: Params, name: str, depth: int = 2, rate: float = 1.0) -> ld.System:
    """Modes that share a strength; the initialisation is that of the unaligned networks."""
    n = len(params.sigma_1)
    target = params.target * np.eye(n)
    return linear_system(RULES[name](rate), target, (depth + 1) * [n], ld.Xavier(params.scale))


def _aligned(params: Params, name: str, times: np.ndarray) -> xr.Dataset:
    """Paths from the starts, the speed of the network there, and the field on a grid."""
    system = _system(params, name)
    sigma = np.column_stack([params.sigma_1, params.sigma_2])
    begin = ld.start(system, key=params.key, state=ld.Modes(sigma))
    theory = ld.solve(system, times, start=begin, order="flow", rtol=1e-10, atol=1e-12)
    network = ld.simulate(system, times, start=begin, method="flow")
    side = np.linspace(0.1, 2.1, params.grid)
    options: Any = {"power": POWERS[name], "blocks": name.endswith("-d")}
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    rate = in_float64(modes.velocity)(grid, np.full(len(grid), params.target), **options)
    invariant = in_float64(modes.invariants)(network["sigma"].values[0], **options)
    # dσ/dt of the real network at its start, from one small step of its rule.
    slow = _system(params, name, rate=STEP)
    moved = ld.update(slow, begin.weights, teacher=begin.teacher)
    after = ld.theory_of(slow).project(moved, begin.teacher)
    table = {
        "theory": (("time", "mode", "layer"), theory["sigma"].values),
        "network": (("time", "mode", "layer"), network["sigma"].values[0]),
        "invariant": (("time", "mode"), invariant[..., 0]),
        "velocity": (("mode", "layer"), np.asarray(after.sigma - begin.state.sigma) / STEP),
        "grid": (("place", "layer"), grid),
        "field": (("place", "layer"), rate / _gap(grid, params.target)),
    }
    return xr.Dataset(table)


def _gap(sigma: np.ndarray, target: float) -> np.ndarray:
    """|σ_Δ|, without zeros."""
    gap = np.abs(np.prod(sigma, axis=-1, keepdims=True) - target)
    return np.where(gap > 0, gap, np.nan)


def _others(params: Params, name: str, times: np.ndarray) -> xr.Dataset:
    """Converged weights from an unaligned start, and maps of modes that start at zero."""
    system = _system(params, name, params.unaligned_depth)
    flat = lambda model: np.concatenate([np.ravel(w) for w in model.weights])
    run = ld.simulate(system, times, method="flow", key=params.key, probes={"weights": flat})
    system = _system(params, name)
    sigma = np.full((len(params.sigma_1), 2), 0.3)
    sigma[:3] = [[0.0, 0.8], [0.8, 0.0], [0.0, 0.0]]
    begin = ld.start(system, key=params.key, state=ld.Modes(sigma))
    zeros = ld.simulate(system, times, start=begin, method="flow")
    table = {
        "weights": ("weight", run["weights"].values[0, -1]),
        "loss": ("time", run["error"].values[0]),
        "zero_map": (("time", "zero"), zeros["map"].values[0, :, :3]),
    }
    return xr.Dataset(table)


def draw(data: xr.Dataset) -> Figure:
    """The paper's five panels, and the converged weights of rules said to share a path."""
    figure, axes = panels(6, columns=3, size=(3.9, 3.7))
    for letter, axis, name in zip("ABCDE", axes, data["rule"].values, strict=False):
        _plane(axis, data.sel(rule=name), data.attrs["target"], dots=name in ("NGD", "NGD-d"))
        axis.set_title(f"{letter}  {name}", fontsize=10, loc="left")
    _converged(axes[5], data)
    return figure


def _plane(axis: Axes, data: xr.Dataset, target: float, *, dots: bool) -> None:
    side = np.linspace(0, 2.5, 101)
    gap = np.outer(side, side) - target
    axis.contour(side, side, gap, levels=np.linspace(-0.8, 4, 13), colors="0.75", linewidths=0.6)
    axis.contour(side, side, gap, levels=[0], colors="black", linewidths=1.4)
    at, arrow = data["grid"].values, data["field"].values
    length = np.linalg.norm(arrow, axis=1)
    shown = length < 5 * np.nanmedian(length)  # the arrows of NGD have no bound near zero
    axis.quiver(*at[shown].T, *arrow[shown].T, color="C0", alpha=0.7, width=0.004)
    early = data["time"].values <= 4
    for mode in range(data.sizes["mode"]):
        path, real = data["theory"][:, mode].values, data["network"][:, mode].values
        axis.plot(*path.T, color="red", linewidth=1.2)
        axis.plot(*real[early][::4].T, ".", color="black", markersize=2.5)
        if dots:
            axis.plot(*path[early][::5].T, "o", color="red", markersize=3.5)
    axis.set(xlim=(0, 2.5), ylim=(0, 2.5), xlabel="$σ_1$", ylabel="$σ_2$", aspect="equal")
    styles: dict[str, Any] = {"modes, Eqs. 14 and 25": {"color": "red"}}
    styles["real network"] = {"color": "black", "marker": ".", "ms": 3}
    styles |= {"equal times": {"color": "red", "marker": "o", "ms": 4}} if dots else {}
    legend(axis, styles, fontsize=6.5, loc="upper right", frameon=True)


def _converged(axis: Axes, data: xr.Dataset) -> None:
    end, weights = data["network"][:, -1], data["weights"]
    for color, name in zip(("C1", "C2"), FULL[1:], strict=True):
        both = weights.sel(full_rule="SGD"), weights.sel(full_rule=name)
        axis.plot(*both, ".", color=color, markersize=4, label=f"{name}, unaligned")
        both = (end.sel(rule=n).values.ravel() for n in ("SGD", name))
        axis.plot(*both, "o", color=color, fillstyle="none", label=f"{name}, aligned modes")
    axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
    axis.set(xlabel="converged weights, SGD", ylabel="converged weights, other rule")
    left = float((data["loss"].isel(time=-1) / data["loss"].isel(time=0)).max())
    axis.set_title(f"F  the same end? (loss ≤ {left:.0e} of the first)", fontsize=9, loc="left")
    legend(axis, fontsize=6.5)


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Paths, speeds, timing; and two sentences that hold for less than they say."""
    maps, start = data["network"].prod("layer"), data["invariant"].isel(time=0)
    drift = abs(data["invariant"] - start).max(("time", "mode"))
    rows = []
    for rule in data["rule"].values:
        what, source = KEPT.get(rule, ("σ1² − σ2²", "Eq. 7, Fig. 1"))
        kept = CLAIMS["kept"].format(rule=rule, what=what, source=source)
        rows.append(kept.equals(drift.sel(rule=rule), 0.0))
    for rule in FULL:
        speed, j = _speed(data.sel(rule=rule))
        slope, expected = np.polyfit(np.log(j), np.log(speed), 1)[0], 1 - 2 * POWERS[rule]
        rows.append(CLAIMS["exponent"].format(rule=rule).equals(slope, expected))
    for rule, source in {"√NGD": "Eq. 16", "√NGD-d": "Eq. 26"}.items():
        speed, _ = _speed(data.sel(rule=rule))
        farthest = speed[np.argmax(abs(speed - 1))]
        rows.append(CLAIMS["constant"].format(rule=rule, source=source).equals(farthest, 1.0))
    ends = data["network"].isel(time=-1).sel(rule=FULL)
    shared = {
        "path": abs(data["theory"] - data["network"]),
        "times": abs(maps.sel(rule="NGD") - maps.sel(rule="NGD-d")),
        "end": ends.max("rule") - ends.min("rule"),
    }
    rows += [CLAIMS[key].equals(values.max(), 0.0) for key, values in shared.items()]
    rows += [_apart(data, rule) for rule in FULL[1:]]
    target, inactive = data.attrs["target"], data["zero_map"].isel(zero=[0, 1], time=-1)
    for rule in FULL:
        last = inactive.sel(full_rule=rule).values
        farthest = last[np.argmax(abs(last - target))]
        rows.append(CLAIMS["unfrozen"].format(rule=rule).equals(farthest, target))
    return [*rows, CLAIMS["frozen"].equals(abs(data["zero_map"].isel(zero=2)).max(), 0.0)]


def _speed(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """‖σ̇‖/|σ_Δ| of the real network at the starts, and ‖j‖ there."""
    sigma = data["network"].isel(time=0).values
    speed = (
        np.linalg.norm(data["velocity"].values, axis=1) / _gap(sigma, data.attrs["target"])[:, 0]
    )
    return speed, np.linalg.norm(in_float64(modes.coupling)(sigma), axis=1)


def _apart(data: xr.Dataset, rule: str) -> Claim:
    """Two ends with the same map and conserved quantities, which a shared path would make one."""
    one, other = (data["weights"].sel(full_rule=name).values for name in ("SGD", rule))
    depth, target = data.attrs["unaligned_depth"], data.attrs["target"]
    ends = [end.reshape(depth, *2 * (len(data["mode"]),)) for end in (one, other)]
    misses = [product(tuple(end)) - target * np.eye(len(end[0])) for end in ends]
    kept = [np.asarray(map_dynamics.conserved(tuple(end))) for end in ends]
    shared = max(np.max(np.abs(miss)) for miss in [*misses, kept[0] - kept[1]])
    distance = np.linalg.norm(one - other) / np.linalg.norm(one)
    sentence = CLAIMS["apart"].format(depth=depth, rule=rule, distance=distance)
    return sentence.at_least(distance / shared, MOVED)
