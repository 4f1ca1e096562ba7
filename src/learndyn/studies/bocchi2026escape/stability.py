"""Up to which learning rate zero-error solutions are stable.

A zero-error solution is disturbed by a small norm outside the teacher's span, shared alike by
the teacher's directions, and the rate at which tr Q − |ρ|² returns is measured. (A change of
the student's scale stays within the span and returns at a rate that does not know η.)

The quick preset has fewer learning rates and cases.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.fits import fit_line
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic

TITLE = "Stability of zero-error solutions against the learning rate"


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; learning rates in units of η_c, the disturbance relative to Q."""

    p: tuple[int, ...] = (1, 3, 4)
    p_star: tuple[int, ...] = (1, 2, 4)
    relative: tuple[float, ...] = (0.2, 0.6, 0.9, 1.1, 1.4)
    delta: float = 1e-4
    points: int = 21
    key: int = 1


PRESETS = {
    "quick": Params(),
    "paper": Params(
        p=(1, 3, 3, 4, 6),
        p_star=(1, 2, 3, 4, 3),
        relative=(*np.arange(0.1, 1.0, 0.1).tolist(), *np.arange(1.1, 1.55, 0.1).tolist()),
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Rates at which the norm outside the teacher's span, and the scale, return."""
    cases = list(zip(params.p, params.p_star, strict=True))
    shape = (len(cases), len(params.relative))
    found = np.empty((2, *shape))
    for done, (i, j) in enumerate(np.ndindex(*shape), start=1):
        p, p_star = cases[i]
        eta = params.relative[j] * quadratic.critical_learning_rate(p, p_star)
        found[:, i, j] = [_limit(params, p, p_star, eta, kind) for kind in ("outside", "scale")]
        report(done / np.prod(shape))
    dims = ("case", "relative")
    return xr.Dataset(
        {"trace_rate": (dims, found[0]), "scale_rate": (dims, found[1])},
        {
            "p": ("case", list(params.p)),
            "p_star": ("case", list(params.p_star)),
            "relative": ("relative", list(params.relative), {"long_name": "η / η_c"}),
        },
        {"delta": params.delta},
    )


def _limit(params: Params, p: int, p_star: int, eta: float, kind: str) -> float:
    """The rate extrapolated to no disturbance from the given one and its half."""
    whole, half = (_rate(params, p, p_star, eta, kind, params.delta / k) for k in (1, 2))
    return 2 * half - whole


def _rate(params: Params, p: int, p_star: int, eta: float, kind: str, delta: float) -> float:
    """The fitted rate of one disturbance, per t = η α, over one relaxation time of the flow."""
    system = quadratic_system(p, p_star, eta, N=1000)
    rho, Q = solutions.solution_overlaps(_directions(p, p_star, params.key))
    grown = 1 + delta
    rho = rho if kind == "outside" else np.sqrt(grown) * rho
    start = ld.start(system, state=ld.Overlaps(grown * Q, rho, np.eye(p_star)))
    t = np.linspace(0, -1 / quadratic.trace_rate(p, p_star, 0.0), params.points)
    record = ld.solve(system, t / eta, start=start, rtol=1e-12, atol=1e-15)
    traces = np.einsum("tkk->t", record["Q"].values)
    inside = np.sum(record["R"].values ** 2, axis=(1, 2))
    excess = traces - (inside if kind == "outside" else np.trace(Q))
    return ld.analysis.fit_rate(t, excess).slope


def _directions(p: int, p_star: int, key: int) -> np.ndarray:
    """A random S with SᵀS = I."""
    return solutions.polar_factor(np.random.default_rng(key).standard_normal((p, p_star)))


def draw(data: xr.Dataset) -> Figure:
    """Left: rates in units of the flow's. Right: the measured bound against the closed form."""
    figure, (left, right) = panels(2)
    x = data["relative"].values
    wide = np.linspace(0, x.max() * 1.05, 2)
    for case in range(data.sizes["case"]):
        p, p_star = _sizes(data, case)
        flow = -quadratic.trace_rate(p, p_star, 0.0)
        label = f"p = {p}, p* = {p_star}"
        left.plot(x, data["trace_rate"][case] / flow, "os^vD"[case % 5], ms=5 - case % 5 / 2)
        left.lines[-1].set(label=label, markerfacecolor="none")
        eta_c = quadratic.critical_learning_rate(p, p_star)
        right.plot(eta_c, _crossing(data, case), "os^vD"[case % 5], label=label)
    p, p_star = _sizes(data, 0)
    eta_c = quadratic.critical_learning_rate(p, p_star)
    line = np.array([quadratic.trace_rate(p, p_star, float(eta) * eta_c) for eta in wide])
    line /= -quadratic.trace_rate(p, p_star, 0.0)
    left.plot(wide, line, color="0.3", lw=1, label="closed form", zorder=0)
    left.axhline(0, color="0.6", lw=0.8)
    left.set(
        xlabel="learning rate η / $\\eta_c$", ylabel="rate of tr Q − |ρ|², in units of 16/(p p*)"
    )
    ends = [0, 1.1 * right.get_xlim()[1]]
    right.plot(ends, ends, color="0.3", lw=1, label="equal", zorder=0)
    right.set(
        xlabel="$\\eta_c$ = p p*/(4 (p* + 2))", ylabel="η at which the measured rate vanishes"
    )
    for axis in (left, right):
        axis.legend(frameon=False, fontsize=8)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """For each case: the rate at every η, where it changes sign, and the scale's rate."""
    return [claim for case in range(data.sizes["case"]) for claim in _case(data, case)]


def _case(data: xr.Dataset, case: int) -> list[Claim]:
    p, p_star = _sizes(data, case)
    eta_c = quadratic.critical_learning_rate(p, p_star)
    predicted = [quadratic.trace_rate(p, p_star, x * eta_c) for x in data["relative"].values]
    scale = quadratic.scale_rate(p, p_star)
    # A disturbance δ changes rates by an amount of order δ times the fastest of them; that is
    # what the extrapolation removes, up to order δ².
    tolerance = abs(scale) * data.attrs["delta"]
    largest = lambda name, form: float(np.max(np.abs(data[name][case].values - form)))
    slope = -quadratic.trace_rate(p, p_star, 0.0) / eta_c
    rows = [
        ("largest deviation from the predicted rate", 0.0, largest("trace_rate", predicted), 1),
        ("η at which the rate changes sign", eta_c, _crossing(data, case), 1 / slope),
        ("largest deviation of the scale's rate, at any η", 0.0, largest("scale_rate", scale), 1),
    ]
    return [
        Claim(
            statement=f"p = {p}, p* = {p_star}: {what}",
            source="stability at finite η",
            relation="=",
            expected=expected,
            measured=measured,
            tolerance=tolerance * factor,
            tolerance_from="first order in the disturbance (extrapolated away) × fastest rate",
            kind="finding",
        )
        for what, expected, measured, factor in rows
    ]


def _crossing(data: xr.Dataset, case: int) -> float:
    """The η at which a line through the rates vanishes."""
    eta = data["relative"].values * quadratic.critical_learning_rate(*_sizes(data, case))
    line = fit_line(eta, data["trace_rate"][case])
    return -line.intercept / line.slope


def _sizes(data: xr.Dataset, case: int) -> tuple[int, int]:
    return int(data["p"][case]), int(data["p_star"][case])
