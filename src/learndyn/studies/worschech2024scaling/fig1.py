"""Fig. 1: more levels shorten the plateau, and slow the end of learning down.

Theory with all terms in η from one start for each L, real students from the same start. The quick
preset has two numbers of levels and students for one of them, for a shorter time. Theory runs past
the paper's α = 3500, so that L = 1 shows its exponential.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis import mean_and_error
from learndyn.plotting import panels
from learndyn.solving.fixed_points import jacobian_spectrum
from learndyn.studies.claims import Claim, Relation
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling._model import committee_system

TITLE = "Generalisation error for L = 1 … 64 levels, K = M = 2 (Fig. 1)"
EARLY, SHOWN = 1000.0, 3500.0  # the asymptotic phase as far as the paper shows it


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; times are α, students of `simulated` levels learn until `until`."""

    levels: tuple[int, ...] = (1, 16)
    simulated: tuple[int, ...] = (16,)
    until: float = 30.0
    end: float = 6000.0
    N: int = 1024
    beta: float = 1.0
    eta: float = 0.1
    sigma_J: float = 0.01
    points: int = 160
    runs: int = 10
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(levels=(1, 4, 16, 64), simulated=(1, 4, 16, 64), until=SHOWN),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Theory and students for every L."""
    rows = []
    for L in params.levels:
        rows.append(_one(params, L))
        report(len(rows) / len(params.levels))
    return xr.concat(rows, xr.Variable("L", list(params.levels))).assign_attrs(
        eta=params.eta, beta=params.beta, N=params.N, runs=params.runs, end=params.end
    )


def _one(params: Params, L: int) -> xr.Dataset:
    inputs = ld.PowerLaw(params.N, L, params.beta)
    sizes = {"K": 2, "M": 2, "eta": params.eta, "sigma_J": params.sigma_J}
    system = committee_system("erf", inputs, **sizes)
    start = ld.start(system, key=params.key)
    times = np.concatenate([[0], np.geomspace(1, params.end, params.points)])
    # At L = 1 the error falls below 1e-9.
    theory = ld.solve(system, times, start=start, rtol=1e-9, atol=1e-13)
    plateau = ld.analysis.find_plateau(theory)
    blank = np.full(len(times), np.nan)
    found = {
        "error": ("time", theory["error"].values),
        "mean": ("time", blank),
        "standard_error": ("time", blank),
        "length": 0.0 if np.isnan(plateau.length) else plateau.length,
        "tau": ld.theory_of(system).landmarks()["escape_time"] / params.eta,
        "largest_z": np.nan,
        "allowed_z": np.nan,
        "slow_rates": ("mode", _slow_rates(system, start.state.T)),
    }
    if L in params.simulated:
        found |= _students(params, system, start, theory)
    return xr.Dataset(found, {"time": times})


def _slow_rates(system: ld.System, T: np.ndarray) -> np.ndarray:
    """The slowest rates of overlaps near the teacher; NaN where the slowest level hides them."""
    if len(T) > 1:
        return np.full(3, np.nan)
    teacher = ld.Overlaps(T, T, T)
    return np.real(jacobian_spectrum(ld.theory_of(system), teacher, "full").rates[:3])


def _students(params: Params, system: ld.System, start: ld.Start, theory: xr.Dataset) -> dict:
    """Mean error of the students, and what `compare` says of them."""
    times = theory["time"].values
    early = times[times <= params.until]
    runs = ld.simulate(system, early, start=start, runs=params.runs, key=params.key + 1)
    found = ld.compare(theory, runs).attrs
    pad = lambda values: np.pad(values, (0, len(times) - len(early)), constant_values=np.nan)
    mean, error = (pad(v.values) for v in mean_and_error(runs["error"]))
    numbers = {name: found[name] for name in ("largest_z", "allowed_z")}
    return {"mean": ("time", mean), "standard_error": ("time", error), **numbers}


def draw(data: xr.Dataset) -> Figure:
    """Left as in the paper; right on two logarithmic axes, where power laws are straight."""
    figure, (left, right) = panels(2)
    for k, L in enumerate(data["L"].values):
        one, color = data.sel(L=L), f"C{k}"
        for axis in (left, right):
            axis.plot(one["time"], one["error"], color=color, lw=1.3, label=f"L = {L}", zorder=1)
            kept = one.isel(time=one["mean"].notnull().values)
            axis.plot(kept["time"][::5], kept["mean"][::5], "o", ms=3, color=color, zorder=2)
    low = float(data["error"].where(data["time"] <= SHOWN).min())
    left.set(xlim=(0, SHOWN), ylim=(low / 2, None))
    right.set(xscale="log", xlim=(1, None), ylim=(low / 30, None))
    left.plot([], [], "o", ms=3, color="0.3", label=f"students, {data.attrs['runs']} runs")
    for axis in (left, right):
        axis.set(yscale="log", xlabel="time [steps / N]", ylabel="generalisation error")
    left.legend(frameon=False, fontsize=8)
    sizes = f"K = M = 2, N = {data.attrs['N']}, η = {data.attrs['eta']}, β = {data.attrs['beta']:g}"
    left.set_title(f"{sizes}, one start each", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The plateau against L, the end of learning against L, and students against theory."""
    simulated = data.sel(L=data["largest_z"].notnull())
    rows = [simulated.sel(L=L) for L in simulated["L"].values]
    return [*_plateau(data), *_end(data), *[_agreement(one, data.attrs) for one in rows]]


