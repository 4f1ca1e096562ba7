"""Fig. 2: the learning rate that leaves the plateau with the fewest samples.

Every learning rate sees the same starts, so that the shape of a curve is judged for each start: by
the curvature and the vertex of a parabola through log samples against log η. A curve that falls
throughout has no vertex in the grid. Where and how runs fail to converge is the study `regimes`.
The quick preset has fewer starts (5 instead of 20), fewer widths, a learning-rate grid twice as
coarse and half the horizon.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.fits import fit_line, fit_minimum, fit_parabola
from learndyn.plotting import panels
from learndyn.studies import intervals
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import ode, small_overlaps
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.late_stage.quadratic import critical_learning_rate
from learndyn.theory.committee.plateau import quadratic as plateau

TITLE = "Samples to half of the initial loss against the learning rate (p* = 3)"
DIFFERS = (
    "p* = 3, ε = 0.01 and 20 starts are the paper's; rates and the widths on the right are not "
    "stated, here 0.125 to 1.075 η_c and p = 3 to 10; starts of size ε² are added"
)
LEARNED = 0.01  # a run whose loss ends below this fraction of its start has converged
GRID = "half a grid step is the resolution of an optimum on the grid"
CLAIMS = {
    "curved": claim("samples to half loss curve upwards in log η: curvature of their logarithm, "
                    "mean over starts", "Fig. 2 left"),
    "inside": claim("their minimum is inside the grid: distance of the vertex from its nearer end "
                    "in log η, mean over starts (vertex at {vertex:.3g} η_c)", "Fig. 2 left"),
    "linear": claim("the optimal η is linear in p: largest distance from a line, in grid steps",
                    "Fig. 2 right", because=GRID),
    "grows": claim("the optimal η grows faster than p, like the η at which small starts grow "
                   "fastest: growth of η/p from p = {first:g} to {last:g}, in grid steps",
                   "after Fig. 2, which takes η ∝ p", kind="finding", because=GRID),
    "fastest": claim("samples per e-fold of 1/ε are fewest where η ω_ρ(η) is largest, at η/η_c",
                     "plateau at finite η", kind="finding", because="half a grid step"),
    "fails": claim("the smallest η/η_c at which runs fail to reach zero loss",
                   "Fig. 2, and stability at finite η", kind="finding", because="half a grid step"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Learning rates are k + 1/2 times `spacing`, in units of η_c; runs last η α = `horizon` p."""

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
    pairs = [_one(params, *job) for job in cases(jobs, report)]
    shape = len(rows), len(relative), params.starts
    samples, remaining = (np.reshape(column, shape) for column in zip(*pairs, strict=True))
    dims, axis = ("p", "relative", "start"), {"long_name": "learning rate η / η_c"}
    return xr.Dataset(
        {
            "samples": (dims, samples[:-1]),
            "remaining": (dims, remaining[:-1]),
            "small_start": (dims[1:], samples[-1]),
        },
        {"p": list(params.p), "relative": ("relative", relative, axis)},
        {name: getattr(params, name) for name in ("p_star", "epsilon", "spacing", "starts")},
    )


def _one(params: Params, p: int, epsilon: float, x: float, start: int) -> tuple[float, float]:
    """Samples to half loss, and the last loss over the first."""
    eta = float(x * critical_learning_rate(p, params.p_star))
    state = small_overlaps(p, params.p_star, epsilon, params.key + start)
    times = np.geomspace(params.horizon / 400, params.horizon, params.points - 1) * p / eta
    # Starts of size ε² must stand above the absolute tolerance.
    record = ode(state, eta, np.concatenate([[0.0], times]), atol=1e-13)
    error = record["error"].values
    return float(ld.analysis.fall_time(record)), float(error[-1] / error[0])


def draw(data: xr.Dataset) -> Figure:
    """Left: samples against η for the first width. Right: optimal η against p."""
    figure, (left, right) = panels(2)
    size, epsilon = (int(data["p"][0]), int(data.attrs["p_star"])), data.attrs["epsilon"]
    eta_c, fastest = critical_learning_rate(*size), plateau.fastest_learning_rate(*size)
    for curve, start in ((data["samples"][0], epsilon), (data["small_start"], epsilon**2)):
        mean, error = ld.analysis.mean_and_error(curve.rename(start="run"))
        left.errorbar(data["relative"] * eta_c, mean, error, fmt="o-", ms=3, label=f"ε = {start:g}")
    left.axvline(eta_c, color="0.3", ls=":", label=f"$\\eta_c$ = {eta_c:.3g}")
    left.axvline(fastest, color="0.3", ls="--", label=f"optimum for ε → 0: {fastest:.3g}")
    left.set_ylim(0, 1.5 * float(data["small_start"].max()))
    title = "p = {}, p* = {}, {} starts".format(*size, data.attrs["starts"])
    finish(left, "learning rate η", "samples / N at half of the initial loss", title)
    _draw_optimum(right, data)
    return figure


