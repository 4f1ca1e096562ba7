"""The end of learning: algebraic for p > p*, where p − p* directions die out, else exponential.

The quick preset ends ten times earlier and has one width less than the paper preset.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.theory.committee.late_stage import quadratic

TITLE = "How the loss vanishes: t^-2 for p > p*, exponentially for p = p*"
LEARNED = 0.01  # of the initial loss: less than one direction not yet learned would leave
WINDOW = (1e-9, 1e-6)  # of the initial loss, where the exponential is fitted


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; learning rates in units of η_c, 0 for the flow; time is t = η α."""

    p: tuple[int, ...] = (3, 3, 3)
    p_star: tuple[int, ...] = (2, 2, 3)
    relative: tuple[float, ...] = (0.0, 0.4, 0.0)
    epsilon: float = 0.01
    horizon: float = 3000.0
    points: int = 301
    key: int = 1


PRESETS = {
    "quick": Params(),
    "paper": Params(
        p=(3, 3, 6, 6, 3),
        p_star=(2, 2, 3, 3, 3),
        relative=(0.0, 0.4, 0.0, 0.4, 0.0),
        horizon=30_000.0,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE to long times, with the student's norm outside the teacher's span."""
    cases = list(zip(params.p, params.p_star, params.relative, strict=True))
    rows = []
    for done, case in enumerate(cases, start=1):
        rows.append(_solve(params, *case))
        report(done / len(cases))
    data = xr.concat(rows, "case")
    names = ("p", "p_star", "relative")
    labels = {n: ("case", list(v)) for n, v in zip(names, zip(*cases, strict=True), strict=True)}
    return data.assign_coords(labels)


def _solve(params: Params, p: int, p_star: int, relative: float) -> xr.Dataset:
    """Loss and norm against t = η α; the flow does not depend on η but for the clock."""
    eta = (relative or 1.0) * quadratic.critical_learning_rate(p, p_star)
    system = quadratic_system(p, p_star, eta, N=1000)
    start = ld.start(system, state=small_overlaps(p, p_star, params.epsilon, params.key))
    t = np.concatenate([[0.0], np.geomspace(1, params.horizon, params.points - 1)])
    order = "full" if relative else "flow"
    # The loss gets as small as 1e-10 of what it began with, by cancellation.
    record = ld.solve(system, t / eta, start=start, order=order, rtol=1e-12, atol=1e-14)
    spare = np.linalg.eigvalsh(record["Q"].values)[:, : p - p_star]
    return xr.Dataset(
        {
            "error": ("t", record["error"].values),
            "spare_norm": ("t", spare.mean(1) if p > p_star else np.full(len(t), np.nan)),
            "learned": eta * ld.analysis.escape_time(record, fraction=LEARNED),
        },
        {"t": ("t", t, {"long_name": "time t = ηα"})},
    )


def draw(data: xr.Dataset) -> Figure:
    """Left: the loss. Right: R t² and q_⊥ t over their predicted limits."""
    figure, (left, right) = panels(2)
    t = data["t"].values[1:]
    for case in range(data.sizes["case"]):
        one, color = data.isel(case=case, t=slice(1, None)), f"C{case}"
        p, p_star, eta = _sizes(one)
        what = f"η = {float(one['relative']):g} $\\eta_c$" if eta else "flow"
        label = f"p = {p}, p* = {p_star}, {what}"
        positive = one["error"].where(one["error"] > 1e-13)
        left.plot(t, positive, color=color, lw=1.4, label=label)
        if p > p_star:
            limit = quadratic.tail_risk(p, p_star, eta)
            left.plot(t, limit / t**2, "--", color=color, lw=0.8)
            right.plot(t, one["error"] * t**2 / limit, color=color, lw=1.4, label=label)
            norm = quadratic.tail_norm(p, p_star)
            right.plot(t, one["spare_norm"] * t / norm, ":", color=color, lw=1.4)
    left.plot([], [], "--", color="0.3", lw=0.8, label="predicted limit")
    left.set(ylabel="generalisation error R", yscale="log", ylim=(1e-13, 10))
    right.axhline(1, color="0.5", lw=0.8)
    right.plot([], [], "-", color="0.3", label="R t² / limit")
    right.plot([], [], ":", color="0.3", label="$q_\\perp$ t / limit")
    right.set(ylabel="approach to the limit", ylim=(0.9, 1.6), xlim=(10, None))
    for axis in (left, right):
        axis.set(xlabel="time t = ηα", xscale="log")
        axis.legend(frameon=False, fontsize=8)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Exponent and both prefactors for p > p*, the rate for p = p*."""
    claims = []
    for case in range(data.sizes["case"]):
        one = data.isel(case=case)
        p, p_star, _ = _sizes(one)
        claims += _algebraic(one) if p > p_star else [_exponential(one)]
    return claims


def _algebraic(one: xr.Dataset) -> list[Claim]:
    p, p_star, eta = _sizes(one)
    t, risk, norm = one["t"].values, one["error"].values, one["spare_norm"].values
    last, decade = float(t[-1]), (float(t[-1]) / 10, float(t[-1]))
    limit, norm_limit = quadratic.tail_risk(p, p_star, eta), quadratic.tail_norm(p, p_star)
    exponent = ld.analysis.fit_power_law(t[1:], risk[1:], window=decade).slope
    # 1/q_⊥ grows linearly once all directions are learned, so that the clock of the tail starts
    # between 0 and that time.
    late = float(one["learned"])
    rows = [
        ("exponent of R over the last decade", -2.0, exponent, 2 * late / decade[0]),
        ("R t² at the end", limit, risk[-1] * last**2, limit * 2 * late / last),
        ("q_⊥ t at the end", norm_limit, norm[-1] * last, norm_limit * late / last),
    ]
    flow = f"η = {float(one['relative']):g} η_c" if eta else "flow"
    return [
        Claim(
            statement=f"p = {p}, p* = {p_star}, {flow}: {what}",
            source="null directions of Sec. 7.2.2",
            relation="=",
            expected=expected,
            measured=float(measured),
            tolerance=tolerance,
            tolerance_from="finite time: the tail's clock starts before the loss is at 1 %",
            kind="finding",
        )
        for what, expected, measured, tolerance in rows
    ]


def _exponential(one: xr.Dataset) -> Claim:
    p, p_star, eta = _sizes(one)
    t, risk = one["t"].values, one["error"].values
    low, high = (level * risk[0] for level in WINDOW)
    inside = t[(risk > low) & (risk < high)]
    found = ld.analysis.fit_rate(t, np.abs(risk), window=(inside[0], inside[-1]))
    expected = quadratic.trace_rate(p, p_star, eta)
    return Claim(
        statement=f"p = {p}, p* = {p_star}: the loss decays exponentially, at the trace rate",
        source="Sec. 7.2.2, no null directions but those of the manifold",
        relation="=",
        expected=expected,
        measured=found.slope,
        tolerance=abs(expected) * np.sqrt(WINDOW[1]),
        tolerance_from="linearisation: distances to the solution are of order √R",
        kind="finding",
    )


def _sizes(one: xr.Dataset) -> tuple[int, int, float]:
    """Widths and learning rate, 0 for the flow."""
    p, p_star = int(one["p"]), int(one["p_star"])
    return p, p_star, float(one["relative"]) * quadratic.critical_learning_rate(p, p_star)
