"""Fig. 1: order parameters of simulated networks on the solution of the ODEs."""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import curves, legend, panels
from learndyn.records import join, part
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import student_bound

TITLE = "Order parameters of simulated networks against the ODEs (p = 6, p* = 3)"
LEVEL = 0.01  # chance of a false alarm in each claim


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure."""

    p: int = 6
    p_star: int = 3
    eta: float = 0.01
    N: int = 500
    alpha: float = 1500.0
    points: int = 61
    runs: int = 10
    key: int = 1


# The quick preset is smaller than the figure (N = 500, and so α to 1500): the paper's size
# takes minutes on two cores.
PRESETS = {"quick": Params(), "paper": Params(N=10_000, alpha=2500.0, points=101)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """ODE and networks from one shared start, whose overlaps are those of size N."""
    system = quadratic_system(params.p, params.p_star, params.eta, params.N)
    times = np.linspace(0, params.alpha, params.points)
    start = ld.start(system, key=params.key)
    theory = ld.solve(system, times, start=start)
    runs = ld.simulate(
        system, times, start=start, runs=params.runs, key=params.key, progress=report
    )
    return join(theory=theory, simulation=runs)


def draw(data: xr.Dataset) -> Figure:
    """The paper's four panels."""
    theory, runs = part(data, "theory"), part(data, "simulation")
    p = theory.sizes["student"]
    pairs = [(i, j) for i in range(p) for j in range(i + 1, p)]
    norms = [(i, i) for i in range(p)]
    figure, axes = panels(4)
    shown = [("R", None), ("Q", pairs), ("Q", norms), ("error", None)]
    for axis, (name, entries) in zip(axes, shown, strict=True):
        curves(axis, theory[name], entries=entries)
        curves(axis, runs[name], entries=entries)
    axes[1].set_ylabel("student-student overlap, i < j")
    axes[2].set_ylabel("student norm $Q_{ii}$")
    axes[3].set_yscale("log")
    label = f"mean of {runs.sizes['run']} runs, N = {runs.attrs['size']}"
    legend(axes[0], {"ODE": {}, label: {"marker": "o", "ms": 3}})
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The ODE is indistinguishable from one more run, entry by entry and in its escape."""
    theory, runs = part(data, "theory"), part(data, "simulation")
    p = theory.sizes["student"]
    upper = xr.DataArray(np.triu(np.ones((p, p), bool), 1), dims=("student", "student'"))
    equal = xr.DataArray(np.eye(p, dtype=bool), dims=("student", "student'"))
    rows = [
        ("teacher-student overlaps", theory["R"], runs["R"]),
        ("student-student overlaps", theory["Q"].where(upper), runs["Q"].where(upper)),
        ("student norms", theory["Q"].where(equal), runs["Q"].where(equal)),
        ("generalisation error", theory["error"], runs["error"]),
    ]
    claims = [_inside(what, a, b) for what, a, b in rows]
    escape = ld.analysis.escape_time
    claims.append(_inside("time at half of the initial loss", escape(theory), escape(runs)))
    return claims


def _inside(what: str, predicted: xr.DataArray, runs: xr.DataArray) -> Claim:
    """The prediction as one more run: distance from the mean in run-to-run spreads."""
    count = runs.sizes["run"]
    if "time" in runs.dims:  # curves are smooth: ten times along them say what all say
        pick = np.linspace(0, runs.sizes["time"] - 1, 11).astype(int)[1:]
        predicted, runs = predicted.isel(time=pick), runs.isel(time=pick)
    spread = runs.std("run", ddof=1) * np.sqrt(1 + 1 / count)
    distance = np.abs(predicted - runs.mean("run")) / spread
    entries = int(distance.notnull().sum())
    said = f"ODE and simulations agree: {what}, distance in run-to-run spreads"
    because = f"Student t, {count} runs, {entries} entries, {LEVEL:.0%} together"
    bound = student_bound(count, max(entries, 1), LEVEL)
    return claim(said, "Fig. 1").at_most(distance.max(), bound, because=because, rate=1 - LEVEL)
