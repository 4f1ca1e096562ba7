"""`compare`: how well a prediction and a simulation agree, in numbers."""

import html
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from learndyn.analysis.given import record_of
from learndyn.numerics.checks import instance, one_of
from learndyn.records import require_match

LEVEL = 0.01  # chance that a true theory is called deviating, over all entries together


class Verdict(NamedTuple):
    """What a comparison says, and why."""

    verdict: str
    reason: str


# What `compare` says of a variable, and which of it has the variable's units.
KINDS = {
    "deviation": "mean over runs less theory",
    "z": "mean over runs less theory, in standard errors",
    "spread": "standard deviation of one run",
    "scaled": "mean over runs less theory, × √N / largest",
}
HAVE_UNITS = ("deviation", "spread")


class Comparison(xr.Dataset):
    """What `compare` returns: a dataset that shows its verdict first, in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        names = [str(name).removesuffix("_z") for name in self if str(name).endswith("_z")]
        row = lambda kind, cells: "<tr>" + "".join(f"<{kind}>{c}</{kind}>" for c in cells) + "</tr>"
        largest = lambda name, kind: f"{_largest(self[f'{name}_{kind}']):.3g}"
        head = row("th", ("", "largest |z|", "largest deviation"))
        rows = [
            row("td", (html.escape(n), largest(n, "z"), largest(n, "deviation"))) for n in names
        ]
        said = "<b>{verdict}</b>: {reason}".format(
            **{name: html.escape(str(self.attrs.get(name, ""))) for name in ("verdict", "reason")}
        )
        return f"<p>{said}</p><table>{head}{''.join(rows)}</table>{super()._repr_html_()}"


def compare(
    theory: xr.Dataset,
    simulation: xr.Dataset,
    *,
    doubled: xr.Dataset | None = None,
    same_system: bool = True,
) -> Comparison:
    """Deviations of a simulation's mean from a prediction, at the times both have.

    For every variable `v` that both have, with mean m over the runs that did not diverge:

        v_deviation = m − theory
        v_z         = deviation in standard errors of m: from the runs, or `v_std` / √runs
                      where the theory predicts its own spread `v_std` (`fluctuations=True`)
        v_scaled    = deviation · √N / max |theory|: of order one where finite size explains it

    The mean of a finite network differs from a theory of infinite ones by a bias of order 1/N,
    which many runs see. With `doubled`, runs at twice the size from the same state, it is
    removed: m = 2 m(2N) − m(N), which has a bias of order 1/N², and their errors add.

    Verdict: "agrees" where no |z| exceeds the bound at 1 % over all entries together, of the
    normal law for a predicted spread and of Student's t for one from the runs; else "agrees
    within finite size" where no deviation exceeds the spread of a single run (it has mean-free
    part N^(-1/2), and the theory's bias is of order 1/N); else "deviates". With a predicted
    spread one run decides; without one it is "undecided", unless the rule does not sample:
    then "agrees" means a deviation of at most 1e-6 of the theory's largest value (1e-3 in
    float32), and else it "deviates" by the number given. It is "undecided" as well where no
    entry is a number in both, and where all agrees but time 0 is the only common time.

    Args:
        theory: a record of `solve`.
        simulation: a record of `simulate`.
        doubled: another, of a system that differs from the first in nothing but twice the size.
        same_system: whether the records must be of one system. False lets a theory be held
            against networks of another size or rule, say; the unit of time must be one still,
            and a predicted spread is that of the theory's own size.

    Returns:
        A dataset of these variables; `verdict`, `reason`, `largest_z`, `allowed_z`,
        `largest_scaled` and `runs` are attributes.

    Raises:
        ValueError: for records of two systems or two units of time, or of the wrong kind
            (runs first, no runs second), and where they share no time or no variable, or one
            of different sizes.
    """
    one_of("same_system", same_system, (False, True))
    _require_records(theory, simulation)
    require_match(theory, simulation, same_system=same_system)
    theory, simulation = _matched(theory, simulation)
    alive = simulation.sel(run=simulation["outcome"] == "finished")
    names = _shared(theory, simulation)
    second = None if doubled is None else _doubled(theory, simulation, doubled)
    parts = {name: _deviations(name, theory, alive, second) for name in names}
    found = Comparison(
        {
            f"{name}_{kind}": v.assign_attrs(_label(theory[name], kind))
            for name, kinds in parts.items()
            for kind, v in kinds.items()
        }
    )
    found.attrs = _attributes(found, names, theory, simulation, alive.sizes["run"])
    return found


def _label(variable: xr.DataArray, kind: str) -> dict[str, str]:
    """The attributes of what `compare` says of a variable."""
    label, unit = (
        variable.attrs.get(key, other) for key, other in (("long_name", ""), ("units", "1"))
    )
    return {"long_name": f"{label}: {KINDS[kind]}", "units": unit if kind in HAVE_UNITS else "1"}


def is_approximate(theory: xr.Dataset) -> bool:
    """Whether a record is of a theory that covers its start only approximately."""
    return theory.attrs.get("coverage") == "approximate"


def mean_and_error(values: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean over runs and its standard error; NaN for one run, diverged entries left out."""
    instance("values", values, xr.DataArray, "a variable of a record of `simulate`")
    if "run" not in values.dims:
        raise ValueError(f"values: got dimensions {values.dims}; allowed is one with 'run'")
    count = values.notnull().sum("run")
    spread = values.std("run", ddof=1) if values.sizes["run"] > 1 else values.mean("run") * np.nan
    return values.mean("run"), spread / np.sqrt(count)


