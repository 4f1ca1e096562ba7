"""Fig. 1: more levels shorten the plateau, and slow down the end of learning.

Theory with all terms in η from one start for each L, and simulated students of sizes N and 2N from
the same overlaps, whose means give the theory up to 1/N². The quick preset has two numbers of
levels, and students for one of them, for a shorter time. Theory continues beyond the paper's
α = 3500, so that L = 1 shows its exponential.

Notes: docs/results/worschech2024scaling/fig1/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis import invariants, mean_and_error
from learndyn.plotting import panels
from learndyn.solving.fixed_points import jacobian_spectrum
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import LEVEL
from learndyn.studies.worschech2024scaling._model import committee_system

TITLE = "Generalisation error for L = 1 … 64 levels, K = M = 2 (Fig. 1)"
DIFFERS = (
    "sizes are the paper's; the number of students is not stated, here 32 each of N = 1024 and "
    "2048; theory goes on to α = 6000 instead of 3500"
)
FAST = 1.02  # a clock that is wrong by 2 %
BAR = 2  # standard errors of a bar
EARLY, SHOWN = 1000.0, 3500.0  # the asymptotic phase as far as the paper shows it
BETTER, CHANCE = "which of the two fits is better", "Student's t, all times together, 1 %"
FITS = "(relative error of a power law's over an exponential's fit)"
FAR, THEORY = (
    "largest distance of error, tr Q, |R|² in standard errors",
    "Eqs. 18 and 19 (corrected)",
)
CLAIMS = {
    "shorter": claim("length of the plateau, largest change from one L to the next", "Fig. 1",
                     because="an inequality; a plateau is where |d ln ε/d ln α| is below 0.1"),
    "gone": claim("length of the plateau at L = {L}: it has disappeared", "Fig. 1",
                  within=Tolerance(0.0, "|d ln ε/d ln α| is never below 0.1 over a factor 2 in α")),
    "there": claim("length of the plateau at L = {L}: longer than τ_esc", "Fig. 1, Eq. 116",
                   because="a shorter one would not be a plateau"),
    "slower": claim("logarithm of the rate of decay at the end, largest change with L", "Fig. 1",
                    because="an inequality"),
    "slowest": claim("L = {L}: rate at the end, twice that of the slowest overlap",
                     "Fig. 1; Jacobian at the teacher", kind="finding",
                     because="the three slowest rates of the error still mix"),
    "exponential": claim(f"L = {{L}}: exponential at the end {FITS}",
                         "Fig. 1, α = {begin:g} … {end:g}", because=BETTER),
    "power law": claim(f"L = {{L}}: a power law early in the asymptotic phase {FITS}",
                       "Fig. 1, α = {begin:g} … {end:g}", because=BETTER),
    "students": claim(f"L = {{L}}: students and theory, 1/N removed by N and 2N, {FAR}",
                      f"{THEORY}, Fig. 1", because=CHANCE, rate=1 - LEVEL),
    "fast clock": claim(f"L = {{L}}: a clock 2 % fast is excluded, {FAR}", f"{THEORY}, Fig. 1",
                        kind="finding", because=CHANCE),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; times are α, students of `simulated` levels learn until `until`."""

    levels: tuple[int, ...] = (1, 16)
    simulated: tuple[int, ...] = (16,)
    until: float = 60.0
    end: float = 6000.0
    N: int = 1024
    beta: float = 1.0
    eta: float = 0.1
    sigma_J: float = 0.01
    points: int = 160
    runs: int = 32
    key: int = 0


