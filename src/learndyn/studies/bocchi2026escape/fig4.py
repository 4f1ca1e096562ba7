"""Fig. 4: S(t) = ρ (ρᵀρ)^(-1/2) stands still along the ODE, at any learning rate.

In a network of finite size the noise of SGD moves it. From overlaps of a fixed size it moves by a
distance of order N^(-1/2); from the overlaps of a random start, themselves of that order, the
distance does not shrink as N grows. The paper shows the ODE alone, and states no sizes. The quick
preset has smaller simulations.

Notes: docs/results/bocchi2026escape/fig4/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics import stiefel
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import (
    nested,
    ode,
    quadratic_system,
    shares,
    small_overlaps,
)
from learndyn.studies.claims import Claim, Interval, Tolerance, claim, with_rates
from learndyn.studies.registry import Report
from learndyn.studies.statistics import exponents, mean_tolerance
from learndyn.theory.committee.landscape import solutions

TITLE = "Conservation of S(t) along the ODE, and its motion in networks of finite size"
DIFFERS = (
    "the paper states no sizes; here p = 6, p* = 3 and η = 0.01, 0.3; networks of N = 100, 400, "
    "1600 are added to the ODE"
)
STARTS = ("fixed overlaps", "random start")
ALONG = "S(t) = S(0) along the ODE, η = {eta:g} "
SOURCE, RTOL = "Fig. 4, Eqs. 22, 37-48", "relative tolerance of the integrator"
CLAIMS = {
    "small": claim(ALONG + "(η → 0, the paper's case): largest |S(t) − S(0)|", SOURCE,
                   because=RTOL),
    "large": claim(ALONG + "(not only for small η): largest |S(t) − S(0)|", SOURCE, kind="finding",
                   because=RTOL),
    "fixed": claim("networks of finite size: from fixed overlaps S moves by N^(-1/2), exponent",
                   "Sec. 7.4", kind="finding"),
    "random": claim("networks of finite size: from a random start, with overlaps N^(-1/2), "
                    "|S(∞) − S(0)| does not shrink as N^(-1/2): its exponent minus that of fixed "
                    "overlaps (exponent {exponent:+.2f})", "Sec. 7.4", kind="finding",
                    within=Tolerance(0.25, "half of the way to N^(-1/2)")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure; simulations begin at ρ = `singular` × orthonormal columns."""

    p: int = 6
    p_star: int = 3
    epsilon: float = 0.01
    etas: tuple[float, ...] = (0.01, 0.3)
    t: float = 40.0
    points: int = 81
    eta_simulated: float = 0.1
    singular: float = 0.5
    t_simulated: float = 12.0
    sizes: tuple[int, ...] = (50, 100, 200)
    runs: int = 16
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(sizes=(100, 400, 1600), points=401)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """S along the ODE for each learning rate, and in simulations from two kinds of start."""
    t = np.linspace(0, params.t, params.points)
    state = small_overlaps(params.p, params.p_star, params.epsilon, params.key)
    records = [ode(state, eta, t / eta, 10_000) for eta in params.etas]
    axis = xr.Variable("eta", list(params.etas))
    S = xr.concat([_polar(record, t, "t") for record in records], axis)
    jobs = [(kind, N) for kind in STARTS for N in params.sizes]
    reports = shares([N for _, N in jobs], report)
    rows = [_simulation(params, *job, part) for job, part in zip(jobs, reports, strict=True)]
    simulated = nested(rows, xr.Variable("start", list(STARTS)), "size")
    simulated = simulated.assign_coords(size=list(params.sizes))
    attributes = {"rtol": records[0].attrs["rtol"], "eta_simulated": params.eta_simulated}
    return xr.Dataset({"S": S, "S_simulated": simulated}, attrs=attributes)


def _simulation(params: Params, kind: str, N: int, report: Report) -> xr.DataArray:
    """S(t) of each run, from the same S(0) for all sizes."""
    p, q, eta = params.p, params.p_star, params.eta_simulated
    # Random weights have |ρ|² = p p*/N: the same with equal singular values is √(p/N).
    singular = params.singular if kind == STARTS[0] else np.sqrt(p / N)
    S0 = stiefel.random_point(p, q, np.random.default_rng(params.key))
    state = ld.Overlaps(np.eye(p), singular * S0, np.eye(q))
    system, t = quadratic_system(p, q, eta, N), np.linspace(0, params.t_simulated, 11)
    options = {"runs": params.runs, "key": params.key, "progress": report}
    start = ld.start(system, key=params.key, state=state)
    return _polar(ld.simulate(system, t / eta, start=start, **options), t, "t_simulated")


