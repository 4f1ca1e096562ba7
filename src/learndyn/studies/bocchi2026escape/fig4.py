"""Fig. 4: S(t) = ρ (ρᵀρ)^(-1/2) stands still along the ODE, at any learning rate.

In a network of finite size it does not: the noise of SGD moves it. From overlaps of a fixed
size the way is of order N^(-1/2); from the overlaps of a random start, themselves of that
order, it does not get shorter as N grows. The paper shows the ODE alone; its sizes are those
of both presets, and the quick one has smaller simulations.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import learndyn as ld
from learndyn.numerics import stiefel
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import student_bound
from learndyn.theory.committee.landscape import solutions

TITLE = "Conservation of S(t) along the ODE, and its motion in networks of finite size"
LEVEL = 0.01  # chance of a false alarm in each statistical claim
STARTS = ("fixed overlaps", "random start")


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
    flow = [_ode(params, eta) for eta in params.etas]
    S = xr.concat(flow, xr.DataArray(list(params.etas), dims="eta", name="eta"))
    jobs = [(kind, N) for kind in STARTS for N in params.sizes]
    ends = np.cumsum([0, *(N for _, N in jobs)]) / sum(N for _, N in jobs)
    found = [
        _simulation(params, *job, lambda f, a=a, b=b: report(a + f * (b - a)))
        for job, a, b in zip(jobs, ends[:-1], ends[1:], strict=True)
    ]
    count = len(params.sizes)
    rows = [xr.concat(found[i : i + count], "size") for i in range(0, len(found), count)]
    simulated = xr.concat(rows, "start").assign_coords(start=list(STARTS), size=list(params.sizes))
    attributes = {"rtol": flow[0].attrs["rtol"], "eta_simulated": params.eta_simulated}
    return xr.Dataset({"S": S, "S_simulated": simulated}, attrs=attributes)


def _ode(params: Params, eta: float) -> xr.DataArray:
    system = quadratic_system(params.p, params.p_star, eta, N=10_000)  # N only names the steps
    state = small_overlaps(params.p, params.p_star, params.epsilon, params.key)
    t = np.linspace(0, params.t, params.points)
    record = ld.solve(system, t / eta, start=ld.start(system, state=state))
    S = _polar(record["R"]).assign_coords(time=t).drop_vars("step")
    return S.rename(time="t").assign_attrs(rtol=record.attrs["rtol"])


def _simulation(params: Params, kind: str, N: int, report: Report) -> xr.DataArray:
    """S(t) of each run, from the same S(0) for all sizes."""
    p, q, eta = params.p, params.p_star, params.eta_simulated
    # Random weights have |ρ|² = p p*/N: the same with equal singular values is √(p/N).
    singular = params.singular if kind == STARTS[0] else np.sqrt(p / N)
    S0 = stiefel.random_point(p, q, np.random.default_rng(params.key))
    state = ld.Overlaps(np.eye(p), singular * S0, np.eye(q))
    system = quadratic_system(p, q, eta, N)
    start = ld.start(system, key=params.key, state=state)
    t = np.linspace(0, params.t_simulated, 11)
    record = ld.simulate(
        system, t / eta, start=start, runs=params.runs, key=params.key, progress=report
    )
    S = _polar(record["R"]).assign_coords(time=t).drop_vars("step")
    return S.rename(time="t_simulated")


def _polar(R: xr.DataArray) -> xr.DataArray:
    return R.copy(data=solutions.polar_factor(R.values))


def draw(data: xr.Dataset) -> Figure:
    """Elements of S in the ODE and in a network, and how far S moves, in time and against N."""
    figure, axes = panels(4)
    network = data["S_simulated"].isel(start=1, size=-1, run=0)
    _elements(axes[0], data["S"].isel(eta=0), rf"ODE, $\eta$ = {float(data['eta'][0]):g}")
    eta, N = data.attrs["eta_simulated"], int(network["size"])
    _elements(axes[1], network, rf"one network from a random start, N = {N}, $\eta$ = {eta:g}")
    _in_time(axes[2], data)
    _in_size(axes[3], _way(data["S_simulated"]).isel(t_simulated=-1))
    return figure


def _elements(axis: Axes, S: xr.DataArray, title: str) -> None:
    time = next(str(d) for d in S.dims if str(d).startswith("t_") or d == "t")
    axis.plot(S[time], S.stack(entry=("student", "teacher")), linewidth=1.2)
    axis.set(xlabel=r"$t = \eta\alpha$", ylabel=r"elements of $S(t)$", ylim=(-1, 1))
    axis.set_title(title, fontsize=9)


def _in_time(axis: Axes, data: xr.Dataset) -> None:
    for way, style in zip(_way(data["S"]), ("-", "--", ":", "-."), strict=False):
        label = rf"ODE, $\eta$ = {float(way['eta']):g}"
        axis.plot(data["t"][1:], way[1:], style, color="0.3", label=label)
    for marker, kind in zip("os", STARTS, strict=True):
        way = _way(data["S_simulated"]).sel(start=kind).isel(size=-1).mean("run")[1:]
        label = f"N = {int(way['size'])}, {kind}"
        axis.plot(way["t_simulated"], way, marker + "-", markersize=3, label=label)
    axis.set(
        xlabel=r"$t = \eta\alpha$", ylabel=r"$\|S(t) - S(0)\|$", yscale="log", ylim=(1e-17, 10)
    )
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


def check(data: xr.Dataset) -> list[Claim]:
    """Exact conservation in the ODE; the motion at finite size as powers of N."""
    drifts = _way(data["S"]).max("t")
    notes = ["η → 0, the paper's case", *["not only for small η"] * (drifts.size - 1)]
    fixed, random = (_exponent(data["S_simulated"].sel(start=kind)) for kind in STARTS)
    moved = "networks of finite size: from fixed overlaps S moves by N^(-1/2), exponent"
    stays = "networks of finite size: from a random start, overlaps N^(-1/2), |S(∞) − S(0)| does "
    stays += "not shrink with that: its exponent less that of fixed overlaps "
    stays += f"(exponent {random[0]:+.2f})"
    said = [claim(text, "Sec. 7.4", kind="finding") for text in (moved, stays)]
    chance = {"because": f"Student t of the runs' own exponents, {LEVEL:.0%}", "rate": 1 - LEVEL}
    return [
        *(_conserved(note, each, data) for note, each in zip(notes, drifts, strict=True)),
        said[0].equals(fixed[0], -0.5, within=fixed[1], **chance),
        said[1].at_least(random[0] - fixed[0], 0.5, within=np.hypot(random[1], fixed[1]), **chance),
    ]


def _conserved(note: str, drift: xr.DataArray, data: xr.Dataset) -> Claim:
    eta = float(drift["eta"])
    said = f"S(t) = S(0) along the ODE, η = {eta:g} ({note}): largest |S(t) − S(0)|"
    kind = "claim" if eta == data["eta"][0] else "finding"
    because = "relative tolerance of the integrator"
    return claim(said, "Fig. 4, Eqs. 22, 37-48", kind=kind).equals(
        drift, 0.0, within=data.attrs["rtol"], because=because
    )


def _way(S: xr.DataArray) -> xr.DataArray:
    """|S(t) − S(0)|, Frobenius."""
    first = {d: 0 for d in ("t", "t_simulated") if d in S.dims}
    return ((S - S.isel(first, drop=True)) ** 2).sum(("student", "teacher")) ** 0.5


def _exponent(S: xr.DataArray) -> tuple[float, float]:
    """Mean over runs of the exponent of N in the final way, and its Student-t half width."""
    last = _way(S).isel(t_simulated=-1)
    fits = [ld.analysis.fit_power_law(last["size"], last.sel(run=r)).slope for r in last["run"]]
    half = student_bound(len(fits), level=LEVEL) * stats.sem(fits)
    return float(np.mean(fits)), float(half)
