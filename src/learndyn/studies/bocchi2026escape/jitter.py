"""How finite size shows: N^(-1/2) from a fixed start, a jitter of the escape that stays.

From a start that does not depend on N a run leaves the ODE by an amount of order N^(-1/2).
Random starts have ρ₀ ~ N^(-1/2): the sampling noise gathered on the plateau is then of the
order of ρ₀ itself, and the spread of the escape time does not shrink with N at all.

Single runs that leave the plateau late carry a standard deviation (it missed at key 3), so that the
exponent of the spread is the median slope between pairs of runs of log |escape time − median of its
size| against log N, with the interval of Kendall's rank correlation (Theil, Sen). A run that has
not left at the end is later than all that have. The quick preset uses smaller sizes.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import normal_bound, rank_slope, spread_exponent_error

TITLE = "Finite size: deviations shrink as N^-1/2, the jitter of the escape time does not"
LEVEL = 0.01  # chance of a false alarm in each claim


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes, runs and times."""

    p: int = 3
    p_star: int = 2
    eta: float = 0.1
    sizes: tuple[int, ...] = (64, 128, 256, 512)
    runs: int = 64
    alpha: float = 80.0
    points: int = 81
    fixed_alpha: float = 10.0
    overlap: float = 0.2
    key: int = 2


PRESETS = {"quick": Params(), "paper": Params(sizes=(250, 500, 1000, 2000, 4000))}


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
            "stray": ("run", _stray(escape.values, params.alpha)),
            "predicted": float(ld.analysis.fall_time(theory)),
        }
    )


def _stray(escape: np.ndarray, end: float) -> np.ndarray:
    """How far from their median runs escape; one that has not, as if at the end."""
    times = np.where(np.isfinite(escape), escape, end)
    return np.abs(times - np.median(times))


def draw(data: xr.Dataset) -> Figure:
    """Deviation and jitter against N, with their predicted slopes."""
    figure, axes = panels(3, columns=3)
    N = data["size"].values
    rms = np.sqrt((data["deviation"] ** 2).mean("run"))
    axes[0].loglog(N, rms, "o", color="C0", label="runs, fixed start")
    axes[0].loglog(N, rms[0].values * (N / N[0]) ** -0.5, "-", color="0.5", label="$N^{-1/2}$")
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter("{x:g}")
    axes[0].set_ylabel(r"rms deviation of $\rho$ from the ODE")
    stray = data["stray"].median("run")
    axes[1].loglog(N, stray, "s", color="C1", label=r"runs, $\rho_0\sim N^{-1/2}$")
    mean = float(np.exp(np.log(stray).mean()))
    axes[1].axhline(mean, color="0.5", label="$N^0$")
    axes[1].set_ylim(mean / 5, mean * 5)
    axes[1].set_yticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    axes[1].set_ylabel(r"median $|\alpha -$ median$|$ at half loss")
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
    found = ld.analysis.fit_power_law(data["size"], rms).slope
    stray = data["stray"].where(data["stray"] > 0).stack(all=("size", "run")).dropna("all")
    ranks = rank_slope(np.log(stray["size"]), np.log(stray), LEVEL)
    of_ranks = max(ranks.slope - ranks.low, ranks.high - ranks.slope)
    of_rms = normal_bound(LEVEL) * spread_exponent_error(data["size"].values, runs)
    said = "deviation of a run from the ODE, fixed start, ∝ N^x: x"
    jitter = "spread of the half-loss time, ρ₀ ~ N^(-1/2), does not shrink with that deviation: "
    jitter += f"its exponent, by ranks, less x (exponent {ranks.slope:+.2f})"
    source, runs_of = "Fig. 1, Sec. 4", f"{runs} runs a size, {LEVEL:.0%}"
    return [
        claim(said, source, kind="finding").equals(
            found, -0.5, within=of_rms, rate=1 - LEVEL, because=f"error of a slope, {runs_of}"
        ),
        claim(jitter, source, kind="finding").equals(
            ranks.slope - found, 0.5, within=np.hypot(of_ranks, of_rms), rate=1 - LEVEL,
            because=f"Kendall's rank correlation and that error, {runs_of}",
        ),
    ]  # fmt: skip


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
