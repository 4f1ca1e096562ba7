"""The end of learning: algebraic for p > p*, where p − p* directions die out, else exponential.

The quick preset ends ten times earlier and has one width less than the paper preset.
"""

import dataclasses
import functools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import ode, sizes, small_overlaps
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape.solutions import spare_norm
from learndyn.theory.committee.late_stage import quadratic

TITLE = "How the loss vanishes: t^-2 for p > p*, exponentially for p = p*"
DIFFERS = "ours: the paper has no such figure"
LEARNED = 0.01  # of the initial loss: less than one direction not yet learned would leave
WINDOW = (1e-9, 1e-6)  # of the initial loss, where the exponential is fitted
SOURCE = "null directions of Sec. 7.2.2"
CLOCK = "finite time: the tail's clock starts before the loss is at 1 %"
finding = functools.partial(claim, source=SOURCE, kind="finding", because=CLOCK)
CLAIMS = {
    "exponent": finding("{case}: exponent of R over the last decade"),
    "risk": finding("{case}: R t² at the end"),
    "norm": finding("{case}: q_⊥ t at the end"),
    "rate": claim("p = {p}, p* = {p_star}: the loss decays exponentially, at the rate of the trace",
                  "Sec. 7.2.2, no null directions but those of the manifold", kind="finding",
                  because="linearisation: distances to the solution are of order √R"),
}  # fmt: skip


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


_WIDE = {"p": (3, 3, 6, 6, 3), "p_star": (2, 2, 3, 3, 3), "relative": (0.0, 0.4, 0.0, 0.4, 0.0)}
PRESETS = {"quick": Params(), "paper": Params(**_WIDE, horizon=30_000.0)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE to long times, with the student's norm outside the teacher's span."""
    columns = {"p": params.p, "p_star": params.p_star, "relative": params.relative}
    jobs = list(zip(*columns.values(), strict=True))
    rows = [_solve(params, *job) for job in cases(jobs, report)]
    labels = {name: ("case", list(values)) for name, values in columns.items()}
    return xr.concat(rows, "case").assign_coords(labels)


def _solve(params: Params, p: int, p_star: int, relative: float) -> xr.Dataset:
    """Loss and norm against t = η α; the flow does not depend on η but for the clock."""
    eta = (relative or 1.0) * quadratic.critical_learning_rate(p, p_star)
    state = small_overlaps(p, p_star, params.epsilon, params.key)
    t = np.concatenate([[0.0], np.geomspace(1, params.horizon, params.points - 1)])
    order = "full" if relative else "flow"
    # The loss gets as small as 1e-10 of what it began with, by cancellation.
    record = ode(state, eta, t / eta, order=order, rtol=1e-12, atol=1e-14)
    table = {
        "error": ("t", record["error"].values),
        "spare_norm": ("t", spare_norm(record["Q"].values, p_star)),
        "learned": eta * ld.analysis.fall_time(record, fraction=LEARNED),
    }
    return xr.Dataset(table, {"t": ("t", t, {"long_name": "time t = ηα"})})


def draw(data: xr.Dataset) -> Figure:
    """Left: the loss. Right: R t² and q_⊥ t over their predicted limits."""
    figure, (left, right) = panels(2)
    t = data["t"].values[1:]
    for case in range(data.sizes["case"]):
        one, color = data.isel(case=case, t=slice(1, None)), f"C{case}"
        (p, p_star), eta = sizes(one), _eta(one)
        positive = one["error"].where(one["error"] > 1e-13)
        left.plot(t, positive, color=color, lw=1.4, label=_name(one, "$\\eta_c$"))
        if p > p_star:
            limit, norm = quadratic.tail_risk(p, p_star, eta), quadratic.tail_norm(p, p_star)
            left.plot(t, limit / t**2, "--", color=color, lw=0.8)
            right.plot(t, one["error"] * t**2 / limit, color=color, lw=1.4)
            right.plot(t, one["spare_norm"] * t / norm, ":", color=color, lw=1.4)
    right.axhline(1, color="0.5", lw=0.8)
    styles = {"predicted limit": {"ls": "--", "lw": 0.8}}
    left.set(yscale="log", ylim=(1e-13, 10))
    finish(left, "time t = ηα", "generalisation error R", styles=styles, xscale="log")
    styles = {"R t² / limit": {}, "$q_\\perp$ t / limit": {"ls": ":"}}
    right.set(xlim=(10, None), ylim=(0.9, 1.6))
    finish(right, "time t = ηα", "approach to the limit", styles=styles, xscale="log")
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Exponent and both prefactors for p > p*, the rate for p = p*."""
    claims = []
    for one in (data.isel(case=case) for case in range(data.sizes["case"])):
        claims += _algebraic(one) if one["p"] > one["p_star"] else _exponential(one)
    return claims


def _algebraic(one: xr.Dataset) -> list[Claim]:
    (p, p_star), eta, error = sizes(one), _eta(one), quadratic.tail_error
    t, risk, norm = one["t"].values, one["error"].values, one["spare_norm"].values
    last, late = float(t[-1]), float(one["learned"])
    limit, norm_limit = quadratic.tail_risk(p, p_star, eta), quadratic.tail_norm(p, p_star)
    exponent = ld.analysis.fit_power_law(t[1:], risk[1:], window=(last / 10, last)).slope
    rows = {
        "exponent": (exponent, -2.0, error(2, late, last / 10)),
        "risk": (risk[-1] * last**2, limit, error(2, late, last, limit)),
        "norm": (norm[-1] * last, norm_limit, error(1, late, last, norm_limit)),
    }
    return [CLAIMS[name].format(case=_name(one)).equals(*row) for name, row in rows.items()]


def _exponential(one: xr.Dataset) -> list[Claim]:
    (p, p_star), t, risk = sizes(one), one["t"].values, one["error"].values
    low, high = (level * risk[0] for level in WINDOW)
    inside = t[(risk > low) & (risk < high)]
    fit = ld.analysis.fit_rate(t, np.abs(risk), window=(inside[0], inside[-1]))
    expected = quadratic.trace_rate(p, p_star, _eta(one))
    within = quadratic.linear_error(expected, WINDOW[1])
    return [CLAIMS["rate"].format(p=p, p_star=p_star).equals(fit.slope, expected, within)]


def _name(one: xr.Dataset, unit: str = "η_c") -> str:
    rate = f"η = {float(one['relative']):g} {unit}" if one["relative"] else "flow"
    return "p = {}, p* = {}, {}".format(*sizes(one), rate)


def _eta(one: xr.Dataset) -> float:
    """The learning rate, 0 for the flow."""
    return float(one["relative"]) * quadratic.critical_learning_rate(*sizes(one))
