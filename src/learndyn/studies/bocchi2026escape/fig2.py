"""Fig. 2: the learning rate that leaves the plateau with the fewest samples.

Where and how runs fail to converge is the study `regimes`.

Every learning rate sees the same starts, so that the shape of a curve is judged start by start: a
parabola through log samples against log η has its curvature and its vertex. A curve that falls all
the way has no vertex in the grid.

The quick preset has fewer starts (5 instead of 20), fewer widths, a learning-rate grid twice as
coarse and half the horizon.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import learndyn as ld
from learndyn.analysis.fits import fit_line, fit_minimum, fit_parabola
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_bound
from learndyn.theory.committee.late_stage import quadratic as late
from learndyn.theory.committee.plateau import quadratic as plateau

TITLE = "Samples to half of the initial loss against the learning rate (p* = 3)"
LEARNED = 0.01  # a run whose loss ends below this fraction of its start has converged
LEVEL = 0.01  # chance of a false alarm in each claim on the shape


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure; learning rates are k + 1/2 times `spacing`, in units of η_c.

    The runs end at t = η α = `horizon` · p.
    """

    p: tuple[int, ...] = (3, 5, 8)
    p_star: int = 3
    epsilon: float = 0.01
    spacing: float = 0.1
    largest: float = 1.1
    horizon: float = 60.0
    points: int = 201
    starts: int = 5
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(p=(3, 4, 5, 6, 7, 8, 9, 10), spacing=0.05, horizon=120.0, starts=20),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE over widths, learning rates and starts; for the first width also at ε²."""
    relative = np.arange(params.spacing / 2, params.largest, params.spacing)
    relative = relative[relative > 2 * params.spacing]
    rows = [(p, params.epsilon) for p in params.p] + [(params.p[0], params.epsilon**2)]
    jobs = [(*row, x, start) for row in rows for x in relative for start in range(params.starts)]
    found = np.reshape(
        [_one(params, *job) for job in cases(jobs, report)],
        (len(rows), len(relative), params.starts, 2),
    )
    dims, axis = ("p", "relative", "start"), {"long_name": "learning rate η / η_c"}
    given = dataclasses.asdict(params)
    return xr.Dataset(
        {
            "samples": (dims, found[:-1, ..., 0]),
            "remaining": (dims, found[:-1, ..., 1]),
            "small_start": (dims[1:], found[-1, ..., 0]),
        },
        {"p": list(params.p), "relative": ("relative", relative, axis)},
        {name: given[name] for name in ("p_star", "epsilon", "spacing", "starts")},
    )


def _one(params: Params, p: int, epsilon: float, x: float, start: int) -> tuple[float, float]:
    """Samples to half loss, and the last loss over the first."""
    eta = float(x * late.critical_learning_rate(p, params.p_star))
    system = quadratic_system(p, params.p_star, eta, N=1000)
    state = small_overlaps(p, params.p_star, epsilon, params.key + start)
    times = np.geomspace(params.horizon / 400, params.horizon, params.points - 1) * p / eta
    times = np.concatenate([[0.0], times])
    # Starts of size ε² must stand above the absolute tolerance.
    record = ld.solve(system, times, start=ld.start(system, state=state), atol=1e-13)
    error = record["error"].values
    return float(ld.analysis.fall_time(record)), float(error[-1] / error[0])


def draw(data: xr.Dataset) -> Figure:
    """Left: samples against η for the first width. Right: optimal η against p."""
    figure, (left, right) = panels(2)
    p, p_star, epsilon = int(data["p"][0]), int(data.attrs["p_star"]), data.attrs["epsilon"]
    eta_c, fastest = (
        late.critical_learning_rate(p, p_star),
        plateau.fastest_learning_rate(p, p_star),
    )
    for curve, size in ((data["samples"][0], epsilon), (data["small_start"], epsilon**2)):
        mean, error = ld.analysis.mean_and_error(curve.rename(start="run"))
        left.errorbar(data["relative"] * eta_c, mean, error, fmt="o-", ms=3, label=f"ε = {size:g}")
    left.axvline(eta_c, color="0.3", ls=":", label=f"$\\eta_c$ = {eta_c:.3g}")
    left.axvline(fastest, color="0.3", ls="--", label=f"optimum for ε → 0: {fastest:.3g}")
    left.set(xlabel="learning rate η", ylim=(0, 1.5 * float(data["small_start"].max())))
    left.set_ylabel("samples / N at half of the initial loss")
    left.set_title(f"p = {p}, p* = {p_star}, {data.attrs['starts']} starts", fontsize=9)
    _draw_optimum(right, data)
    legend(left)
    legend(right)
    return figure


def _draw_optimum(axis: Axes, data: xr.Dataset) -> None:
    p, optimum = data["p"].values, _optimum(data)
    line, wide = fit_line(p, optimum), np.arange(p.min(), p.max() + 1)
    label = f"ODE, ε = {data.attrs['epsilon']}"
    axis.errorbar(p, optimum, _step(data) / 2, fmt="o", ms=4, label=label)
    sign = "−" if line.intercept < 0 else "+"
    label = f"fit {line.slope:.3f} p {sign} {abs(line.intercept):.3f}"
    axis.plot(wide, line.intercept + line.slope * wide, color="C0", label=label)
    curves = {
        "optimum for ε → 0": (plateau.fastest_learning_rate, "--"),
        "solutions unstable, $\\eta_c$": (late.critical_learning_rate, ":"),
        "plateau stable, $\\eta_0$": (plateau.trapping_learning_rate, "-."),
    }
    for label, (form, style) in curves.items():
        axis.plot(wide, _over(form, wide, data), style, color="0.4", lw=1.2, label=label)
    axis.set(xlabel="student width p", ylabel="learning rate η")


def check(data: xr.Dataset) -> list[Claim]:
    """An optimum inside, linear in p; where runs stop converging; what sets the optimum."""
    return [*_inside(data), *_linear(data), _small_start(data), _converging(data)]


def _inside(data: xr.Dataset) -> list[Claim]:
    """Each start's parabola through log samples against log η, below η_c: its lower limits."""
    curves = data["samples"].isel(p=0).where(data["relative"] < 1, drop=True)
    x, count = np.log(curves["relative"].values), curves.sizes["start"]
    fits = [fit_parabola(x, np.log(curve)) for curve in curves.transpose("start", ...).values]
    curvature, vertex = np.array([(fit.curvature, fit.vertex) for fit in fits]).T
    strays = lambda values: student_bound(count, level=LEVEL, sides=1) * stats.sem(values)
    middle, error = vertex.mean(), strays(vertex)
    margin = min(middle - x[0], x[-1] - middle) - error
    rows = {
        "samples to half loss curve upwards in log η: lower confidence limit of the curvature of "
        f"their logarithm (mean {curvature.mean():.3g})": curvature.mean() - strays(curvature),
        "their minimum is inside the grid: distance of the vertex from its nearer end in log η, "
        f"lower confidence limit (vertex at {np.exp(middle):.3g} η_c)": margin,
    }
    because = f"Student t, {count} starts, each seen by all η, {LEVEL:.0%}"
    return [
        claim(said, "Fig. 2 left").at_least(found, 0.0, because=because, rate=1 - LEVEL)
        for said, found in rows.items()
    ]


