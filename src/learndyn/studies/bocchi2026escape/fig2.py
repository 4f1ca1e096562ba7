"""Fig. 2: the learning rate that leaves the plateau with the fewest samples.

Runs fail to converge in two ways. Above η_c zero-error solutions are unstable: for p = p* the
plateau becomes stable at the same η_c and nothing is learned; for p > p* the plateau is left, up
to η₀ > η_c, and the loss ends above zero. Above the last plateau the norms diverge.

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
from learndyn.theory.committee import quadratic

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
    largest: float = 1.5
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
    data = xr.concat(parts[:-1], xr.Variable("p", list(params.p), {"long_name": "student width p"}))
    data["small_start"] = parts[-1]["samples"]
    return data.assign_attrs(
        p_star=params.p_star, epsilon=params.epsilon, spacing=params.spacing, starts=params.starts
    )


def _scan(params: Params, p: int, epsilon: float, relative, report: Report) -> xr.Dataset:
    """Samples to half loss, last loss and outcome, at each learning rate from each start."""
    found, total = [], len(relative) * params.starts
    for i, eta in enumerate(relative * quadratic.critical_learning_rate(p, params.p_star)):
        row = []
        for start in range(params.starts):
            row.append(_one(params, p, epsilon, float(eta), params.key + start))
            report((i * params.starts + start + 1) / total)
        found.append(xr.concat(row, "start"))
    axis = xr.Variable("relative", relative, {"long_name": "learning rate η / η_c"})
    return xr.concat(found, axis)


def _one(params: Params, p: int, epsilon: float, eta: float, key: int) -> xr.Dataset:
    system = quadratic_system(p, params.p_star, eta, N=1000)
    state = small_overlaps(p, params.p_star, epsilon, key)
    times = np.geomspace(params.horizon / 400, params.horizon, params.points - 1) * p / eta
    times = np.concatenate([[0.0], times])
    # Starts of size ε² must stand above the absolute tolerance.
    record = ld.solve(system, times, start=ld.start(system, state=state), atol=1e-13)
    return xr.Dataset(
        {
            "samples": ld.analysis.escape_time(record),
            "remaining": record["error"][-1] / record["error"][0],
            "outcome": record["outcome"],
        }
    )


def draw(data: xr.Dataset) -> Figure:
    """Left: samples against η for the first width. Right: optimal η against p."""
    figure, (left, right) = panels(2)
    p_star, epsilon, p = data.attrs["p_star"], data.attrs["epsilon"], data["p"].values
    eta_c = quadratic.critical_learning_rate(int(p[0]), p_star)
    for name, size in (("samples", epsilon), ("small_start", epsilon**2)):
        curve = data[name].isel(p=0) if name == "samples" else data[name]
        count, spread = curve.notnull().sum("start"), curve.std("start", ddof=1)
        eta = data["relative"] * eta_c
        error = spread / np.sqrt(count)
        left.errorbar(eta, curve.mean("start"), error, fmt="o-", ms=3, label=f"ε = {size:g}")
    bound = f"$\\eta_c$ = {eta_c:.3g}"
    left.axvline(eta_c, color="0.3", linestyle=":", label=bound)
    fastest = quadratic.fastest_learning_rate(int(p[0]), p_star)
    left.axvline(fastest, color="0.3", linestyle="--", label=f"optimum for ε → 0: {fastest:.3g}")
    left.set(xlabel="learning rate η", ylim=(0, 1.5 * float(data["small_start"].max())))
    left.set_ylabel("samples / N at half of the initial loss")
    left.set_title(f"p = {p[0]}, p* = {p_star}, {data.attrs['starts']} starts", fontsize=9)
    _draw_optimum(right, data)
    for axis in (left, right):
        axis.legend(frameon=False, fontsize=8)
    return figure


def _draw_optimum(axis, data: xr.Dataset) -> None:
    p, p_star, optimum = data["p"].values, data.attrs["p_star"], _optimum(data)
    line, wide = fit_line(p, optimum), np.linspace(p.min(), p.max(), 50)
    resolution = data.attrs["spacing"] / 2 * _over(quadratic.critical_learning_rate, p, p_star)
    axis.errorbar(p, optimum, resolution, fmt="o", ms=4, label=f"ODE, ε = {data.attrs['epsilon']}")
    label = f"{line.slope:.3f} p {line.intercept:+.3f}"
    axis.plot(wide, line.intercept + line.slope * wide, color="C0", label=label)
    curves = {
        "optimum for ε → 0": (quadratic.fastest_learning_rate, "--"),
        "solutions unstable, $\\eta_c$": (quadratic.critical_learning_rate, ":"),
        "plateau stable, $\\eta_0$": (quadratic.trapping_learning_rate, "-."),
    }
    for label, (form, style) in curves.items():
        axis.plot(wide, _over(form, wide, p_star), style, color="0.4", lw=1.2, label=label)
    axis.set(xlabel="student width p", ylabel="learning rate η")


def check(data: xr.Dataset) -> list[Claim]:
    """An optimum inside, linear in p; where runs stop converging; what sets the optimum."""
    return [_inside(data), *_linear(data), _small_start(data), *_bounds(data)]


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
        quadratic.critical_learning_rate, p, data.attrs["p_star"]
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
    p, p_star = int(data["p"][0]), data.attrs["p_star"]
    eta_c = quadratic.critical_learning_rate(p, p_star)
    return Claim(
        statement="samples per e-fold of 1/ε are fewest where η ω_ρ(η) is largest, at η/η_c",
        source="plateau at finite η",
        relation="=",
        expected=quadratic.fastest_learning_rate(p, p_star) / eta_c,
        measured=fit_minimum(data["relative"], cost).x,
        tolerance=data.attrs["spacing"] / 2,
        tolerance_from="half a grid step",
        kind="finding",
    )


def _bounds(data: xr.Dataset) -> list[Claim]:
    """The two learning rates between which runs neither converge nor diverge."""
    p, p_star, step = data["p"].values, data.attrs["p_star"], data.attrs["spacing"]
    eta_c = _over(quadratic.critical_learning_rate, p, p_star)
    diverged = (data["outcome"] != "finished").any("start")
    converged = (~diverged & (data["remaining"] < LEARNED).all("start")).values
    ends = _over(quadratic.plateau_end, p, p_star) / eta_c
    rows = [
        ("runs reach zero loss up to η_c and none above it", np.ones(len(p)), converged),
        ("runs diverge above the last plateau and none below it", ends, ~diverged.values),
    ]
    return [
        Claim(
            statement=f"{what}: largest misplacement of the bound over p, in grid steps",
            source=source,
            relation="≤",
            expected=0.5,
            measured=_misplacement(data["relative"].values, bound, below, step),
            tolerance=0.0,
            tolerance_from="the bound lies between two grid points, taken in the middle",
            kind="finding",
        )
        for (what, bound, below), source in zip(
            rows, ("stability at finite η", "plateau at finite η"), strict=True
        )
    ]


def _misplacement(relative, bound, below, step: float) -> float:
    """Infinite where the runs below a bound are not the first ones of the grid."""
    worst = 0.0
    for expected, row in zip(bound, below, strict=True):
        count = int(row.sum())
        if not row[:count].all():
            return float("inf")
        # A bound above the grid must find all rows below it.
        measured = relative[0] - step / 2 + count * step
        worst = max(worst, abs(measured - min(expected, relative[-1] + step / 2)) / step)
    return worst


def _optimum(data: xr.Dataset) -> np.ndarray:
    """The η of fewest samples for each width, among those where every run converges."""
    p, p_star = data["p"].values, data.attrs["p_star"]
    curves = data["samples"].where(data["relative"] < 1).mean("start", skipna=False)
    places = [fit_minimum(data["relative"], curve).x for curve in curves]
    return np.array(places) * _over(quadratic.critical_learning_rate, p, p_star)


def _over(form, widths, p_star: int) -> np.ndarray:
    return np.array([form(p, p_star) for p in widths])
