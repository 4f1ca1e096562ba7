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
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import ode, sizes, small_overlaps, two_sizes
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report
from learndyn.studies.statistics import student_tolerance
from learndyn.theory.committee.plateau import quadratic

TITLE = "Norm learning and plateau: fixed point and rates (p = 6, p* = 3)"
DIFFERS = (
    "Sec. 4.1 has no figure of its own for this and no sizes; here p = 6, p* = 3, 64 networks "
    "each of N = 2000 and 4000"
)
CLAIMS = {
    "norm": claim("student norms settle at p/(p+2)", "Eq. 10",
                  because="second order, |ρ|², and the transient left at the end"),
    "path": claim("until then they follow a logistic curve: largest deviation", "Eq. 9",
                  because="second order, |ρ|²"),
    "growth": claim("growth rate of ρ on the plateau, per ηα", "Eq. 12",
                    because="linearisation: largest |ρ|²"),
    "decay": claim("off-diagonal Q decays on the plateau: its rate, per ηα", "Eqs. 11, 12 and 35",
                   because="linearisation: largest |Q| off the diagonal")
    .erratum("growth at {printed:+.4g}"),
    "networks": claim("networks of sizes N = {N} and 2N, with the 1/N bias removed: {what}, "
                      "against the ODE", "Sec. 4.1"),
}  # fmt: skip


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
    p, eta = params.p, params.eta
    start = lambda norm: small_overlaps(p, params.p_star, params.epsilon, params.key, norm)
    plateau = start(quadratic.norm_fixed_point(p))
    noise = np.triu(np.random.default_rng(params.key).standard_normal((p, p)), 1)
    tilt = params.epsilon * (noise + noise.T)
    tilted = ld.Overlaps(plateau.Q + tilt, 0 * plateau.R, plateau.T)
    states = {"norms": start(1.0), "plateau": plateau, "tilted": tilted}
    t = np.linspace(0, params.time, params.points)
    flow = lambda state: ode(state, eta, t / eta, order="flow", rtol=1e-11, atol=1e-16)
    flows = [_summary(flow(state), t).rename(time="t") for state in states.values()]
    report(0.4)
    networks = _networks(params, lambda done: report(0.4 + 0.6 * done))
    data = xr.concat(flows, xr.Variable("begin", list(states))).merge(networks)
    return data.assign_attrs(dataclasses.asdict(params))


def _networks(params: Params, report: Report) -> xr.Dataset:
    """Networks of sizes N and 2N, and the ODE, from the same overlaps."""
    t = np.linspace(0, params.run_time, 31)
    times = t / params.eta
    system, start, runs = two_sizes(params, times, report)
    axis = xr.Variable("size", [params.N, 2 * params.N])
    parts = {
        "ode": _summary(ld.solve(system, times, start=start), t),
        "run": xr.concat([_summary(each, t) for each in runs], axis, coords="minimal"),
    }
    named = [part.rename({n: f"{who}_{n}" for n in part.data_vars}) for who, part in parts.items()]
    return xr.merge(named).rename(time="s")


def _summary(record: xr.Dataset, t: np.ndarray) -> xr.Dataset:
    """Mean norm, ρ along its start, and the off-diagonal |Q| of a record, at times t."""
    pair, units = ("student", "student'"), record.sizes["student"]
    norms = xr.DataArray(np.eye(units), dims=pair)
    entries, first = ("student", "teacher"), record["R"].isel(time=0, drop=True)
    # Unlike |ρ|, linear in ρ: the noise of single runs averages out. (ρ = 0 has no direction.)
    direction = first / np.maximum(np.sqrt((first**2).sum(entries)), 1e-300)
    table = {
        "norm": (record["Q"] * norms).sum(pair) / units,
        "overlap": (record["R"] * direction).sum(entries),
        "off_diagonal": np.sqrt((record["Q"] ** 2 * (1 - norms)).sum(pair)),
    }
    return xr.Dataset(table).drop_vars("step").assign_coords(time=t)


