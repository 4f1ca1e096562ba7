"""Fig. 3: generalisation of a deep linear network that learns a noisy teacher of low rank.

The paper leaves open what its signal-to-noise ratio compares, the teacher's singular values, the
clipping and the time steps; they are parameters. Test losses are in units of a network that
answers zero. Time is learning rate × steps.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.numerics.matrix_product import product
from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.curvature2020linear._fig3_claims import claims_of
from learndyn.studies.curvature2020linear._model import RULES, target_with
from learndyn.studies.registry import Report
from learndyn.theory.deep_linear import map_dynamics

TITLE = "Generalisation under curvature-corrected rules (rank-3 teacher, d = 4)"


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's settings.

    Attributes:
        width: N, of all layers.
        layers: d.
        examples: P, of whitened training inputs.
        teacher: its singular values.
        snr: the signal-to-noise ratio.
        snr_of: "power" compares the outputs' mean squares, "amplitude" the teacher's smallest
            singular value with the noise's standard deviation.
        other_teacher: singular values of the case "spectrum".
        others: repeats with another "spectrum" or the other definition of the "SNR".
        largest: largest singular value of every layer at the start.
        damping: ε of NGD and NGD-d.
        clip: the largest norm of their updates.
        natural_step, natural_time: learning rate and horizon of NGD and NGD-d.
        root_step, root_time: the same of √NGD and √NGD-d.
        gradient_time: the horizon of SGD, which is followed in continuous time.
        points: times at which each run is measured.
        key: seed.
    """

    width: int = 16
    layers: int = 4
    examples: int = 16
    teacher: tuple[float, ...] = (1.5, 1.25, 1.0)
    snr: float = 10.0
    snr_of: str = "power"
    other_teacher: tuple[float, ...] = (3.0, 2.0, 1.0)
    others: tuple[str, ...] = ()
    largest: float = 0.05
    damping: float = 1e-5
    clip: float = 0.1
    natural_step: float = 0.01
    natural_time: float = 12.0
    root_step: float = 0.01
    root_time: float = 30.0
    gradient_time: float = 12_000.0
    points: int = 151
    key: int = 1