def _require_records(theory: xr.Dataset, simulation: xr.Dataset) -> None:
    record_of("theory", theory)
    record_of("simulation", simulation)
    if "run" in theory.dims:
        raise ValueError("theory: got a record of runs; allowed is a record of `solve`")
    if "run" not in simulation.dims:
        raise ValueError("simulation: got no dimension 'run'; allowed is a record of `simulate`")
    for name, record in {"theory": theory, "simulation": simulation}.items():
        missing = ["variable 'outcome'"] * ("outcome" not in record)
        missing += ["attribute 'size'"] * ("size" not in record.attrs)
        if missing:
            said = f"{name}: got no {' and no '.join(missing)}"
            raise ValueError(f"{said}; allowed are records of `solve` and `simulate`")


def _doubled(theory: xr.Dataset, simulation: xr.Dataset, doubled: xr.Dataset) -> xr.Dataset:
    """The runs at twice the size that did not diverge, at the theory's times."""
    _require_records(theory, doubled)
    require_match(simulation, doubled, same_system=False)
    if doubled.attrs["size"] != 2 * simulation.attrs["size"]:
        came, allowed = doubled.attrs["size"], 2 * simulation.attrs["size"]
        raise ValueError(f"doubled: got runs of size {came}; allowed is {allowed}")
    mine, theirs = _matched(theory, doubled)
    if mine.sizes["time"] != theory.sizes["time"]:
        raise ValueError("doubled: got other times than the simulation; allowed are the same")
    return theirs.sel(run=theirs["outcome"] == "finished")


def _matched(theory: xr.Dataset, simulation: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    a, b = theory["time"].values, simulation["time"].values
    pairs = [(i, j) for i, t in enumerate(a) for j in np.flatnonzero(np.isclose(b, t, atol=0))[:1]]
    if not pairs:
        raise ValueError("simulation: shares no time with the theory; allowed are common times")
    mine, theirs = (list(column) for column in zip(*pairs, strict=True))
    theory = theory.isel(time=mine)
    return theory, simulation.isel(time=theirs).assign_coords(time=theory["time"])


def _shared(theory: xr.Dataset, simulation: xr.Dataset) -> list[str]:
    """The variables that depend on time in both."""
    names = [str(n) for n, v in theory.data_vars.items() if "time" in v.dims and n in simulation]
    if not names:
        raise ValueError("simulation: got no variable of the theory; allowed are two records")
    for name in names:
        mine, theirs = dict(theory[name].sizes), dict(simulation[name].isel(run=0).sizes)
        if mine != theirs:
            said = f"simulation: got {name} of sizes {theirs}"
            raise ValueError(f"{said}; allowed are those of the theory, {mine}")
    return names


def _deviations(
    name: str, theory: xr.Dataset, runs: xr.Dataset, second: xr.Dataset | None
) -> dict[str, xr.DataArray]:
    mean, error = _estimate(name, theory, runs, 1.0)
    if second is not None:
        # The spread falls with the root of the size.
        twice, its_error = _estimate(name, theory, second, 2**-0.5)
        mean, error = 2 * twice - mean, np.hypot(2 * its_error, error)
    scale = _scale(theory[name])
    # Where runs cannot differ (at the start), the weights' rounding is the error.
    rounding = 8 * np.finfo(runs.attrs.get("dtype", "float64")).eps * scale
    deviation = mean - theory[name]
    return {
        "deviation": deviation,
        "z": deviation / np.hypot(error, rounding),
        "spread": error * np.sqrt(runs.sizes["run"]) + rounding,
        "scaled": deviation * np.sqrt(runs.attrs["size"]) / scale,
    }


def _estimate(name: str, theory: xr.Dataset, runs: xr.Dataset, spread: float):
    """Mean over runs and its standard error, predicted where the theory does (times `spread`)."""
    mean, error = mean_and_error(runs[name])
    predicted = theory.get(f"{name}_std")
    return mean, error if predicted is None else spread * predicted / np.sqrt(runs.sizes["run"])


def _attributes(found, names, theory, simulation, alive: int) -> dict:
    empty = [n for n in names if found[f"{n}_deviation"].isnull().all()]
    names = [n for n in names if n not in empty]
    largest = lambda kind: _largest(np.asarray([_largest(found[f"{n}_{kind}"]) for n in names]))
    entries = int(sum(found[f"{n}_z"].notnull().sum() for n in names))
    law = stats.norm() if _predicted(theory, names) else stats.t(max(alive - 1, 1))
    allowed = float(law.ppf(1 - LEVEL / (2 * max(entries, 1))))
    verdict = _verdict(found, names, theory, simulation, allowed, entries)
    if verdict.verdict.startswith("agrees") and not found["time"].values.any():
        verdict = Verdict("undecided", "time 0 is the only common time: nothing was learned yet")
    approximate = "; the theory is approximate here" * is_approximate(theory)
    left_out = f"; no number in both: {', '.join(empty)}" if empty and names else ""
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason + left_out + approximate,
        "largest_z": largest("z"),
        "allowed_z": allowed,
        "largest_scaled": largest("scaled"),
        "runs": alive,
        "size": simulation.attrs["size"],
    }


