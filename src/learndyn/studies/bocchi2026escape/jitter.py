"""How finite size shows: N^(-1/2) from a fixed start, a jitter of the escape that stays.

From a start that does not depend on N a run leaves the ODE by an amount of order N^(-1/2). Random
starts have ρ₀ ~ N^(-1/2): the sampling noise gathered on the plateau is then of the order of ρ₀
itself, and the spread of the escape time does not shrink with N at all. A few runs that leave the
plateau late dominate a standard deviation. So the exponent of the spread is the median slope
between pairs of runs of log |escape time − median of its size| against log N, with the interval of
Kendall's rank correlation (Theil, Sen). A run that has not left at the end counts as later than all
that have. The quick preset uses smaller sizes.

Notes: docs/results/bocchi2026escape/jitter/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, shares
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import LEVEL, normal_bound, rank_slope, spread_exponent_error

TITLE = "Finite size: deviations shrink as N^-1/2, the jitter of the escape time does not"
DIFFERS = "ours: the paper has no such figure"
CLAIMS = {
    "deviation": claim("deviation of a run from the ODE, fixed start, ∝ N^x: x", "Fig. 1, Sec. 4",
                       kind="finding", rate=1 - LEVEL,
                       because="error of a slope, {runs} runs per size, 1 %"),
    "jitter": claim("spread of the half-loss time, ρ₀ ~ N^(-1/2), does not shrink like that "
                    "deviation: its exponent, by ranks, minus x (exponent {exponent:+.2f})",
                    "Fig. 1, Sec. 4", kind="finding", rate=1 - LEVEL,
                    because="Kendall's rank correlation and the error of x, {runs} runs per size, "
                            "1 %"),
}  # fmt: skip


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


PARTS = {"sizes": "size"}
PRESETS = {"quick": Params(), "paper": Params(sizes=(250, 500, 1000, 2000, 4000))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Two kinds of starts at every size; the directions of ρ₀ are shared by all sizes."""
    direction = np.random.default_rng(params.key).standard_normal((params.p, params.p_star))
    reports = shares(params.sizes, report)
    rows = [
        _at_size(params, N, direction, part) for N, part in zip(params.sizes, reports, strict=True)
    ]
    return xr.concat(rows, xr.DataArray(list(params.sizes), dims="size", name="size"))


def _at_size(params: Params, N: int, direction: np.ndarray, report: Report) -> xr.Dataset:
    """Deviations from a fixed start, and escape times from one that shrinks as N^(-1/2)."""
    alphas = np.linspace(0, params.fixed_alpha, 2)
    theory, runs = _runs(params, N, params.overlap * direction, alphas, lambda done: None)
    gap = (runs["R"] - theory["R"]).isel(time=-1)
    alphas = np.linspace(0, params.alpha, params.points)
    theory, runs = _runs(params, N, N**-0.5 * direction, alphas, report)
    escape = ld.analysis.fall_time(runs).values
    # A run that has not escaped counts as if it did at the end.
    times = np.where(np.isfinite(escape), escape, params.alpha)
    table = {
        "deviation": ("run", (gap**2).mean(["student", "teacher"]).values ** 0.5),
        "escape": ("run", escape),
        "stray": ("run", np.abs(times - np.median(times))),
        "predicted": float(ld.analysis.fall_time(theory)),
    }
    return xr.Dataset(table)


def _runs(params: Params, N: int, rho: np.ndarray, alphas: np.ndarray, report: Report):
    """The ODE and networks from the same overlaps."""
    system = quadratic_system(params.p, params.p_star, params.eta, N)
    state = ld.Overlaps(np.eye(params.p), rho, np.eye(params.p_star))
    start = ld.start(system, state=state, key=params.key)
    options = {"runs": params.runs, "key": params.key + N, "progress": report}
    theory = ld.solve(system, alphas, start=start)
    return theory, ld.simulate(system, alphas, start=start, **options)


def draw(data: xr.Dataset) -> Figure:
    """Deviation and jitter against N, with their predicted slopes."""
    figure, axes = panels(3, columns=3)
    N, stray = data["size"].values, data["stray"].median("run")
    rms = np.sqrt((data["deviation"] ** 2).mean("run"))
    axes[0].loglog(N, rms, "o", color="C0", label="runs, fixed start")
    axes[0].loglog(N, rms[0].values * (N / N[0]) ** -0.5, "-", color="0.5", label="$N^{-1/2}$")
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter("{x:g}")
    axes[0].set_ylabel(r"rms deviation of $\rho$ from the ODE")
    mean = float(np.exp(np.log(stray).mean()))
    axes[1].loglog(N, stray, "s", color="C1", label=r"runs, $\rho_0\sim N^{-1/2}$")
    axes[1].axhline(mean, color="0.5", label="$N^0$")
    axes[1].set(ylim=(mean / 5, mean * 5), ylabel=r"median $|\alpha -$ median$|$ at half loss")
    axes[1].set_yticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
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
    slope = ld.analysis.fit_power_law(data["size"], rms).slope
    error = normal_bound() * spread_exponent_error(data["size"].values, runs)
    stray = data["stray"].where(data["stray"] > 0).stack(all=("size", "run")).dropna("all")
    ranks = rank_slope(np.log(stray["size"]), np.log(stray))
    rank_error = max(ranks.slope - ranks.low, ranks.high - ranks.slope)
    jitter = CLAIMS["jitter"].format(exponent=ranks.slope, runs=runs)
    return [
        CLAIMS["deviation"].format(runs=runs).equals(slope, -0.5, error),
        jitter.equals(ranks.slope - slope, 0.5, np.hypot(rank_error, error)),
    ]