def _polar(record: xr.Dataset, t: np.ndarray, name: str) -> xr.DataArray:
    S = record["R"].copy(data=solutions.polar_factor(record["R"].values))
    return S.assign_coords(time=t).drop_vars("step").rename(time=name)


def draw(data: xr.Dataset) -> Figure:
    """Elements of S in the ODE and in a network, and how far S moves, in time and against N."""
    figure, axes = panels(4)
    network = data["S_simulated"].isel(start=1, size=-1, run=0)
    eta, N = data.attrs["eta_simulated"], int(network["size"])
    rows = [
        (data["S"].isel(eta=0), "t", rf"ODE, $\eta$ = {float(data['eta'][0]):g}"),
        (network, "t_simulated", rf"one network from a random start, N = {N}, $\eta$ = {eta:g}"),
    ]
    for axis, (S, time, title) in zip(axes, rows, strict=False):
        axis.plot(S[time], S.stack(entry=("student", "teacher")), linewidth=1.2)
        finish(axis, r"$t = \eta\alpha$", r"elements of $S(t)$", title, ylim=(-1, 1))
    _in_time(axes[2], data)
    _in_size(axes[3], _way(data["S_simulated"]).isel(t_simulated=-1))
    return figure


def _in_time(axis: Axes, data: xr.Dataset) -> None:
    for way, style in zip(_way(data["S"]), ("-", "--", ":", "-."), strict=False):
        label = rf"ODE, $\eta$ = {float(way['eta']):g}"
        axis.plot(data["t"][1:], way[1:], style, color="0.3", label=label)
    for marker, kind in zip("os", STARTS, strict=True):
        way = _way(data["S_simulated"]).sel(start=kind).isel(size=-1).mean("run")[1:]
        label = f"N = {int(way['size'])}, {kind}"
        axis.plot(way["t_simulated"], way, marker + "-", markersize=3, label=label)
    axis.set(xlabel=r"$t = \eta\alpha$", ylabel=r"$\|S(t) - S(0)\|$")
    axis.set(yscale="log", ylim=(1e-17, 10))
    legend(axis, loc="center right")


def _in_size(axis: Axes, last: xr.DataArray) -> None:
    for marker, kind in zip("os", STARTS, strict=True):
        mean, error = ld.analysis.mean_and_error(last.sel(start=kind))
        axis.errorbar(last["size"], mean, error, fmt=marker, capsize=3, label=kind)
    guide = float(last[0].mean("run")[0]) * (last["size"] / last["size"][0]) ** -0.5
    axis.plot(last["size"], guide, "--", color="0.5", label=r"$\propto N^{-1/2}$")
    axis.set(xlabel="N", ylabel=r"final $\|S - S(0)\|$, mean of runs", xscale="log", yscale="log")
    axis.set_xticks(last["size"], [str(N) for N in last["size"].values], minor=False)
    axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    legend(axis)


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Exact conservation in the ODE; the motion at finite size as powers of N."""
    drifts, rtol = _way(data["S"]).max("t"), data.attrs["rtol"]
    conserved = [
        CLAIMS["large" if i else "small"].format(eta=float(drift["eta"])).equals(drift, 0.0, rtol)
        for i, drift in enumerate(drifts)
    ]
    of_runs = exponents(_way(data["S_simulated"]).isel(t_simulated=-1), "size")
    fixed, random = (of_runs.sel(start=kind) for kind in STARTS)
    chance = [mean_tolerance(values, "runs' own exponents") for values in (fixed, random)]
    # The two are independent: their errors add in squares.
    both = float(np.hypot(chance[0].value, chance[1].value))
    stays = CLAIMS["random"].format(exponent=float(random.mean()))
    apart = float(random.mean() - fixed.mean())
    difference = Interval(apart, apart - both, apart + both, chance[0].because)
    return [
        *conserved,
        CLAIMS["fixed"].equals(fixed.mean(), -0.5, chance[0]),
        stays.at_least(difference, 0.5),
    ]


def _way(S: xr.DataArray) -> xr.DataArray:
    """|S(t) − S(0)|, Frobenius."""
    first = {d: 0 for d in ("t", "t_simulated") if d in S.dims}
    return ((S - S.isel(first, drop=True)) ** 2).sum(("student", "teacher")) ** 0.5