def _draw_optimum(axis: Axes, data: xr.Dataset) -> None:
    p, (optimum, step) = data["p"].values, _optimum(data)
    line, wide = fit_line(p, optimum), np.arange(p.min(), p.max() + 1)
    axis.errorbar(p, optimum, step / 2, fmt="o", ms=4, label=f"ODE, ε = {data.attrs['epsilon']}")
    sign = "−" if line.intercept < 0 else "+"
    label = f"fit {line.slope:.3f} p {sign} {abs(line.intercept):.3f}"
    axis.plot(wide, line.intercept + line.slope * wide, color="C0", label=label)
    curves = {
        "optimum for ε → 0": (plateau.fastest_learning_rate, "--"),
        "solutions unstable, $\\eta_c$": (critical_learning_rate, ":"),
        "plateau stable, $\\eta_0$": (plateau.trapping_learning_rate, "-."),
    }
    for label, (form, style) in curves.items():
        axis.plot(wide, _over(form, wide, data), style, color="0.4", lw=1.2, label=label)
    finish(axis, "student width p", "learning rate η")


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """An optimum inside, linear in p; where runs stop converging; what sets the optimum."""
    spacing, half = data.attrs["spacing"], data.attrs["spacing"] / 2
    p, (optimum, step) = data["p"].values.astype(float), _optimum(data)
    line = fit_line(p, optimum)
    misfit = np.max(np.abs(optimum - line.intercept - line.slope * p) / step)
    relative_optimum = optimum / _over(critical_learning_rate, p, data)  # η_c ∝ p
    growth = (relative_optimum[-1] - relative_optimum[0]) / spacing
    # Each e-fold in 1/ε costs 1/(η ω_ρ(η)) samples, whose minimum is known.
    cost = (data["small_start"] - data["samples"].isel(p=0)).mean("start")
    size = int(p[0]), int(data.attrs["p_star"])
    fastest = plateau.fastest_learning_rate(*size) / critical_learning_rate(*size)
    learned = (data["remaining"] < LEARNED).all(("p", "start")).values
    first = data["relative"].values[np.argmin(learned)] if not learned.all() else np.inf
    return [
        *_inside(data),
        CLAIMS["linear"].at_most(misfit, 0.5),
        CLAIMS["grows"].format(first=p[0], last=p[-1]).at_least(growth, 0.5),
        CLAIMS["fastest"].equals(fit_minimum(data["relative"], cost).x, fastest, half),
        CLAIMS["fails"].equals(first - half, 1.0, half),
    ]


def _inside(data: xr.Dataset) -> list[Claim]:
    """Each start's parabola through log samples against log η, below η_c."""
    curves = data["samples"].isel(p=0).where(data["relative"] < 1, drop=True)
    x = np.log(curves["relative"].values)
    fits = [fit_parabola(x, np.log(curve)) for curve in curves.transpose("start", ...).values]
    curvature, vertex = np.array([(fit.curvature, fit.vertex) for fit in fits]).T
    middle = vertex.mean()
    nearer = vertex - x[0] if middle - x[0] < x[-1] - middle else x[-1] - vertex
    mean = lambda values: intervals.of_mean(values, "starts, each seen by all η")
    return [
        CLAIMS["curved"].at_least(mean(curvature), 0.0),
        CLAIMS["inside"].format(vertex=np.exp(middle)).at_least(mean(nearer), 0.0),
    ]


def _optimum(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The η of fewest samples where every run converges, and the grid's step, for each width."""
    curves = data["samples"].where(data["relative"] < 1).mean("start", skipna=False)
    places = [fit_minimum(data["relative"], curve).x for curve in curves]
    eta_c = _over(critical_learning_rate, data["p"].values, data)
    return np.array(places) * eta_c, data.attrs["spacing"] * eta_c


def _over(form: Callable, widths, data: xr.Dataset) -> np.ndarray:
    return np.array([form(int(p), int(data.attrs["p_star"])) for p in widths])
