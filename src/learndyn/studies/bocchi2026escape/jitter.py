"""How finite size shows: N^(-1/2) from a fixed start, a jitter of the escape that stays.

From a start that does not depend on N a run leaves the ODE by an amount of order N^(-1/2).
Random starts have ρ₀ ~ N^(-1/2): the sampling noise gathered on the plateau is then of the
order of ρ₀ itself, and the spread of the escape time does not shrink with N at all.
The quick preset uses smaller sizes and fewer runs.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import spread_exponent_error

TITLE = "Finite size: deviations shrink as N^-1/2, the jitter of the escape time does not"
ERRORS = 3.0  # standard errors that a slope may miss its prediction by


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes, runs and times."""

    p: int = 3
    p_star: int = 2
    eta: float = 0.1
    sizes: tuple[int, ...] = (64, 128, 256, 512)
    runs: int = 32
    alpha: float = 80.0
    points: int = 81
    fixed_alpha: float = 10.0
    overlap: float = 0.2
    key: int = 2


PRESETS = {"quick": Params(), "paper": Params(sizes=(250, 500, 1000, 2000, 4000), runs=64)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Two kinds of starts at every size; the directions of ρ₀ are shared by all sizes."""
    direction = np.random.default_rng(params.key).standard_normal((params.p, params.p_star))
    done = np.cumsum([0, *params.sizes]) / sum(params.sizes)
    found = [
        _at_size(params, N, direction, lambda f, a=a, b=b: report(a + f * (b - a)))
        for N, a, b in zip(params.sizes, done[:-1], done[1:], strict=True)
    ]
    return xr.concat(found, xr.DataArray(list(params.sizes), dims="size", name="size"))


def _at_size(params: Params, N: int, direction: np.ndarray, report: Report) -> xr.Dataset:
    """Deviations from a fixed start, and escape times from one that shrinks as N^(-1/2)."""
    silent = lambda fraction: None
    theory, runs = _runs(params, N, params.overlap * direction, params.fixed_alpha, 2, silent)
    deviation = _deviation(theory, runs)
    theory, runs = _runs(params, N, N**-0.5 * direction, params.alpha, params.points, report)
    escape = ld.analysis.fall_time(runs)
    return xr.Dataset(
        {
            "deviation": ("run", deviation),
            "escape": ("run", escape.values),
            "jitter": float(escape.std(ddof=1)),
            "predicted": float(ld.analysis.fall_time(theory)),
        }
    )


def draw(data: xr.Dataset) -> Figure:
    """Deviation and jitter against N, with their predicted slopes."""
    figure, axes = panels(3, columns=3)
    N = data["size"].values
    rms = np.sqrt((data["deviation"] ** 2).mean("run"))
    axes[0].loglog(N, rms, "o", color="C0", label="runs, fixed start")
    axes[0].loglog(N, rms[0].values * (N / N[0]) ** -0.5, "-", color="0.5", label="$N^{-1/2}$")
    axes[0].set_ylabel(r"rms deviation of $\rho$ from the ODE")
    axes[1].loglog(N, data["jitter"], "s", color="C1", label=r"runs, $\rho_0\sim N^{-1/2}$")
    mean = float(np.exp(np.log(data["jitter"]).mean()))
    axes[1].axhline(mean, color="0.5", label="$N^0$")
    axes[1].set_ylim(mean / 5, mean * 5)
    axes[1].set_yticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    axes[1].set_ylabel(r"spread of the half-loss time $\alpha$")
    axes[2].semilogx(N, data["escape"], ".", color="C1", alpha=0.5)
    axes[2].semilogx(N, data["predicted"], "k_", markersize=14, label="ODE")
    axes[2].set_ylabel(r"half-loss time $\alpha$ of each run")
    for axis in axes:
        axis.set_xlabel("N")
        axis.set_xticks(N, [str(n) for n in N])
        axis.minorticks_off()
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Two slopes against N, with errors from the number of runs."""
    rms, runs = (data["deviation"] ** 2).mean("run") ** 0.5, data.sizes["run"]
    within = ERRORS * spread_exponent_error(data["size"].values, runs)
    because = f"{ERRORS:g} standard errors of a slope, {runs} runs a size"
    rows = [
        ("deviation of a run from the ODE, fixed start, ∝ N^x: x", -0.5, rms),
        ("spread of the half-loss time, ρ₀ ~ N^(-1/2), ∝ N^x: x", 0.0, data["jitter"]),
    ]
    slope = lambda values: ld.analysis.fit_power_law(data["size"], values).slope
    return [
        claim(text, "Fig. 1, Sec. 4", kind="finding").equals(
            slope(values), expected, within=within, because=because
        )
        for text, expected, values in rows
    ]


def _runs(params: Params, N: int, rho: np.ndarray, alpha: float, points: int, report: Report):
    system = quadratic_system(params.p, params.p_star, params.eta, N)
    state = ld.Overlaps(np.eye(params.p), rho, np.eye(params.p_star))
    start, times = ld.start(system, state=state, key=params.key), np.linspace(0, alpha, points)
    theory = ld.solve(system, times, start=start)
    runs = ld.simulate(
        system, times, start=start, runs=params.runs, key=params.key + N, progress=report
    )
    return theory, runs


def _deviation(theory: xr.Dataset, runs: xr.Dataset) -> np.ndarray:
    """Each run's distance from the ODE in ρ at the last time."""
    gap = (runs["R"] - theory["R"]).isel(time=-1)
    return (gap**2).mean(["student", "teacher"]).values ** 0.5