PARTS = {"levels": "L"}
PRESETS = {
    "quick": Params(),
    "paper": Params(levels=(1, 4, 16, 64), simulated=(1, 4, 16, 64), until=SHOWN),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Theory and students for every L."""
    rows = [_one(params, L) for L in cases(params.levels, report)]
    return xr.concat(rows, xr.Variable("L", list(params.levels))).assign_attrs(
        eta=params.eta, beta=params.beta, N=params.N, runs=params.runs, end=params.end
    )


def _system(params: Params, L: int, N: int) -> ld.System:
    sizes = {"K": 2, "M": 2, "eta": params.eta, "sigma_J": params.sigma_J}
    return committee_system("erf", ld.PowerLaw(N, L, params.beta), **sizes)


def _one(params: Params, L: int) -> xr.Dataset:
    system = _system(params, L, params.N)
    start = ld.start(system, key=params.key)
    times = np.concatenate([[0], np.geomspace(1, params.end, params.points)])
    # At L = 1 the error falls below 1e-9.
    theory = ld.solve(system, times, start=start, rtol=1e-9, atol=1e-13)
    plateau = ld.analysis.find_plateau(theory)
    blank = np.full(len(times), np.nan)
    row = {
        "error": ("time", theory["error"].values),
        "mean": ("time", blank),
        "standard_error": ("time", blank),
        "length": 0.0 if np.isnan(plateau.length) else plateau.length,
        "tau": ld.theory_of(system).landmarks()["escape_time_constant"] / params.eta,
        **dict.fromkeys(("largest_z", "allowed_z", "wrong_z"), np.nan),
        "slow_rates": ("mode", _slow_rates(system, start.state.T)),
    }
    if L in params.simulated:
        row |= _students(params, system, start, theory)
    return xr.Dataset(row, {"time": times})


def _slow_rates(system: ld.System, T: np.ndarray) -> np.ndarray:
    """The slowest rates of overlaps near the teacher; NaN where the slowest level hides them."""
    if len(T) > 1:
        return np.full(3, np.nan)
    teacher = ld.Overlaps(T, T, T)
    return np.real(jacobian_spectrum(ld.theory_of(system), teacher, "full").rates[:3])


def _students(params: Params, system: ld.System, start: ld.Start, theory: xr.Dataset) -> dict:
    """Mean error of the students, and their distance from theory and from a clock 2 % fast."""
    times = theory["time"].values
    early = times[times <= params.until]
    twice = _system(params, start.state.R.shape[0], 2 * params.N)
    again = ld.start(twice, state=start.state, key=params.key)
    runs, double = (
        ld.simulate(it, early, start=begin, runs=params.runs, key=2 * params.key + i)
        for i, (it, begin) in enumerate([(system, start), (twice, again)])
    )
    fast = ld.solve(system, FAST * early, start=start).assign_coords(time=runs["time"])
    doubled = {"doubled": invariants(double), "same_system": False}
    right, wrong = (
        ld.compare(invariants(curve), invariants(runs), **doubled).attrs for curve in (theory, fast)
    )
    pad = lambda values: np.pad(values, (0, len(times) - len(early)), constant_values=np.nan)
    mean, error = (pad(v.values) for v in mean_and_error(runs["error"]))
    numbers = {name: right[name] for name in ("largest_z", "allowed_z")}
    numbers["wrong_z"] = wrong["largest_z"]
    return {"mean": ("time", mean), "standard_error": ("time", error), **numbers}


def draw(data: xr.Dataset) -> Figure:
    """Left as in the paper; right on two logarithmic axes, where power laws are straight."""
    figure, (left, right) = panels(2)
    for k, L in enumerate(data["L"].values):
        one, color = data.sel(L=L), f"C{k}"
        for axis in (left, right):
            axis.plot(one["time"], one["error"], color=color, lw=1.3, label=f"L = {L}", zorder=1)
            kept = one.isel(time=one["mean"].notnull().values)
            few = kept.isel(time=slice(None, None, 5))
            axis.errorbar(few["time"], few["mean"], BAR * few["standard_error"], fmt="o", ms=3,
                          color=color, elinewidth=0.9, capsize=1.5, zorder=2)  # fmt: skip
    low = float(data["error"].where(data["time"] <= SHOWN).min())
    left.set(xlim=(0, SHOWN), ylim=(low / 2, None))
    right.set(xscale="log", xlim=(1, None), ylim=(low / 30, None))
    students = f"students, mean of {data.attrs['runs']} runs ± {BAR:g} standard errors"
    left.errorbar([], [], [], fmt="o", ms=3, color="0.3", elinewidth=0.9, label=students)
    for axis in (left, right):
        axis.set(yscale="log", xlabel="time [steps / N]", ylabel="generalisation error")
    left.legend(frameon=False, fontsize=8)
    sizes = f"K = M = 2, N = {data.attrs['N']}, η = {data.attrs['eta']}, β = {data.attrs['beta']:g}"
    left.set_title(f"{sizes}, one start each", fontsize=9)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The plateau against L, the end of learning against L, and students against theory."""
    lengths, ends = data["length"].values, [{"L": int(data["L"][i])} for i in (0, -1)]
    rows = [
        CLAIMS["shorter"].at_most(np.diff(lengths).max(), 0.0),
        CLAIMS["gone"].format(**ends[1]).equals(lengths[-1], 0.0),
        CLAIMS["there"].format(**ends[0]).at_least(lengths[0], data["tau"][0]),
        *_end(data),
    ]
    for one in (data.sel(L=L) for L in data["L"].values[data["largest_z"].notnull()]):
        students, fast = (CLAIMS[key].format(L=int(one["L"])) for key in ("students", "fast clock"))
        rows.append(students.at_most(one["largest_z"], one["allowed_z"]))
        rows.append(fast.at_least(one["wrong_z"], one["allowed_z"]))
    return rows


def _end(data: xr.Dataset) -> list[Claim]:
    """Rates of decay at the end, and whether exponentials or power laws fit better."""
    windows = (0.75 * data.attrs["end"], data.attrs["end"]), (EARLY, SHOWN)
    fits = lambda L, window: _fits(data.sel(L=L), window)
    rates = np.array([-fits(L, windows[0])[0].slope for L in data["L"].values])
    slow, ends = data["slow_rates"].isel(L=0).values, data["L"].values[[0, -1]]
    # A rate of growth has no logarithm, and fails.
    change = np.diff(np.log(np.where(rates > 0, rates, np.nan))).max()
    shapes = [
        CLAIMS[key].format(L=L, begin=window[0], end=window[1])
        for key, L, window in zip(("exponential", "power law"), ends, windows, strict=True)
    ]
    ratios = [
        float(power.error / power.slope * rate.slope / rate.error)
        for rate, power in map(fits, ends, windows)
    ]
    return [
        CLAIMS["slower"].at_most(change, 0.0),
        CLAIMS["slowest"].format(L=ends[0]).equals(rates[0], -2 * slow[0], 2 * slow[0] - slow[2]),
        shapes[0].at_least(ratios[0], 1.0),
        shapes[1].at_most(ratios[1], 1.0),
    ]


def _fits(one: xr.Dataset, window: tuple[float, float]):
    """An exponential and a power law through the error."""
    times, error = one["time"].values[1:], one["error"].values[1:]
    fits = ld.analysis.fit_rate, ld.analysis.fit_power_law
    return [fit(times, error, window=window) for fit in fits]
