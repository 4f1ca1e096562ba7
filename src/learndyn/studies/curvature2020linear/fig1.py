"""Fig. 1: one mode of a two-layer network, its paths and its speed under five rules.

Every mode of one network is one start of the figure: the map to be learned is σ̄_* times the
identity, and aligned modes do not see each other.
"""

import dataclasses
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics.matrix_product import product
from learndyn.numerics.precision import in_float64
from learndyn.plotting import legend, panels
from learndyn.simulation.flow import RTOL
from learndyn.studies.claims import Claim, claim
from learndyn.studies.curvature2020linear._model import RULES, linear_system
from learndyn.studies.registry import Report, cases
from learndyn.theory.deep_linear import map_dynamics, modes

TITLE = "Paths and speeds of a singular mode in the plane (σ1, σ2), d = 2"
FULL = ["SGD", "NGD", "√NGD"]  # the rules that correct all layers together
SLACK = 1e4 * RTOL  # steps of the integrator, times the growth of their errors
SLACK_FROM = "rtol 1e-10 of the integrator × 1e4 for the number of steps and the growth of errors"
STEP = 1e-3  # learning rate of the single steps
ROUNDING = 1e-10  # of one such step, by eigenvectors in float64
ROUNDING_FROM = "rounding of one step of the real network"
MOVED = 1e3 * SLACK  # what cannot be the integrator's


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
    """Field on a grid, paths of theory and networks, and what the errata are about."""
    times = _times(params)
    parts = [_aligned(params, name, times) for name in cases(list(RULES), report, end=0.7)]
    aligned = cast(xr.Dataset, xr.concat(parts, xr.Variable("rule", list(RULES))))
    others = [_others(params, name, times) for name in cases(FULL, report, begin=0.7)]
    rest = cast(xr.Dataset, xr.concat(others, xr.Variable("full_rule", FULL)))
    attributes = {"target": params.target, "unaligned_depth": params.unaligned_depth}
    return xr.merge([aligned, rest]).assign_coords(time=times).assign_attrs(attributes)


def _times(params: Params) -> np.ndarray:
    """Dense while the modes move, sparse until they have converged."""
    early = np.linspace(0, 4, params.points)
    return np.concatenate([early, np.linspace(4, params.horizon, 11)[1:]])


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
    grid, options = _grid(params), _options(name)
    rate = in_float64(modes.velocity)(grid, np.full(len(grid), params.target), **options)
    invariant = in_float64(modes.invariants)(network["sigma"].values[0], **options)
    table = {
        "theory": (("time", "mode", "layer"), theory["sigma"].values),
        "network": (("time", "mode", "layer"), network["sigma"].values[0]),
        "invariant": (("time", "mode"), invariant[..., 0]),
        "velocity": (("mode", "layer"), _velocity(params, name, begin)),
        "grid": (("place", "layer"), grid),
        "field": (("place", "layer"), rate / _gap(grid, params.target)),
    }
    return xr.Dataset(table)


def _velocity(params: Params, name: str, begin: ld.Start) -> np.ndarray:
    """dσ/dt of the real network at its start, from one small step of its rule."""
    system = _system(params, name, rate=STEP)
    moved = ld.update(system, begin.weights, teacher=begin.teacher)
    found = ld.theory_of(system).project(moved, begin.teacher)
    return np.asarray(found.sigma - begin.state.sigma) / STEP


def _options(name: str) -> dict[str, Any]:
    rule = RULES[name](1.0)
    return {"power": getattr(rule, "power", 0.0), "blocks": getattr(rule, "blocks", False)}


def _grid(params: Params) -> np.ndarray:
    side = np.linspace(0.1, 2.1, params.grid)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


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
    """The paper's five panels, and converged weights of rules that were to share one path."""
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
    styles: dict[str, dict[str, Any]] = {
        "modes, Eqs. 14 and 25": {"color": "red"},
        "real network": {"color": "black", "marker": ".", "ms": 3},
    }
    if dots:
        styles["equal times"] = {"color": "red", "marker": "o", "ms": 4}
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
    axis.set_title("F  the same end?", fontsize=10, loc="left")
    legend(axis, fontsize=6.5)


def check(data: xr.Dataset) -> list[Claim]:
    """Paths, speeds, timing; and two sentences that hold for less than they say."""
    return [
        *(_kept(data.sel(rule=str(name)), str(name)) for name in data["rule"].values),
        *(_exponent(data.sel(rule=name), name) for name in FULL),
        *(_constant(data.sel(rule=name), name) for name in ("√NGD", "√NGD-d")),
        *_same(data),
        *(_apart(data, name) for name in FULL[1:]),
        *(_unfrozen(data, name) for name in FULL),
        _small("modes with two strengths at zero are frozen: largest |σ̄|", "footnote 3",
               abs(data["zero_map"].isel(zero=2))),
    ]  # fmt: skip