def _plateau(data: xr.Dataset) -> list[Claim]:
    lengths, last = data["length"].values, int(data["L"][-1])
    return [
        Claim(
            statement="length of the plateau, largest change from one L to the next",
            source="Fig. 1",
            relation="≤",
            expected=0.0,
            measured=float(np.diff(lengths).max()),
            tolerance=0.0,
            tolerance_from="the order itself; |d ln ε/d ln α| below 0.1 is a plateau",
        ),
        Claim(
            statement=f"length of the plateau at L = {last}: it has disappeared",
            source="Fig. 1",
            relation="=",
            expected=0.0,
            measured=float(lengths[-1]),
            tolerance=0.0,
            tolerance_from="no factor 2 in α over which |d ln ε/d ln α| is below 0.1",
        ),
        Claim(
            statement=f"length of the plateau at L = {int(data['L'][0])}: longer than τ_esc",
            source="Fig. 1, Eq. 116",
            relation="≥",
            expected=float(data["tau"][0]),
            measured=float(lengths[0]),
            tolerance=0.0,
            tolerance_from="a shorter one would be none",
        ),
    ]


def _end(data: xr.Dataset) -> list[Claim]:
    end, first, last = data.attrs["end"], data.isel(L=0), data.isel(L=-1)
    late, early = (0.75 * end, end), (EARLY, SHOWN)
    rates = np.array([-_fits(data.sel(L=L), late)[0].slope for L in data["L"].values])
    slow = data["slow_rates"].isel(L=0).values
    return [
        Claim(
            statement="rate of decay at the end, largest ratio from one L to the next",
            source="Fig. 1",
            relation="≤",
            expected=1.0,
            measured=float((rates[1:] / rates[:-1]).max()),
            tolerance=0.0,
            tolerance_from="the order itself",
        ),
        Claim(
            statement=f"L = {int(first['L'])}: rate at the end, twice that of the slowest overlap",
            source="Fig. 1; Jacobian at the teacher",
            relation="=",
            expected=float(-2 * slow[0]),
            measured=float(rates[0]),
            tolerance=float(2 * slow[0] - slow[2]),
            tolerance_from="the three slowest rates of the error still mix",
            kind="finding",
        ),
        _shape(first, late, "≥", "exponential at the end"),
        _shape(last, early, "≤", "a power law early in the asymptotic phase"),
    ]


def _shape(one: xr.Dataset, window: tuple[float, float], relation: Relation, what: str) -> Claim:
    rate, power = _fits(one, window)
    return Claim(
        statement=f"L = {int(one['L'])}: {what} (relative error of a power law's over an "
        "exponential's fit)",
        source=f"Fig. 1, α = {window[0]:g} … {window[1]:g}",
        relation=relation,
        expected=1.0,
        measured=float(power.error / power.slope * rate.slope / rate.error),
        tolerance=0.0,
        tolerance_from="which of the two fits is better",
    )


def _fits(one: xr.Dataset, window: tuple[float, float]):
    """An exponential and a power law through the error."""
    times, error = one["time"].values[1:], one["error"].values[1:]
    fits = ld.analysis.fit_rate, ld.analysis.fit_power_law
    return [fit(times, error, window=window) for fit in fits]


def _agreement(one: xr.Dataset, sizes: dict) -> Claim:
    """`compare` agrees where no z exceeds its bound, or no deviation the spread of one run."""
    return Claim(
        statement=f"L = {int(one['L'])}: students follow the theory (largest |z| of Q, R, error)",
        source="Eqs. 18 and 19 (corrected), Fig. 1",
        relation="≤",
        expected=max(float(one["allowed_z"]), float(np.sqrt(sizes["runs"]))),
        measured=float(one["largest_z"]),
        tolerance=0.0,
        tolerance_from=f"Student's t over all entries at 1 %, {sizes['runs']} runs",
        rate=0.99,
    )