def draw(data: xr.Dataset) -> Figure:
    """Norms, then overlaps on the plateau, of the flow; the same of networks."""
    figure, axes = panels(3, columns=3, size=(4.2, 3.4))
    (p, p_star), t, s = sizes(data), data["t"].values, data["s"].values
    axes[0].plot(t, quadratic.norm_path(t, p), label="closed form")
    axes[0].plot(t[::2], data["norm"].sel(begin="norms")[::2], "o", ms=3, label="ODE, flow")
    axes[0].axhline(quadratic.norm_fixed_point(p), color="0.4", ls=":", label="p/(p+2), Eq. 10")
    finish(axes[0], "time t = ηα", "student norm $Q_{kk}$", xlim=(0, 8))
    rows = [
        ("plateau", "overlap", quadratic.growth_rate(p, p_star), "ρ", "$\\omega_\\rho$, Eq. 12"),
        ("tilted", "off_diagonal", -quadratic.decay_rate(p), "|Q| off diagonal", "$-\\omega_Q$"),
    ]
    for k, (begin, name, rate, label, slope) in enumerate(rows):
        curve = data[name].sel(begin=begin) / data[name].sel(begin=begin)[0]
        axes[1].plot(t, np.exp(rate * t), color=f"C{k}", label=f"slope {slope}")
        axes[1].plot(t[::4], curve[::4], "o", color=f"C{k}", ms=3, label=f"{label}, ODE")
    printed = np.exp(quadratic.decay_rate(p) * t)
    axes[1].plot(t, printed, "--", color="C1", lw=0.8, label="$+\\omega_Q$, as printed in Eq. 11")
    axes[1].set(yscale="log", ylim=(1e-3, 3e5))
    finish(axes[1], "time t = ηα", "relative to the start on the plateau")
    for k, (name, label) in enumerate((("norm", "$Q_{kk}$"), ("overlap", "ρ along its start"))):
        runs = data[f"run_{name}"].isel(size=0)
        mean, spread = runs.mean("run"), runs.std("run", ddof=1)
        axes[2].plot(s, data[f"ode_{name}"], color=f"C{k}", label=f"{label}, ODE")
        axes[2].errorbar(s[::3], mean[::3], spread[::3], fmt="o", color=f"C{k}", ms=3)
    title = "{runs} networks, N = {N}, η = {eta:g}".format(**data.attrs)
    points = {"mean and spread of runs": {"marker": "o", "ms": 3}}
    finish(axes[2], "time t = ηα", "order parameters", title, points)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Eqs. 10 to 12 on the flow, and on networks against their ODE."""
    (p, p_star), one, t = sizes(data), data.sel(begin="norms"), data["t"].values
    path, end = quadratic.norm_path(t, p), quadratic.norm_fixed_point(p)
    second_order, left = float((one["overlap"] ** 2).max()), float(path[-1] - end)
    grown, tilted = data["overlap"].sel(begin="plateau"), data["off_diagonal"].sel(begin="tilted")
    growth, decay = quadratic.growth_rate(p, p_star), quadratic.decay_rate(p)
    rate = lambda curve: ld.analysis.fit_rate(t, curve).slope
    decays = CLAIMS["decay"].format(printed=decay).erratum(value=decay)
    return [
        CLAIMS["norm"].equals(one["norm"][-1], end, second_order + left),
        CLAIMS["path"].equals(np.abs(one["norm"] - path).max(), 0.0, second_order),
        CLAIMS["growth"].equals(rate(grown), growth, float(grown.max()) ** 2),
        decays.equals(rate(tilted), -decay, tilted.max()),
        *_on_networks(data),
    ]


def _on_networks(data: xr.Dataset) -> list[Claim]:
    """Means over runs without their 1/N bias, against the ODE, in standard errors of the runs."""
    time, runs, first = data.attrs["run_time"], data.sizes["run"], float(data["ode_overlap"][0])
    late = data[["run_norm", "ode_norm"]].where(data["s"] >= time / 2, drop=True)
    norm, norm_error = _unbiased(late["run_norm"].mean("s"))
    end, end_error = _unbiased(data["run_overlap"].isel(s=-1))
    rate = lambda overlap: float(np.log(overlap / first) / time)
    within = lambda error: student_tolerance(error, runs, "runs of each size")
    named = lambda what: CLAIMS["networks"].format(N=data.attrs["N"], what=what)
    return [
        named("norm on the plateau").equals(norm, late["ode_norm"].mean("s"), within(norm_error)),
        named("mean growth rate of ρ").equals(
            rate(end), rate(float(data["ode_overlap"][-1])), within(end_error / abs(end) / time)
        ),
    ]


def _unbiased(values: xr.DataArray) -> tuple[float, float]:
    """Mean over runs of size 2N, doubled, less that of size N; and its standard error."""
    mean, error = ld.analysis.mean_and_error(values)
    single, double = (float(x) for x in mean)
    return 2 * double - single, float(np.hypot(error[0], 2 * error[1]))