def _small(statement: str, source: str, values: xr.DataArray) -> Claim:
    return claim(statement, source).equals(values.max(), 0.0, within=SLACK, because=SLACK_FROM)


def _kept(data: xr.Dataset, name: str) -> Claim:
    kept = {"NGD-d": "log σ1/σ2", "√NGD-d": "|σ1| − |σ2|"}.get(name, "σ1² − σ2²")
    source = {"NGD-d": "Eq. 24, Fig. 1D", "√NGD-d": "Eq. 26, Fig. 1E"}.get(name, "Eq. 7, Fig. 1")
    drift = abs(data["invariant"] - data["invariant"].isel(time=0))
    return _small(f"{name} conserves {kept} along networks' paths: drift", source, drift)


def _same(data: xr.Dataset) -> list[Claim]:
    """What paths, times, ends and networks share."""
    maps, loss = data["network"].prod("layer"), data["loss"]
    ends = data["network"].isel(time=-1).sel(rule=FULL)
    return [
        _small("modes (Eqs. 14, 24, 26) and real networks on one path: largest |Δσ|",
               "Eqs. 14, 24, 26", abs(data["theory"] - data["network"])),
        _small("NGD and NGD-d cross the contours at equal times: largest |Δσ̄|", "Fig. 1B, D",
               abs(maps.sel(rule="NGD") - maps.sel(rule="NGD-d"))),
        _small("SGD, NGD and √NGD end in one point of the plane: largest |Δσ|, aligned modes",
               "Fig. 1A-C", ends.max("rule") - ends.min("rule")),
        _small("unaligned networks have converged: largest loss over that at the start", "Fig. 1",
               loss.isel(time=-1) / loss.isel(time=0)),
    ]  # fmt: skip


def _speed(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """‖σ̇‖/|σ_Δ| of the real network at the starts, and ‖j‖ there."""
    sigma = data["network"].isel(time=0).values
    j = np.linalg.norm(in_float64(modes.coupling)(sigma), axis=1)
    gap = _gap(sigma, data.attrs["target"])[:, 0]
    return np.linalg.norm(data["velocity"].values, axis=1) / gap, j


def _exponent(data: xr.Dataset, name: str) -> Claim:
    speed, j = _speed(data)
    said = claim(f"{name}: exponent of ‖σ̇‖/|σ_Δ| in ‖j‖ is 1 − 2/q", "Eqs. 8, 13, 15, 16")
    found, expected = np.polyfit(np.log(j), np.log(speed), 1)[0], 1 - 2 * _options(name)["power"]
    return said.equals(found, expected, within=ROUNDING, because=ROUNDING_FROM)


def _constant(data: xr.Dataset, name: str) -> Claim:
    speed, _ = _speed(data)
    said = f"{name}: ‖σ̇‖/|σ_Δ| = η everywhere; the value farthest from it"
    return claim(said, "Eq. 16" if name == "√NGD" else "Eq. 26").equals(
        speed[np.argmax(abs(speed - 1))], 1.0, within=ROUNDING, because=ROUNDING_FROM
    )


def _apart(data: xr.Dataset, name: str) -> Claim:
    """Two ends that share the map and what is conserved, which would be one end on one path."""
    one, other = (data["weights"].sel(full_rule=n).values for n in ("SGD", name))
    depth, target = data.attrs["unaligned_depth"], data.attrs["target"]
    ends = [end.reshape(depth, *2 * (len(data["mode"]),)) for end in (one, other)]
    misses = [product(tuple(end)) - target * np.eye(len(end[0])) for end in ends]
    kept = [np.asarray(map_dynamics.conserved(tuple(end))) for end in ends]
    shared = max(np.max(np.abs(miss)) for miss in [*misses, kept[0] - kept[1]])
    said = f"unaligned networks of depth {depth}: {name} converges elsewhere than SGD, to the same "
    said += "map and conserved quantities: ‖Δw‖/‖w‖ over the largest miss of these"
    printed = "follows precisely the same path in the underlying manifold as gradient descent "
    printed += "(true for aligned modes)"
    distance = np.linalg.norm(one - other) / np.linalg.norm(one)
    said += f" (distance {distance:.2f})"
    because = "1e3 × what the integrator's error makes of shared numbers; one path has one end"
    sentence = claim(said, "abstract, Sec. 5").erratum(printed, 0.0)
    return sentence.at_least(distance / shared, MOVED / SLACK, because=because)


def _unfrozen(data: xr.Dataset, name: str) -> Claim:
    ends = data["zero_map"].sel(full_rule=name).isel(time=-1, zero=[0, 1]).values
    target = data.attrs["target"]
    said = f"{name}: a mode with σ̄ = 0 but one strength above zero learns σ̄_*"
    printed = "inactive modes that have σ̄ = 0 stay frozen (true where two strengths are 0)"
    farthest = ends[np.argmax(abs(ends - target))]
    sentence = claim(said, "footnote 3").erratum(printed, 0.0)
    return sentence.equals(farthest, target, within=SLACK, because=SLACK_FROM)
