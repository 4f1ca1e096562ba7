"""Sec. 4.1: norm learning and the plateau, on the ODE at small η and on real networks.

The quick preset trains smaller networks (N = 500 instead of 2000) in fewer runs (6 instead of 10).
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import student_bound
from learndyn.theory.committee.plateau import quadratic

TITLE = "Norm learning and plateau: fixed point and rates (p = 6, p* = 3)"
LEVEL = 0.01  # chance of a false alarm in each claim on runs


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; times are t = η α."""

    p: int = 6
    p_star: int = 3
    epsilon: float = 1e-7
    time: float = 18.0
    points: int = 91
    N: int = 500
    eta: float = 0.05
    runs: int = 6
    run_time: float = 3.0
    key: int = 1


PRESETS = {"quick": Params(), "paper": Params(N=2000, runs=10)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Three solutions of the flow, and networks with their ODE from one start."""
    p, q_bar = params.p, quadratic.norm_fixed_point(params.p)
    norms = small_overlaps(p, params.p_star, params.epsilon, params.key)
    plateau = small_overlaps(p, params.p_star, params.epsilon, params.key, norm=q_bar)
    tilted = ld.Overlaps(plateau.Q + _off_diagonal(params), 0 * plateau.R, plateau.T)
    states = {"norms": norms, "plateau": plateau, "tilted": tilted}
    flows = [_flow(params, state) for state in states.values()]
    report(0.4)
    runs = _networks(params, lambda done: report(0.4 + 0.6 * done))
    axis = xr.Variable("begin", list(states))
    return xr.concat(flows, axis).merge(runs).assign_attrs(dataclasses.asdict(params))


def _off_diagonal(params: Params) -> np.ndarray:
    noise = np.random.default_rng(params.key).standard_normal((params.p, params.p))
    return params.epsilon * (np.triu(noise, 1) + np.triu(noise, 1).T)


def _flow(params: Params, state: ld.Overlaps) -> xr.Dataset:
    system = quadratic_system(params.p, params.p_star, params.eta, params.N)
    t, start = np.linspace(0, params.time, params.points), ld.start(system, state=state)
    times = t / params.eta
    record = ld.solve(system, times, start=start, order="flow", rtol=1e-11, atol=1e-16)
    return _summary(record).assign_coords(time=t).rename(time="t")


def _networks(params: Params, report: Report) -> xr.Dataset:
    """Networks of size N, and the ODE from the same start."""
    system = quadratic_system(params.p, params.p_star, params.eta, params.N)
    t = np.linspace(0, params.run_time, 31)
    start = ld.start(system, key=params.key)
    record = ld.solve(system, t / params.eta, start=start)
    runs = ld.simulate(
        system, t / params.eta, start=start, runs=params.runs, key=params.key, progress=report
    )
    parts = {"ode": _summary(record), "run": _summary(runs)}
    renamed = [
        v.rename({n: f"{who}_{n}" for n in v.data_vars}).assign_coords(time=t)
        for who, v in parts.items()
    ]
    return xr.merge(renamed).rename(time="s")


def _summary(record: xr.Dataset) -> xr.Dataset:
    """Mean norm, ρ along its start, and the off-diagonal |Q| of a record."""
    pair, units = ("student", "student'"), record.sizes["student"]
    norms = xr.DataArray(np.eye(units), dims=pair)
    entries, first = ("student", "teacher"), record["R"].isel(time=0, drop=True)
    # Unlike |ρ|, linear in ρ: the noise of single runs averages out. (ρ = 0 has no direction.)
    direction = first / np.maximum(np.sqrt((first**2).sum(entries)), 1e-300)
    return xr.Dataset(
        {
            "norm": (record["Q"] * norms).sum(pair) / units,
            "overlap": (record["R"] * direction).sum(entries),
            "off_diagonal": np.sqrt((record["Q"] ** 2 * (1 - norms)).sum(pair)),
        }
    ).drop_vars("step")


def draw(data: xr.Dataset) -> Figure:
    """Norms, then overlaps on the plateau, of the flow; the same of networks."""
    figure, axes = panels(3, columns=3, size=(4.2, 3.4))
    p, p_star, eta = int(data.attrs["p"]), int(data.attrs["p_star"]), data.attrs["eta"]
    t, s = data["t"].values, data["s"].values
    path = quadratic.norm_path(t, p)
    axes[0].plot(t, path, label="closed form")
    axes[0].plot(t[::2], data["norm"].sel(begin="norms")[::2], "o", ms=3, label="ODE, flow")
    axes[0].axhline(quadratic.norm_fixed_point(p), color="0.4", ls=":", label="p/(p+2), Eq. 10")
    axes[0].set(ylabel="student norm $Q_{kk}$", xlim=(0, 8))
    rows = [
        ("plateau", "overlap", quadratic.growth_rate(p, p_star), "ρ", "$\\omega_\\rho$, Eq. 12"),
        ("tilted", "off_diagonal", -quadratic.decay_rate(p), "|Q| off diagonal", "$-\\omega_Q$"),
    ]
    for k, (begin, name, rate, label, law) in enumerate(rows):
        curve = data[name].sel(begin=begin) / data[name].sel(begin=begin)[0]
        axes[1].plot(t, np.exp(rate * t), color=f"C{k}", label=f"slope {law}")
        axes[1].plot(t[::4], curve[::4], "o", color=f"C{k}", ms=3, label=f"{label}, ODE")
    printed = np.exp(quadratic.decay_rate(p) * t)
    axes[1].plot(t, printed, "--", color="C1", lw=0.8, label="$+\\omega_Q$, as printed in Eq. 11")
    axes[1].set(yscale="log", ylabel="relative to the start on the plateau", ylim=(1e-3, 3e5))
    _draw_networks(axes[2], data, s)
    styles = {"mean and spread of runs": {"marker": "o", "ms": 3}}
    for axis in axes:
        axis.set_xlabel("time t = ηα")
        legend(axis, styles if axis is axes[2] else None)
    title = f"{data.attrs['runs']} networks, N = {data.attrs['N']}, η = {eta:g}"
    axes[2].set_title(title, fontsize=9)
    return figure


def _draw_networks(axis, data: xr.Dataset, s: np.ndarray) -> None:
    for k, (name, label) in enumerate((("norm", "$Q_{kk}$"), ("overlap", "ρ along its start"))):
        mean, spread = data[f"run_{name}"].mean("run"), data[f"run_{name}"].std("run", ddof=1)
        axis.plot(s, data[f"ode_{name}"], color=f"C{k}", label=f"{label}, ODE")
        axis.errorbar(s[::3], mean[::3], spread[::3], fmt="o", color=f"C{k}", ms=3)
    axis.set(ylabel="order parameters")


def check(data: xr.Dataset) -> list[Claim]:
    """Eqs. 10 to 12 on the flow, and on networks against their ODE."""
    return [*_norms(data), *_rates(data), *_on_networks(data)]


def _norms(data: xr.Dataset) -> list[Claim]:
    p, one = int(data.attrs["p"]), data.sel(begin="norms")
    path, end = quadratic.norm_path(one["t"].values, p), quadratic.norm_fixed_point(p)
    second_order, left = float((one["overlap"] ** 2).max()), float(path[-1] - end)
    way = "on the way there they follow a logistic curve: largest deviation"
    gap, because = np.abs(one["norm"] - path).max(), "second order, |ρ|²"
    return [
        claim("student norms settle at p/(p+2)", "Eq. 10").equals(
            one["norm"][-1], end, within=second_order + left,
            because=f"{because}, and the transient left at the end",
        ),
        claim(way, "Eq. 9").equals(gap, 0.0, within=second_order, because=because),
    ]  # fmt: skip


def _rates(data: xr.Dataset) -> list[Claim]:
    p, t = int(data.attrs["p"]), data["t"].values
    grown, tilted = data["overlap"].sel(begin="plateau"), data["off_diagonal"].sel(begin="tilted")
    growth, decay = quadratic.growth_rate(p, int(data.attrs["p_star"])), quadratic.decay_rate(p)
    rate = lambda curve: ld.analysis.fit_rate(t, curve).slope
    return [
        claim("growth rate of ρ on the plateau, per ηα", "Eq. 12").equals(
            rate(grown), growth, within=float(grown.max()) ** 2,
            because="linearisation: largest |ρ|²",
        ),
        claim("off-diagonal Q decays on the plateau: its rate, per ηα", "Eqs. 11, 12 and 35")
        .erratum(f"growth at {decay:+.4g}", decay)
        .equals(
            rate(tilted), -decay, within=tilted.max(),
            because="linearisation: largest |Q| off the diagonal",
        ),
    ]  # fmt: skip


def _on_networks(data: xr.Dataset) -> list[Claim]:
    """The ODE as one more run: it is exact as N → ∞, at size N up to the spread of a run."""
    late, s = (data.attrs["run_time"] / 2, data.attrs["run_time"]), data["s"].values
    window = (s >= late[0]) & (s <= late[1])
    rate = lambda curve: ld.analysis.fit_rate(s, curve, window=late).slope
    norm = lambda curve: float(curve[window].mean())
    return [
        _one_more(data, "norm on the plateau", "norm", norm),
        _one_more(data, "growth rate of ρ", "overlap", rate),
    ]


def _one_more(data: xr.Dataset, what: str, name: str, measure: Callable) -> Claim:
    found = np.array([measure(curve) for curve in data[f"run_{name}"].transpose("run", "s")])
    bound = student_bound(len(found), level=LEVEL) * np.sqrt(1 + 1 / len(found))
    said = f"networks of size N = {data.attrs['N']}: {what}, against the ODE"
    because = f"spread of a run, Student t over {len(found)} runs, {LEVEL:.0%}"
    return claim(said, "Sec. 4.1").equals(
        found.mean(), measure(data[f"ode_{name}"]), within=bound * found.std(ddof=1),
        because=because, rate=1 - LEVEL,
    )  # fmt: skip