def _linear(data: xr.Dataset) -> list[Claim]:
    p, optimum = data["p"].values.astype(float), _optimum(data)
    line = fit_line(p, optimum)
    misfit = np.max(np.abs(optimum - line.intercept - line.slope * p) / _step(data))
    share = optimum / _over(late.critical_learning_rate, p, data)  # η_c ∝ p
    because = "half a grid step is the resolution of an optimum on the grid"
    said = "the optimal η is linear in p: largest distance from a line, in grid steps"
    but = "but not proportional to p: η/p grows, as where small starts grow fastest, from "
    but += f"p = {p[0]:g} to {p[-1]:g} by grid steps"
    return [
        claim(said, "Fig. 2 right").at_most(misfit, 0.5, because=because),
        claim(but, "after Fig. 2, which takes η ∝ p", kind="finding").at_least(
            (share[-1] - share[0]) / data.attrs["spacing"], 0.5, because=because
        ),
    ]


def _small_start(data: xr.Dataset) -> Claim:
    """Each e-fold in 1/ε costs 1/(η ω_ρ(η)) samples, whose minimum is known."""
    cost = (data["small_start"] - data["samples"].isel(p=0)).mean("start")
    size = int(data["p"][0]), int(data.attrs["p_star"])
    fastest = plateau.fastest_learning_rate(*size) / late.critical_learning_rate(*size)
    said = "samples per e-fold of 1/ε are fewest where η ω_ρ(η) is largest, at η/η_c"
    return claim(said, "plateau at finite η", kind="finding").equals(
        fit_minimum(data["relative"], cost).x, fastest,
        within=data.attrs["spacing"] / 2, because="half a grid step",
    )  # fmt: skip


def _converging(data: xr.Dataset) -> Claim:
    """The first learning rate that fails, over all widths and starts."""
    relative, half = data["relative"].values, data.attrs["spacing"] / 2
    learned = (data["remaining"] < LEARNED).all(("p", "start")).values
    first = relative[np.argmin(learned)] if not learned.all() else np.inf
    said = "with growing η/η_c, runs fail to reach zero loss at"
    source = "Fig. 2, and stability at finite η"
    return claim(said, source, kind="finding").equals(
        first - half, 1.0, within=half, because="half a grid step"
    )


def _optimum(data: xr.Dataset) -> np.ndarray:
    """The η of fewest samples for each width, among those where every run converges."""
    curves = data["samples"].where(data["relative"] < 1).mean("start", skipna=False)
    places = [fit_minimum(data["relative"], curve).x for curve in curves]
    return np.array(places) * _over(late.critical_learning_rate, data["p"].values, data)


def _step(data: xr.Dataset) -> np.ndarray:
    """The grid's step for each width."""
    return data.attrs["spacing"] * _over(late.critical_learning_rate, data["p"].values, data)


def _over(form: Callable, widths, data: xr.Dataset) -> np.ndarray:
    return np.array([form(int(p), int(data.attrs["p_star"])) for p in widths])
