"""The verdict of `compare`: which test applies, its result, and what it could have detected."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import special

LEVEL = 0.01  # probability that a correct theory is called deviating, over all entries together
VISIBLE = 0.1  # "agrees" needs a test that detects deviations of this share of every curve
LINEAR = 0.1  # largest spread that linear noise can explain, relative to the record's largest value
SHIFT = 3.0  # by how many spreads of one run nonlinear noise may shift the mean


class Verdict(NamedTuple):
    """The verdict of a comparison, and its reason."""

    verdict: str
    reason: str


class Band(NamedTuple):
    """The spread in units of which deviations are measured.

    Attributes:
        runs: the number of runs that finished.
        predicted: whether the theory predicts it; otherwise it is measured from the runs.
        linear: whether linear noise, which does not shift the mean, can explain it.
        remark: why it cannot, or how the runs differ from the prediction; or empty.
    """

    runs: int
    predicted: bool = False
    linear: bool = True
    remark: str = ""

    def allowed(self, entries: int) -> float:
        """The largest |z| that chance explains, at `LEVEL` over all entries together."""
        # The quantiles of `scipy.stats`, which takes half a second to import.
        level = 1 - LEVEL / (2 * max(entries, 1))
        student = special.stdtrit(max(self.runs - 1, 1), level)
        return float(special.ndtri(level) if self.predicted else student)

    def __str__(self) -> str:
        kind = "predicted by the theory" if self.predicted else "from the runs"
        test = "normal" if self.predicted else "Student's t"
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        remark = f": {self.remark}" if self.remark else ""
        return f"band {kind} ({test} test, {runs}){remark}"


class Tested(NamedTuple):
    """What was tested, and how sensitively.

    Attributes:
        names: the variables that are numbers in both records.
        entries: the number of their entries that have a z.
        allowed: the largest |z| that chance explains.
        detectable: variable → the deviation that half of its entries would have revealed at the
            least sensitive time, relative to the curve's largest value.
    """

    names: list[str]
    entries: int
    allowed: float
    detectable: dict[str, float]

    @property
    def weakest(self) -> str:
        """The variable for which the test is least sensitive."""
        return max(self.detectable, key=lambda name: self.detectable[name])


def band_of(theory: xr.Dataset, runs: xr.Dataset, names: list[str], rounding: float) -> Band:
    """The spread that the theory predicts, if linear noise can explain it; otherwise the runs'."""
    count = runs.sizes["run"]
    predicted = all(f"{name}_std" in theory for name in names)
    remark = beyond_linear(theory, names) if predicted else _spread_too_wide(theory, runs, names)
    if remark or not predicted:
        return Band(count, False, not remark, remark)
    ratio, place = _spread_ratio(theory, runs, names, rounding)
    if not place:
        return Band(count, True)
    remark = f"the runs spread {ratio:.2g} times as much as predicted ({place})"
    # A band that is too wide still accepts correct theories; one that is too narrow does not.
    if ratio < 1:
        return Band(count, True, True, remark)
    return Band(count, False, False, f"linear noise does not hold, {remark}")


def beyond_linear(theory: xr.Dataset, names: list[str]) -> str:
    """A remark if the spread that a theory predicts is too large to be linear, and otherwise "".

    For example, runs that leave a plateau at random times differ by as much as the whole curve.
    """
    spreads = {name: theory[f"{name}_std"] for name in names}
    return _too_wide(theory, spreads, "predicted spread")


def _spread_too_wide(theory: xr.Dataset, runs: xr.Dataset, names: list[str]) -> str:
    if runs.sizes["run"] < 2:
        return ""
    spreads = {name: runs[name].std("run", ddof=1) for name in names}
    return _too_wide(theory, spreads, "spread of the runs")


def _too_wide(theory: xr.Dataset, spreads: Mapping[str, xr.DataArray], kind: str) -> str:
    whole = max(scale_of(theory[name]) for name in spreads)
    shares = {name: largest(spread) / whole for name, spread in spreads.items()}
    widest = max(spreads, key=lambda name: np.nan_to_num(shares[name], nan=-1.0))
    if not shares[widest] > LINEAR:
        return ""
    return (
        f"linear noise cannot hold, the {kind} of {widest} reaches "
        f"{100 * shares[widest]:.2g} % of the largest value, {100 * LINEAR:g} % at most"
    )


def _spread_ratio(
    theory: xr.Dataset, runs: xr.Dataset, names: list[str], rounding: float
) -> tuple[float, str]:
    """The spread of the runs over the predicted one, and where; (1, "") within chance.

    Chance is a chi-square test of every entry, at `LEVEL` over all of them together.
    """
    count = runs.sizes["run"]
    ratios = {name: _ratio(runs[name], theory[f"{name}_std"], rounding) for name in names}
    entries = int(sum(ratio.notnull().sum() for ratio in ratios.values()))
    if count < 2 or not entries:
        return 1.0, ""
    tail, degrees = LEVEL / (2 * entries), count - 1
    quantile = lambda p: 2 * special.gammaincinv(degrees / 2, p)  # of chi-square
    low, high = quantile(tail) / degrees, quantile(1 - tail) / degrees
    # In units of what chance allows. Too narrow bands are checked first, since they reject correct
    # theories.
    for excess in (lambda r: r**2 / high, lambda r: low / r**2):
        sizes = {name: excess(ratio) for name, ratio in ratios.items()}
        worst = max(names, key=lambda name: np.nan_to_num(largest(sizes[name]), nan=-1.0))
        if largest(sizes[worst]) > 1:
            at = ratios[worst][sizes[worst].argmax(...)]
            return float(at), f"{worst} at time {float(at['time']):g}"
    return 1.0, ""


