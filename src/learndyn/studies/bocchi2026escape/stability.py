"""Up to which learning rate zero-error solutions are stable.

A zero-error solution is disturbed by a small norm outside the teacher's span, shared equally by the
teacher's directions, and the rate at which tr Q − |ρ|² returns is measured. (A change of the
student's scale stays within the span and returns at a rate that is independent of η.) The quick
preset has fewer learning rates and cases.
"""

import dataclasses
import functools
import itertools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.fits import fit_line
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import ode, sizes
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic

TITLE = "Stability of zero-error solutions against the learning rate"
DIFFERS = "ours: the paper has no such figure"
CASE, SOURCE = "p = {p}, p* = {p_star}: ", "stability at finite η"
DISTURBED = "first order in the disturbance (extrapolated away) × fastest rate"
finding = functools.partial(claim, source=SOURCE, kind="finding", because=DISTURBED)
CLAIMS = {
    "rate": finding(CASE + "largest deviation from the predicted rate"),
    "bound": finding(CASE + "η at which the rate changes sign"),
    "scale": finding(CASE + "largest deviation of the scale's rate, at any η"),
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; learning rates in units of η_c, the disturbance relative to Q."""

    p: tuple[int, ...] = (1, 3, 4)
    p_star: tuple[int, ...] = (1, 2, 4)
    relative: tuple[float, ...] = (0.2, 0.6, 0.9, 1.1, 1.4)
    delta: float = 1e-4
    points: int = 21
    key: int = 1


_FINE = (*np.arange(0.1, 1.0, 0.1).tolist(), *np.arange(1.1, 1.55, 0.1).tolist())
PRESETS = {
    "quick": Params(),
    "paper": Params(p=(1, 3, 3, 4, 6), p_star=(1, 2, 3, 4, 3), relative=_FINE),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Rates at which the norm outside the teacher's span, and the scale, return."""
    pairs = zip(params.p, params.p_star, strict=True)
    jobs = [(p, p_star, x) for p, p_star in pairs for x in params.relative]
    shape = len(params.p), len(params.relative)
    limits = [[_limit(params, *job, kind) for kind in _EXCESS] for job in cases(jobs, report)]
    columns = (np.reshape(column, shape) for column in zip(*limits, strict=True))
    names = ("trace_rate", "scale_rate")
    return xr.Dataset(
        {name: (("case", "relative"), rates) for name, rates in zip(names, columns, strict=True)},
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


_EXCESS = {
    "outside": lambda Q, rho, first: solutions.norm_outside(Q, rho),
    "scale": lambda Q, rho, first: np.einsum("tkk->t", Q) - np.trace(first),
}


def _rate(params: Params, p: int, p_star: int, eta: float, kind: str, delta: float) -> float:
    """The fitted rate of one disturbance, per t = η α, over one relaxation time of the flow."""
    drawn = np.random.default_rng(params.key).standard_normal((p, p_star))
    rho, Q = solutions.solution_overlaps(solutions.polar_factor(drawn))
    grown = 1 + delta
    disturbed = rho if kind == "outside" else np.sqrt(grown) * rho
    state = ld.Overlaps(grown * Q, disturbed, np.eye(p_star))
    t = np.linspace(0, -1 / quadratic.trace_rate(p, p_star, 0.0), params.points)
    record = ode(state, eta, t / eta, rtol=1e-12, atol=1e-15)
    excess = _EXCESS[kind](record["Q"].values, record["R"].values, Q)
    return ld.analysis.fit_rate(t, excess).slope


def draw(data: xr.Dataset) -> Figure:
    """Left: rates in units of the flow's. Right: the measured bound against the closed form."""
    figure, (left, right) = panels(2)
    x = data["relative"].values
    for case, marker in zip(range(data.sizes["case"]), itertools.cycle("os^vD"), strict=False):
        one = data.isel(case=case)
        p, p_star = sizes(one)
        look = {"marker": marker, "ls": "none", "label": f"p = {p}, p* = {p_star}"}
        flow = -quadratic.trace_rate(p, p_star, 0.0)
        left.plot(x, one["trace_rate"] / flow, mfc="none", ms=5 - case % 5 / 2, **look)
        right.plot(quadratic.critical_learning_rate(p, p_star), _crossing(one), **look)
    wide = np.linspace(0, x.max() * 1.05, 2)
    eta_c, flow = quadratic.critical_learning_rate(1, 1), -quadratic.trace_rate(1, 1, 0.0)
    line = [quadratic.trace_rate(1, 1, w * eta_c) / flow for w in wide]
    left.plot(wide, line, color="0.3", lw=1, label="closed form", zorder=0)
    left.axhline(0, color="0.6", lw=0.8)
    finish(left, "learning rate η / $\\eta_c$", "rate of tr Q − |ρ|², in units of 16/(p p*)")
    ends = [0, 1.1 * right.get_xlim()[1]]
    right.plot(ends, ends, color="0.3", lw=1, label="equal", zorder=0)
    finish(right, "$\\eta_c$ = p p*/(4 (p* + 2))", "η at which the measured rate vanishes")
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """For each case: the rate at every η, where it changes sign, and the scale's rate."""
    claims = []
    for one in (data.isel(case=case) for case in range(data.sizes["case"])):
        p, p_star = sizes(one)
        eta_c, scale = quadratic.critical_learning_rate(p, p_star), quadratic.scale_rate(p, p_star)
        predicted = [quadratic.trace_rate(p, p_star, x * eta_c) for x in data["relative"].values]
        gap, scale_gap = abs(one["trace_rate"] - predicted).max(), abs(one["scale_rate"] - scale)
        rates = quadratic.disturbed_rate_error(p, p_star, data.attrs["delta"])
        bound = quadratic.disturbed_bound_error(p, p_star, data.attrs["delta"])
        named = {name: each.format(p=p, p_star=p_star) for name, each in CLAIMS.items()}
        claims += [
            named["rate"].equals(gap, 0.0, rates),
            named["bound"].equals(_crossing(one), eta_c, bound),
            named["scale"].equals(scale_gap.max(), 0.0, rates),
        ]
    return claims


def _crossing(one: xr.Dataset) -> float:
    """The η at which a line through the rates vanishes."""
    eta = one["relative"].values * quadratic.critical_learning_rate(*sizes(one))
    line = fit_line(eta, one["trace_rate"])
    return -line.intercept / line.slope