def _verdict(found, names, theory, simulation, allowed: float, entries: int) -> Verdict:
    diverged = int((simulation["outcome"] != "finished").sum())
    runs = simulation.sizes["run"]
    if (str(theory["outcome"].values) != "finished") != (diverged == runs):
        return Verdict("deviates", f"{diverged} of {runs} runs diverged, theory {_end(theory)}")
    if diverged == runs:
        return Verdict("agrees", f"theory and all {runs} runs diverged")
    if not names:
        return Verdict("undecided", "no entry is a number in both theory and simulation")
    if simulation.attrs.get("generator") == "none":
        return _deterministic(found, names, theory, simulation)
    if not entries:
        return Verdict("undecided", "one run has no standard error, and the theory predicts none")
    band = "predicted by the theory" if _predicted(theory, names) else "from the runs"
    note = f" over {entries} entries, band {band}"
    note += f"; {diverged} of {runs} runs diverged" * (diverged > 0)
    return _judged(found, names, allowed, note)


def _judged(found, names, allowed: float, note: str) -> Verdict:
    worst = max(names, key=lambda n: np.nan_to_num(_largest(found[f"{n}_z"]), nan=-1.0))
    z = np.abs(found[f"{worst}_z"])
    at = float(z.max([d for d in z.dims if d != "time"]).idxmax("time"))
    said = f"largest |z| {float(z.max()):.2f} ({worst} at time {at:g}), allowed {allowed:.2f}"
    said += note
    if float(z.max()) <= allowed:
        return Verdict("agrees", said)
    if not any((np.abs(found[f"{n}_deviation"]) > found[f"{n}_spread"]).any() for n in names):
        return Verdict("agrees within finite size", said + "; inside the spread of one run")
    return Verdict("deviates", said + "; outside the spread of one run")


def _deterministic(found, names, theory, simulation) -> Verdict:
    relative = {n: _largest(found[f"{n}_deviation"]) / _scale(theory[n]) for n in names}
    worst = max(names, key=lambda n: relative[n])
    allowed = 1e-3 if simulation.attrs.get("dtype") == "float32" else 1e-6
    said = f"largest relative deviation {relative[worst]:.2e} ({worst}), allowed {allowed:.0e}"
    return Verdict("agrees" if relative[worst] <= allowed else "deviates", said)


def _predicted(theory: xr.Dataset, names: list[str]) -> bool:
    return all(f"{name}_std" in theory for name in names)


def _largest(values) -> float:
    """The largest size, of the entries that are numbers; NaN where none is."""
    sizes = np.abs(np.asarray(values))
    sizes = sizes[~np.isnan(sizes)]
    return float(sizes.max()) if sizes.size else np.nan


def _scale(values: xr.DataArray) -> float:
    return float(np.abs(values).max()) or 1.0


def _end(theory: xr.Dataset) -> str:
    return str(theory["outcome"].values)
