"""Sec. 4.1: norm learning and the plateau, on the ODE at small η and on real networks.

The mean over networks of size N is off the ODE by a bias of order 1/N, which networks of size 2N
from the same overlaps remove (as in `fig1`); what is left is the standard error of the runs. Growth
is read from the mean of ρ over runs: it is linear in ρ, and single runs gather noise as large as ρ.
The quick preset trains smaller networks (N = 500 instead of 2000).
"""

import dataclasses

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
    """Sizes of the study; times are t = η α; as many runs at N as at 2N."""

    p: int = 6
    p_star: int = 3
    epsilon: float = 1e-7
    time: float = 18.0
    points: int = 91
    N: int = 500
    eta: float = 0.05
    runs: int = 64
    run_time: float = 3.0
    key: int = 1


PRESETS = {"quick": Params(), "paper": Params(N=2000)}


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
    """Networks of sizes N and 2N, and the ODE, from the same overlaps."""
    sizes = params.N, 2 * params.N
    system, twice = (quadratic_system(params.p, params.p_star, params.eta, N) for N in sizes)
    t, start = np.linspace(0, params.run_time, 31), ld.start(system, key=params.key)
    times = t / params.eta
    again = ld.start(twice, state=start.state, key=params.key)
    shares = [(0.0, 1 / 3), (1 / 3, 2 / 3)]
    runs = [
        ld.simulate(
            it, times, start=begin, runs=params.runs, key=2 * params.key + i,
            progress=lambda done, first=first, share=share: report(first + share * done),
        )
        for i, (it, begin, (first, share)) in enumerate(
            zip((system, twice), (start, again), shares, strict=True)
        )
    ]  # fmt: skip
    axis = xr.Variable("size", list(sizes))
    parts = {
        "ode": _summary(ld.solve(system, times, start=start)),
        "run": xr.concat([_summary(each) for each in runs], axis, coords="minimal"),
    }
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
        runs = data[f"run_{name}"].isel(size=0)
        mean, spread = runs.mean("run"), runs.std("run", ddof=1)
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
    """Means over runs without their 1/N bias, against the ODE, in standard errors of the runs."""
    late = data["s"] >= data.attrs["run_time"] / 2
    norm, overlap = data["run_norm"].where(late, drop=True).mean("s"), data["run_overlap"]
    settled = data["ode_norm"].where(late, drop=True).mean("s")
    (level, level_error), (end, end_error) = map(_unbiased, (norm, overlap.isel(s=-1)))
    first, time = float(data["ode_overlap"][0]), data.attrs["run_time"]
    grown = lambda value: float(np.log(value / first) / time)
    runs = data.sizes["run"]
    said = f"networks, 1/N removed by N = {data.attrs['N']} and twice that: "
    because = f"standard error, Student t, {runs} runs of each size, {LEVEL:.0%}"
    ended = {"because": because, "rate": 1 - LEVEL}
    bound = student_bound(runs, level=LEVEL)
    return [
        claim(f"{said}norm on the plateau, against the ODE", "Sec. 4.1").equals(
            level, settled, within=bound * level_error, **ended
        ),
        claim(f"{said}mean growth rate of ρ, against the ODE", "Sec. 4.1").equals(
            grown(end), grown(float(data["ode_overlap"][-1])),
            within=bound * end_error / abs(end) / time, **ended,
        ),
    ]  # fmt: skip


def _unbiased(values: xr.DataArray) -> tuple[float, float]:
    """Mean over runs of size 2N, doubled, less that of size N; and its standard error."""
    mean, error = ld.analysis.mean_and_error(values)
    single, double = (float(x) for x in mean)
    return 2 * double - single, float(np.hypot(error[0], 2 * error[1]))