# The quick preset has the paper's sizes, but one reading of what the paper leaves open, larger
# steps of √NGD and a shorter horizon of SGD.
PRESETS = {
    "quick": Params(),
    "paper": Params(
        others=("spectrum", "SNR"), root_step=0.005, gradient_time=60_000.0, points=401
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Training of the five rules on each case's data, from one start."""
    cases = ("as given", *params.others)
    parts = []
    for number, case in enumerate(cases):
        problem, teacher = _data(params, case)
        runs = []
        for place, rule in enumerate(RULES):
            report((number + place / len(RULES)) / len(cases))
            runs.append(_trained(params, rule, problem, teacher))
        found = xr.concat(runs, "rule", coords="minimal", compat="override", join="override")
        parts.append(found.merge(_levels(problem, teacher), join="override"))
    data = xr.concat(parts, "case", coords="minimal", compat="override", join="override")
    data = data.assign_coords(case=list(cases), rule=list(RULES))
    report(1.0)
    data.attrs = {"rank": len(params.teacher), "layers": params.layers}
    return _with_best(data)


def draw(data: xr.Dataset) -> Figure:
    """Panels A, B, C, and D for SGD, NGD and √NGD."""
    figure, axes = panels(6, columns=3, size=(4.0, 3.2))
    shown = data.isel(case=0)
    rank = int(data.attrs["rank"])
    colors = ["C3" if mode < rank else "0.6" for mode in range(shown.sizes["mode"])]
    axes[0].bar(np.arange(1, len(colors) + 1), shown["target"], color=colors)
    axes[0].set(xlabel="singular mode of the training data", ylabel="strength", title="A")
    for axis, name, title in [(axes[1], "train", "B"), (axes[2], "test", "C")]:
        for number, rule in enumerate(data["rule"].values):
            curve = shown.sel(rule=rule).isel(point=slice(1, None))
            dashed = "--" if rule.endswith("-d") else "-"
            axis.plot(curve["time"], curve[name], dashed, color=f"C{number}", label=rule)
        axis.set(xscale="log", xlabel="time", ylabel=f"{name} loss", title=title)
    axes[1].legend(frameon=False, fontsize=7)
    axes[2].axhline(float(shown["overfitted"]), color="0.3", linestyle=":")
    for axis, rule in zip(axes[3:], ("SGD", "NGD", "√NGD"), strict=True):
        curve = shown.sel(rule=rule)
        for mode, color in enumerate(colors):
            axis.plot(curve["time"], curve["modes"].isel(mode=mode), color=color, linewidth=1)
        axis.set(xlabel="time", ylabel="mode strength", title=f"D, {rule}")
    axes[3].set_xscale("log")
    closed = _closed_form(data)
    axes[5].plot(shown["time"].sel(rule="√NGD"), closed, "k:", linewidth=1)
    axes[5].plot([], [], "k:", label="balanced, from 0 (Eq. 21)")
    axes[5].legend(frameon=False, fontsize=7)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The order of the rules, their early stopping, and where they end."""
    return claims_of(data)


def _data(params: Params, case: str) -> tuple[ld.Dataset, np.ndarray]:
    """Whitened inputs, XᵀX/P = 1, noisy answers of the teacher, and the teacher's map."""
    values = params.other_teacher if case == "spectrum" else params.teacher
    power = (params.snr_of == "power") != (case == "SNR")
    n, count = params.width, params.examples
    teacher = target_with(values, n, n, params.key)
    rng = np.random.default_rng([params.key, 1])
    x = np.sqrt(count) * orthonormal_rows(rng.standard_normal((n, count))).T
    mean_square = np.sum(teacher**2) / n  # of an output
    noise = np.sqrt(mean_square / params.snr) if power else min(values) / params.snr
    return ld.Dataset(x, x @ teacher.T + noise * rng.standard_normal((count, n))), teacher


def _trained(params: Params, rule: str, problem: ld.Dataset, teacher: np.ndarray) -> xr.Dataset:
    """Losses, mode strengths and layer norms of one run, at its own times."""
    step, horizon, made = _rule(params, rule)
    init = ld.SmallRandom(params.largest)
    network = ld.DeepLinear([params.width] * (params.layers + 1), init=init)
    flow = rule == "SGD"
    found = ld.simulate(
        ld.System(problem, network, made),
        _times(horizon, params.points) if flow else _steps(horizon / step, params.points),
        key=params.key,
        method="flow" if flow else "direct",
        dtype="float64",
        probes={
            "test": lambda model: _loss(product(model.weights), teacher),
            "norms": lambda model: [np.linalg.norm(layer) ** 2 for layer in model.weights],
        },
    ).isel(run=0)
    return xr.Dataset(
        {
            "time": ("point", step * found["time"].values),
            "train": ("point", found["error"].values),
            "test": ("point", found["test"].values),
            "modes": (("point", "mode"), found["map"].values),
            "norms": (("point", "layer"), found["norms"].values),
        }
    )


def _times(horizon: float, points: int) -> np.ndarray:
    return np.concatenate([[0.0], np.geomspace(horizon / 1000, horizon, points - 1)])


def _steps(last: float, points: int) -> np.ndarray:
    return np.rint(np.linspace(0, last, points))


def _rule(params: Params, rule: str) -> tuple[float, float, Any]:
    """Step, horizon and rule; SGD flows, so that its step is 1."""
    if rule == "SGD":
        return 1.0, params.gradient_time, RULES[rule](1.0)
    if rule.startswith("√"):
        return params.root_step, params.root_time, RULES[rule](params.root_step)
    step = params.natural_step
    return step, params.natural_time, RULES[rule](step, damping=params.damping, clip=params.clip)


def _loss(map_: Any, teacher: np.ndarray) -> float:
    """Test loss of a map on white inputs, relative to that of the map zero."""
    return float(np.sum((np.asarray(map_) - teacher) ** 2) / np.sum(teacher**2))


def _levels(problem: ld.Dataset, teacher: np.ndarray) -> xr.Dataset:
    """The training data's singular values, and test losses that need no training.

    "overfitted" is the least-squares map, "truncated" its best approximation of the teacher's
    rank, "straight" the best multiple of it, which is the best on the path of exact NGD.
    """
    statistics = problem.map_statistics(())
    assert statistics is not None
    fitted = np.asarray(statistics.target, np.float64)
    left, values, right = np.linalg.svd(fitted)
    rank = np.linalg.matrix_rank(teacher)
    multiple = np.linalg.lstsq(fitted.reshape(-1, 1), teacher.ravel(), rcond=None)[0][0]
    return xr.Dataset(
        {
            "target": ("mode", values),
            "overfitted": _loss(fitted, teacher),
            "truncated": _loss((left[:, :rank] * values[:rank]) @ right[:rank], teacher),
            "straight": _loss(multiple * fitted, teacher),
            "unit": float(np.sum(teacher**2)) / 2,
        }
    )


def _with_best(data: xr.Dataset) -> xr.Dataset:
    """Adds the best test loss of every run and its early stopping time, among those measured.

    SGD's loss falls and rises too abruptly for an interpolation between them.
    """
    lowest = data["test"].argmin("point")
    return data.assign(stop=data["time"].isel(point=lowest), best=data["test"].min("point"))


def _closed_form(data: xr.Dataset) -> np.ndarray:
    """Eq. 21 for √NGD and balanced layers, (times, modes)."""
    d, shown = int(data.attrs["layers"]), data.isel(case=0)
    p, rate = map_dynamics.stiffness(d, 0.5), map_dynamics.depth_calibrated_rate(1.0, d, 0.5)
    times = shown["time"].sel(rule="√NGD").values[:, None]
    return map_dynamics.solution(times, shown["target"].values, 0.0, float(p), rate)
