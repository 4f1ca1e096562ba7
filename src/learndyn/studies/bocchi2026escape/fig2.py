"""Fig. 2: the learning rate that leaves the plateau with the fewest samples.

Where and how runs fail to converge is the study `regimes`.

The quick preset has fewer starts (2 instead of 20), fewer widths, a learning-rate grid twice as
coarse and half the horizon.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.fits import fit_line, fit_minimum
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.theory.committee.late_stage import quadratic as quadratic_late
from learndyn.theory.committee.plateau import quadratic as quadratic_plateau

TITLE = "Samples to half of the initial loss against the learning rate (p* = 3)"
LEARNED = 0.01  # a run whose loss ends below this fraction of its start has converged


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
    starts: int = 2
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(p=(3, 4, 5, 6, 7, 8, 9, 10), spacing=0.05, horizon=120.0, starts=20),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE over widths, learning rates and starts; for the first width also at ε²."""
    relative = np.arange(params.spacing / 2, params.largest, params.spacing)
    relative = relative[relative > 2 * params.spacing]
    jobs = [(p, params.epsilon) for p in params.p] + [(params.p[0], params.epsilon**2)]
    parts = []
    for number, (p, epsilon) in enumerate(jobs):
        tell = lambda done, number=number: report((number + done) / len(jobs))
        parts.append(_scan(params, p, epsilon, relative, tell))
    data = xr.concat(parts[:-1], xr.Variable("p", list(params.p)))
    data["small_start"] = parts[-1]["samples"]
    return data.assign_attrs(
        p_star=params.p_star, epsilon=params.epsilon, spacing=params.spacing, starts=params.starts
    )


def _scan(params: Params, p: int, epsilon: float, relative, report: Report) -> xr.Dataset:
    """Samples to half loss and the last loss, at each learning rate from each start."""
    etas = relative * quadratic_late.critical_learning_rate(p, params.p_star)
    found = np.empty((2, len(etas), params.starts))
    for done, (i, start) in enumerate(np.ndindex(*found.shape[1:]), start=1):
        found[:, i, start] = _one(params, p, epsilon, float(etas[i]), params.key + start)
        report(done / found[0].size)
    dims, axis = ("relative", "start"), {"long_name": "learning rate η / η_c"}
    names = ("samples", "remaining")
    variables = {n: (dims, values) for n, values in zip(names, found, strict=True)}
    return xr.Dataset(variables, {"relative": ("relative", relative, axis)})


def _one(params: Params, p: int, epsilon: float, eta: float, key: int) -> tuple[float, float]:
    system = quadratic_system(p, params.p_star, eta, N=1000)
    state = small_overlaps(p, params.p_star, epsilon, key)
    times = np.geomspace(params.horizon / 400, params.horizon, params.points - 1) * p / eta
    times = np.concatenate([[0.0], times])
    # Starts of size ε² must stand above the absolute tolerance.
    record = ld.solve(system, times, start=ld.start(system, state=state), atol=1e-13)
    error = record["error"].values
    return float(ld.analysis.escape_time(record)), float(error[-1] / error[0])


def draw(data: xr.Dataset) -> Figure:
    """Left: samples against η for the first width. Right: optimal η against p."""
    figure, (left, right) = panels(2)
    p_star, epsilon, p = int(data.attrs["p_star"]), data.attrs["epsilon"], data["p"].values
    eta_c = quadratic_late.critical_learning_rate(int(p[0]), p_star)
    for name, size in (("samples", epsilon), ("small_start", epsilon**2)):
        curve = data[name].isel(p=0) if name == "samples" else data[name]
        count, spread = curve.notnull().sum("start"), curve.std("start", ddof=1)
        eta = data["relative"] * eta_c
        error = spread / np.sqrt(count)
        left.errorbar(eta, curve.mean("start"), error, fmt="o-", ms=3, label=f"ε = {size:g}")
    bound = f"$\\eta_c$ = {eta_c:.3g}"
    left.axvline(eta_c, color="0.3", linestyle=":", label=bound)
    fastest = quadratic_plateau.fastest_learning_rate(int(p[0]), p_star)
    left.axvline(fastest, color="0.3", linestyle="--", label=f"optimum for ε → 0: {fastest:.3g}")
    left.set(xlabel="learning rate η", ylim=(0, 1.5 * float(data["small_start"].max())))
    left.set_ylabel("samples / N at half of the initial loss")
    left.set_title(f"p = {p[0]}, p* = {p_star}, {data.attrs['starts']} starts", fontsize=9)
    _draw_optimum(right, data)
    for axis in (left, right):
        axis.legend(frameon=False, fontsize=8)
    return figure


