"""Up to which learning rate zero-error solutions are stable.

A zero-error solution is disturbed by a small norm outside the teacher's span, shared alike by
the teacher's directions, and the rate at which tr Q − |ρ|² returns is measured. (A change of
the student's scale stays within the span and returns at a rate that does not know η.)

The quick preset has fewer learning rates and cases.
"""

import dataclasses
import itertools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.fits import fit_line
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic

TITLE = "Stability of zero-error solutions against the learning rate"
RATES = ("trace_rate", "scale_rate")


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
    sizes = zip(params.p, params.p_star, strict=True)
    jobs = [(p, p_star, x) for p, p_star in sizes for x in params.relative]
    found = [
        [_limit(params, *job, kind) for kind in ("outside", "scale")] for job in cases(jobs, report)
    ]
    rates = np.reshape(found, (len(params.p), len(params.relative), 2))
    return xr.Dataset(
        {name: (("case", "relative"), rates[..., i]) for i, name in enumerate(RATES)},
        {
            "p": ("case", list(params.p)),
            "p_star": ("case", list(params.p_star)),
            "relative": ("relative", list(params.relative), {"long_name": "η / η_c"}),
        },
        {"delta": params.delta},
    )


def _limit(params: Params, p: int, p_star: int, relative: float, kind: str) -> float:
    """The rate extrapolated to no disturbance from the given one and its half."""
    eta = relative * quadratic.critical_learning_rate(p, p_star)
    whole, half = (_rate(params, p, p_star, eta, kind, params.delta / k) for k in (1, 2))
    return 2 * half - whole


def _rate(params: Params, p: int, p_star: int, eta: float, kind: str, delta: float) -> float:
    """The fitted rate of one disturbance, per t = η α, over one relaxation time of the flow."""
    system = quadratic_system(p, p_star, eta, N=1000)
    drawn = np.random.default_rng(params.key).standard_normal((p, p_star))
    rho, Q = solutions.solution_overlaps(solutions.polar_factor(drawn))
    grown = 1 + delta
    rho = rho if kind == "outside" else np.sqrt(grown) * rho
    start = ld.start(system, state=ld.Overlaps(grown * Q, rho, np.eye(p_star)))
    t = np.linspace(0, -1 / quadratic.trace_rate(p, p_star, 0.0), params.points)
    record = ld.solve(system, t / eta, start=start, rtol=1e-12, atol=1e-15)
    Q_t, rho_t = record["Q"].values, record["R"].values
    outside = kind == "outside"
    excess = (
        solutions.norm_outside(Q_t, rho_t) if outside else np.einsum("tkk->t", Q_t) - np.trace(Q)
    )
    return ld.analysis.fit_rate(t, excess).slope


def draw(data: xr.Dataset) -> Figure:
    """Left: rates in units of the flow's. Right: the measured bound against the closed form."""
    figure, (left, right) = panels(2)
    x = data["relative"].values
    for case, marker in zip(range(data.sizes["case"]), itertools.cycle("os^vD"), strict=False):
        p, p_star = _sizes(data, case)
        look = {"marker": marker, "ls": "none", "label": f"p = {p}, p* = {p_star}"}
        flow = -quadratic.trace_rate(p, p_star, 0.0)
        left.plot(x, data["trace_rate"][case] / flow, mfc="none", ms=5 - case % 5 / 2, **look)
        right.plot(quadratic.critical_learning_rate(p, p_star), _crossing(data, case), **look)
    wide = np.linspace(0, x.max() * 1.05, 2)
    eta_c, flow = quadratic.critical_learning_rate(1, 1), -quadratic.trace_rate(1, 1, 0.0)
    line = [quadratic.trace_rate(1, 1, w * eta_c) / flow for w in wide]
    left.plot(wide, line, color="0.3", lw=1, label="closed form", zorder=0)
    left.axhline(0, color="0.6", lw=0.8)
    left.set_ylabel("rate of tr Q − |ρ|², in units of 16/(p p*)")
    left.set_xlabel("learning rate η / $\\eta_c$")
    ends = [0, 1.1 * right.get_xlim()[1]]
    right.plot(ends, ends, color="0.3", lw=1, label="equal", zorder=0)
    right.set_xlabel("$\\eta_c$ = p p*/(4 (p* + 2))")
    right.set_ylabel("η at which the measured rate vanishes")
    for axis in (left, right):
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """For each case: the rate at every η, where it changes sign, and the scale's rate."""
    return [row for case in range(data.sizes["case"]) for row in _case(data, case)]


def _case(data: xr.Dataset, case: int) -> list[Claim]:
    p, p_star = _sizes(data, case)
    eta_c, scale = quadratic.critical_learning_rate(p, p_star), quadratic.scale_rate(p, p_star)
    predicted = [quadratic.trace_rate(p, p_star, x * eta_c) for x in data["relative"].values]
    largest = lambda name, form: np.max(np.abs(data[name][case].values - form))
    rates = quadratic.disturbed_rate_error(p, p_star, data.attrs["delta"])
    bound = quadratic.disturbed_bound_error(p, p_star, data.attrs["delta"])
    rows = [
        ("largest deviation from the predicted rate", largest("trace_rate", predicted), 0.0, rates),
        ("η at which the rate changes sign", _crossing(data, case), eta_c, bound),
        (
            "largest deviation of the scale's rate, at any η",
            largest("scale_rate", scale),
            0.0,
            rates,
        ),
    ]
    name, source = f"p = {p}, p* = {p_star}", "stability at finite η"
    said = lambda what: claim(f"{name}: {what}", source, kind="finding")
    because = "first order in the disturbance (extrapolated away) × fastest rate"
    return [
        said(what).equals(measured, expected, within=within, because=because)
        for what, measured, expected, within in rows
    ]


def _crossing(data: xr.Dataset, case: int) -> float:
    """The η at which a line through the rates vanishes."""
    eta = data["relative"].values * quadratic.critical_learning_rate(*_sizes(data, case))
    line = fit_line(eta, data["trace_rate"][case])
    return -line.intercept / line.slope


def _sizes(data: xr.Dataset, case: int) -> tuple[int, int]:
    return int(data["p"][case]), int(data["p_star"][case])