def _ratio(runs: xr.DataArray, predicted: xr.DataArray, rounding: float) -> xr.DataArray:
    """Ratio of measured to predicted spread, where the latter exceeds rounding."""
    predicted = predicted.where(predicted > rounding)
    if runs.sizes["run"] < 2:
        return predicted * np.nan
    return runs.std("run", ddof=1).clip(min=rounding) / predicted


def judge(
    result: xr.Dataset, tested: Tested, theory: xr.Dataset, simulation: xr.Dataset, band: Band
) -> Verdict:
    """The verdict on a comparison: outcomes first, then numbers."""
    diverged = int((simulation["outcome"] != "finished").sum())
    runs = simulation.sizes["run"]
    outcome = str(theory["outcome"].values)
    if (outcome != "finished") != (diverged == runs):
        return Verdict("deviates", f"{diverged} of {runs} runs diverged, theory {outcome}")
    if diverged == runs:
        return Verdict("agrees", f"theory and all {runs} runs diverged")
    if not tested.names:
        return Verdict("undecided", "no entry is a number in both theory and simulation")
    if simulation.attrs.get("generator") == "none" and _are_one(theory, simulation, tested.names):
        return _deterministic(result, tested.names, theory, simulation)
    if not tested.entries:
        return Verdict(
            "undecided",
            f"one run has no standard error, and {band.remark or 'the theory predicts none'}",
        )
    return _statistical(result, tested, band, diverged)


def _statistical(result: xr.Dataset, tested: Tested, band: Band, diverged: int) -> Verdict:
    size = lambda name: np.nan_to_num(largest(result[f"{name}_z"]), nan=-1.0)
    worst = max(tested.names, key=size)
    z = abs(result[f"{worst}_z"])
    at = float(z.max([d for d in z.dims if d != "time"]).idxmax("time"))
    reason = (
        f"largest |z| {float(z.max()):.2f} ({worst} at time {at:g}), allowed {tested.allowed:.2f} "
        f"over {tested.entries} entries; {band}"
    )
    if diverged:
        reason += f"; {diverged} of {diverged + band.runs} runs diverged"
    if size(worst) > tested.allowed:
        return _biased(result, tested, band, reason)
    share, curve = tested.detectable[tested.weakest], f"the curve of {tested.weakest}"
    if share > VISIBLE:
        reason += f"; a deviation of {100 * VISIBLE:g} % of {curve} could not have been seen"
        could = f", {100 * share:.2g} % could" if share < 1 else ""
        return Verdict("undecided", f"{reason}{could}: take more runs")
    return Verdict(
        "agrees", f"{reason}; a deviation of {100 * share:.2g} % of {curve} would have been seen"
    )


def _biased(result: xr.Dataset, tested: Tested, band: Band, reason: str) -> Verdict:
    """The verdict on deviations that chance does not explain, but finite size may.

    Finite size shifts the mean by less than the spread of one run, or by a few spreads if the noise
    is not linear. A deviation beyond that, but not by more than chance, is undecided.
    """
    reach = 1.0 if band.linear else SHIFT
    chance = tested.allowed / np.sqrt(band.runs)
    beyond = lambda spreads: any(
        (abs(result[f"{n}_deviation"]) > spreads * result[f"{n}_spread"]).any()
        for n in tested.names
    )
    within = "the spread of one run" if band.linear else f"{SHIFT:g} spreads of one run"
    if beyond(reach + chance):
        return Verdict("deviates", f"{reason}; outside {within}")
    if band.linear and not beyond(reach):
        return Verdict("agrees within finite size", f"{reason}; inside {within}")
    return Verdict(
        "undecided",
        f"{reason}; not outside {within} by more than chance: finite size may explain it",
    )


def _are_one(theory, simulation, names: list[str]) -> bool:
    """Whether runs without random numbers are the same: they differ if their starts do."""
    finished = simulation.sel(run=simulation["outcome"] == "finished")
    apart = lambda n: largest(finished[n] - finished[n].isel(run=0)) / scale_of(theory[n])
    return all(not apart(n) > _rounding(simulation) for n in names)


def _rounding(simulation) -> float:
    """The relative deviation at which curves without random numbers still agree."""
    return 1e-3 if simulation.attrs.get("dtype") == "float32" else 1e-6


def _deterministic(result, names: list[str], theory, simulation) -> Verdict:
    relative = {n: largest(result[f"{n}_deviation"]) / scale_of(theory[n]) for n in names}
    worst = max(names, key=lambda n: relative[n])
    allowed = _rounding(simulation)
    reason = f"largest relative deviation {relative[worst]:.2e} ({worst}), allowed {allowed:.0e}"
    return Verdict("agrees" if relative[worst] <= allowed else "deviates", reason)


def largest(values) -> float:
    """The largest magnitude, ignoring NaN; NaN if there is nothing else."""
    sizes = np.abs(np.asarray(values))
    sizes = sizes[~np.isnan(sizes)]
    return float(sizes.max()) if sizes.size else np.nan


def scale_of(values: xr.DataArray) -> float:
    """The largest magnitude of a curve; 1 if it is zero."""
    return float(np.abs(values).max()) or 1.0