def _draw_optimum(axis, data: xr.Dataset) -> None:
    p, p_star, optimum = data["p"].values, int(data.attrs["p_star"]), _optimum(data)
    line, wide = fit_line(p, optimum), np.arange(p.min(), p.max() + 1)
    resolution = data.attrs["spacing"] / 2 * _over(quadratic_late.critical_learning_rate, p, p_star)
    axis.errorbar(p, optimum, resolution, fmt="o", ms=4, label=f"ODE, ε = {data.attrs['epsilon']}")
    sign = "−" if line.intercept < 0 else "+"
    label = f"fit {line.slope:.3f} p {sign} {abs(line.intercept):.3f}"
    axis.plot(wide, line.intercept + line.slope * wide, color="C0", label=label)
    curves = {
        "optimum for ε → 0": (quadratic_plateau.fastest_learning_rate, "--"),
        "solutions unstable, $\\eta_c$": (quadratic_late.critical_learning_rate, ":"),
        "plateau stable, $\\eta_0$": (quadratic_plateau.trapping_learning_rate, "-."),
    }
    for label, (form, style) in curves.items():
        axis.plot(wide, _over(form, wide, p_star), style, color="0.4", lw=1.2, label=label)
    axis.set(xlabel="student width p", ylabel="learning rate η")


def check(data: xr.Dataset) -> list[Claim]:
    """An optimum inside, linear in p; where runs stop converging; what sets the optimum."""
    return [_inside(data), *_linear(data), _small_start(data), _converging(data)]


def _inside(data: xr.Dataset) -> Claim:
    curve = data["samples"].isel(p=0).mean("start").values
    curve = curve[np.isfinite(curve)]
    return Claim(
        statement="samples to half loss have a minimum inside: smaller end of the curve / minimum",
        source="Fig. 2 left",
        relation="≥",
        expected=1.0,
        measured=float(min(curve[0], curve[-1]) / curve.min()),
        tolerance=0.0,
        tolerance_from="none: every learning rate sees the same starts",
    )


def _linear(data: xr.Dataset) -> list[Claim]:
    p, optimum = data["p"].values.astype(float), _optimum(data)
    step = data.attrs["spacing"] * _over(
        quadratic_late.critical_learning_rate, p, int(data.attrs["p_star"])
    )
    line = fit_line(p, optimum)
    proportional = p * (optimum @ p) / (p @ p)
    misfit = lambda law: float(np.max(np.abs(optimum - law) / step))
    return [
        Claim(
            statement="the optimal η is linear in p: largest distance from a line, in grid steps",
            source="Fig. 2 right",
            relation="≤",
            expected=0.5,
            measured=misfit(line.intercept + line.slope * p),
            tolerance=0.0,
            tolerance_from="half a grid step is the resolution of an optimum on the grid",
        ),
        Claim(
            statement="but not proportional to p: largest distance from η = c p, in grid steps",
            source="after Fig. 2, which takes η ∝ p",
            relation="≥",
            expected=0.5,
            measured=misfit(proportional),
            tolerance=0.0,
            tolerance_from="half a grid step is the resolution of an optimum on the grid",
            kind="finding",
        ),
    ]


def _small_start(data: xr.Dataset) -> Claim:
    """Each e-fold in 1/ε costs 1/(η ω_ρ(η)) samples, whose minimum is known."""
    cost = (data["small_start"] - data["samples"].isel(p=0)).mean("start")
    p, p_star = int(data["p"][0]), int(data.attrs["p_star"])
    eta_c = quadratic_late.critical_learning_rate(p, p_star)
    return Claim(
        statement="samples per e-fold of 1/ε are fewest where η ω_ρ(η) is largest, at η/η_c",
        source="plateau at finite η",
        relation="=",
        expected=quadratic_plateau.fastest_learning_rate(p, p_star) / eta_c,
        measured=fit_minimum(data["relative"], cost).x,
        tolerance=data.attrs["spacing"] / 2,
        tolerance_from="half a grid step",
        kind="finding",
    )


def _converging(data: xr.Dataset) -> Claim:
    """The first learning rate that fails, over all widths and starts."""
    relative, step = data["relative"].values, data.attrs["spacing"]
    learned = (data["remaining"] < LEARNED).all(("p", "start")).values
    first = relative[np.argmin(learned)] if not learned.all() else np.inf
    return Claim(
        statement="with growing η/η_c, runs fail to reach zero loss at",
        source="Fig. 2, and stability at finite η",
        relation="=",
        expected=1.0,
        measured=float(first - step / 2),
        tolerance=step / 2,
        tolerance_from="half a grid step",
        kind="finding",
    )


def _optimum(data: xr.Dataset) -> np.ndarray:
    """The η of fewest samples for each width, among those where every run converges."""
    p, p_star = data["p"].values, int(data.attrs["p_star"])
    curves = data["samples"].where(data["relative"] < 1).mean("start", skipna=False)
    places = [fit_minimum(data["relative"], curve).x for curve in curves]
    return np.array(places) * _over(quadratic_late.critical_learning_rate, p, p_star)


def _over(form, widths, p_star: int) -> np.ndarray:
    return np.array([form(int(p), p_star) for p in widths])
