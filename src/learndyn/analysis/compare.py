"""`compare`: how well a prediction and a simulation agree, in numbers."""

from typing import Any

import numpy as np
import xarray as xr

from learndyn.analysis.verdict import (
    Band,
    Tested,
    band_of,
    judge,
    largest,
    scale_of,
)
from learndyn.records import require_match, require_record
from learndyn.runtime.checks import instance, one_of
from learndyn.runtime.tables import Shown

# What `compare` computes of a variable, and which of these have the units of the variable.
KINDS = {
    "deviation": "mean over runs less theory",
    "z": "mean over runs less theory, in standard errors",
    "spread": "standard deviation of one run",
    "scaled": "mean over runs less theory, × √N / largest",
}
HAVE_UNITS = ("deviation", "spread")


class Comparison(xr.Dataset):
    """The result of `compare`: a dataset that shows its verdict first in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return self._shown().html() + super()._repr_html_()

    def __rich__(self) -> Any:
        return self._shown().text()

    def _shown(self) -> Shown:
        names = [str(name).removesuffix("_z") for name in self if str(name).endswith("_z")]
        size = lambda name, kind: f"{largest(self[f'{name}_{kind}']):.3g}"
        rows = [(name, size(name, "z"), size(name, "deviation")) for name in names]
        verdict, reason = (str(self.attrs.get(name, "")) for name in ("verdict", "reason"))
        return Shown(f"{verdict}: {reason}", rows, ("", "largest |z|", "largest deviation"))


def compare(
    theory: xr.Dataset,
    simulation: xr.Dataset,
    *,
    doubled: xr.Dataset | None = None,
    same_system: bool = True,
) -> Comparison:
    """Compares the mean of a simulation with a prediction, at their common times.

    For every common variable `v`, with mean m over the runs that did not diverge::

        v_deviation = m − theory
        v_z         = deviation in standard errors of m: from the runs, or `v_std` / √runs
                      if the theory predicts its own spread `v_std` (`fluctuations=True`)
        v_scaled    = deviation · √N / max |theory|: of order one if finite size explains it

    The mean of a finite network differs from a theory of infinite networks by a bias of order 1/N,
    which many runs can detect. `doubled`, runs at twice the size from the same state, removes it:
    m = 2 m(2N) − m(N) has a bias of order 1/N², and the errors add.

    The spread of one run is the predicted one, unless linear noise cannot explain the runs: if it
    exceeds a tenth of the record's largest value (runs that leave a plateau at random times), or if
    two or more runs spread more than predicted, by a chi-square test at 1 % over all entries
    together. Then, as without a prediction, it is measured from the runs, and the reason says so.
    No spread is taken to be smaller than the rounding error of the largest variable.

    The verdict is

    - "deviates" if some |z| exceeds its bound at 1 % over all entries together (normal for a
      predicted spread, Student's t for a measured one), and some deviation exceeds the spread
      of one run by more than chance: the mean of networks of size N has a bias of order 1/N,
      less than their spread of order N^(-1/2). If linear noise cannot hold, 3 spreads are allowed;
    - "agrees within finite size" if some |z| exceeds its bound, but no deviation exceeds the spread
      of one run, and the noise can be linear; "undecided" between these two;
    - "undecided" if no |z| exceeds its bound, but the test could not have seen a deviation of
      10 % of the curve: at some time, half of a variable's entries allow more than 10 % of its
      largest value. `detectable` is that share, of the least well known variable;
    - "agrees" otherwise.

    With a predicted spread one run is enough; without one it is "undecided". So are records that
    have no number in common, or agree at time 0 only. Runs that are all equal, of rules
    that do not sample, are judged by size: "agrees" means a deviation of at most 1e-6 of the
    theory's largest value (1e-3 in float32).

    Args:
        theory: a record of `solve`.
        simulation: a record of `simulate`.
        doubled: a record of `simulate` for a system that differs only by twice the size.
        same_system: whether the records must be of the same system. False allows comparing a theory
            with networks of another size or rule, for example; the unit of time must still be the
            same, and a predicted spread is that of the theory's own size.

    Returns:
        A dataset of these variables; `verdict`, `reason`, `largest_z`, `allowed_z`, `detectable`,
        `largest_scaled` and `runs` are attributes. The reason says which test was made, with how
        many runs, and what it could have seen.

    Raises:
        ValueError: for records of two systems or two units of time, or of the wrong kind
            (runs first, no runs second), and where they share no time or no variable, or one
            of different sizes.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> system = ld.System(line, network, ld.GradientDescent(0.1))
        >>> times = [0, 10, 50]
        >>> theory = ld.solve(system, times)
        >>> ld.compare(theory, ld.simulate(system, times, dtype="float64")).verdict
        'agrees'
    """
    one_of("same_system", same_system, (False, True))
    _require_records(theory, simulation)
    require_match(theory, simulation, same_system=same_system)
    theory, simulation = _matched(theory, simulation)
    alive = simulation.sel(run=simulation["outcome"] == "finished")
    names = _shared(theory, simulation)
    second = None if doubled is None else _doubled(theory, simulation, doubled)
    rounding = _rounding(theory, alive, names)
    band = band_of(theory, alive, names, rounding)
    parts = {name: _deviations(name, theory, alive, second, band, rounding) for name in names}
    result = Comparison(
        {
            f"{name}_{kind}": v.assign_attrs(_label(theory[name], kind))
            for name, kinds in parts.items()
            for kind, v in kinds.items()
        }
    )
    result.attrs = _attributes(result, names, theory, simulation, band, rounding)
    return result


def _label(variable: xr.DataArray, kind: str) -> dict[str, str]:
    """The attributes of a result of `compare`."""
    label, unit = (
        variable.attrs.get(key, other) for key, other in (("long_name", ""), ("units", "1"))
    )
    return {"long_name": f"{label}: {KINDS[kind]}", "units": unit if kind in HAVE_UNITS else "1"}


def is_approximate(theory: xr.Dataset) -> bool:
    """Whether the theory of a record covers its start only approximately."""
    return theory.attrs.get("coverage") == "approximate"


def mean_and_error(values: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean over runs and its standard error, without diverged entries; NaN error for one run.

    Args:
        values: a variable of a record of `simulate`, with the dimension `run`.

    Returns:
        The mean and its standard error, without that dimension.

    Raises:
        ValueError: for values without the dimension `run`.

    Example:
        >>> import xarray as xr
        >>> import learndyn as ld
        >>> runs = xr.DataArray([[1.0], [3.0]], dims=("run", "time"))
        >>> mean, error = ld.analysis.mean_and_error(runs)
        >>> mean.values.tolist(), error.values.tolist()
        ([2.0], [1.0])
    """
    instance("values", values, xr.DataArray, "a variable of a record of `simulate`")
    if "run" not in values.dims:
        raise ValueError(f"values: got dimensions {values.dims}; allowed is one with 'run'")
    count = values.notnull().sum("run")
    spread = values.std("run", ddof=1) if values.sizes["run"] > 1 else values.mean("run") * np.nan
    return values.mean("run"), spread / np.sqrt(count)


def _require_records(theory: xr.Dataset, simulation: xr.Dataset) -> None:
    require_record("theory", theory)
    require_record("simulation", simulation)
    if "run" in theory.dims:
        raise ValueError("theory: got a record of runs; allowed is a record of `solve`")
    if "run" not in simulation.dims:
        raise ValueError("simulation: got no dimension 'run'; allowed is a record of `simulate`")
    for name, record in {"theory": theory, "simulation": simulation}.items():
        missing = ["variable 'outcome'"] * ("outcome" not in record)
        missing += ["attribute 'size'"] * ("size" not in record.attrs)
        if missing:
            came = f"{name}: got no {' and no '.join(missing)}"
            raise ValueError(f"{came}; allowed are records of `solve` and `simulate`")


def _doubled(theory: xr.Dataset, simulation: xr.Dataset, doubled: xr.Dataset) -> xr.Dataset:
    """The runs at twice the size that finished, at the theory's times."""
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
        raise ValueError(
            "simulation: got no time of the theory; allowed are records with common times"
        )
    mine, theirs = (list(column) for column in zip(*pairs, strict=True))
    theory = theory.isel(time=mine)
    return theory, simulation.isel(time=theirs).assign_coords(time=theory["time"])


def _shared(theory: xr.Dataset, simulation: xr.Dataset) -> list[str]:
    """The variables that depend on time in both."""
    names = [str(n) for n, v in theory.data_vars.items() if "time" in v.dims and n in simulation]
    if not names:
        raise ValueError(
            "simulation: got no variable of the theory; allowed are records with one in common"
        )
    for name in names:
        mine, theirs = dict(theory[name].sizes), dict(simulation[name].isel(run=0).sizes)
        if mine != theirs:
            came = f"simulation: got {name} of sizes {theirs}"
            raise ValueError(f"{came}; allowed are those of the theory, {mine}")
    return names


def _rounding(theory: xr.Dataset, runs: xr.Dataset, names: list[str]) -> float:
    """The rounding error of values that are the same in all runs, such as those of the start.

    It is that of the largest variable, since a small overlap is also a sum of large terms.
    """
    eps = np.finfo(runs.attrs.get("dtype", "float64")).eps
    return float(8 * eps * max(scale_of(theory[name]) for name in names))


def _deviations(
    name: str,
    theory: xr.Dataset,
    runs: xr.Dataset,
    second: xr.Dataset | None,
    band: Band,
    rounding: float,
) -> dict[str, xr.DataArray]:
    mean, error = _estimate(name, theory, runs, band, 1.0)
    if second is not None:
        # At twice the size the spread is smaller by √2.
        twice, its_error = _estimate(name, theory, second, band, 2**-0.5)
        mean, error = 2 * twice - mean, np.hypot(2 * its_error, error)
    deviation = mean - theory[name]
    return {
        "deviation": deviation,
        "z": deviation / np.hypot(error, rounding),
        "spread": error * np.sqrt(band.runs) + rounding,
        "scaled": deviation * np.sqrt(runs.attrs["size"]) / scale_of(theory[name]),
    }


def _estimate(name: str, theory: xr.Dataset, runs: xr.Dataset, band: Band, shrink: float):
    """Mean over runs and its standard error; a predicted error is `shrink` times that at size N."""
    mean, error = mean_and_error(runs[name])
    if band.predicted:
        error = shrink * theory[f"{name}_std"] / np.sqrt(runs.sizes["run"])
    return mean, error


def _attributes(result, names, theory, simulation, band: Band, rounding: float) -> dict:
    empty = [n for n in names if result[f"{n}_deviation"].isnull().all()]
    tested = _tested(result, [n for n in names if n not in empty], theory, band, rounding)
    verdict, reason = judge(result, tested, theory, simulation, band)
    if verdict.startswith("agrees") and not result["time"].values.any():
        verdict, reason = "undecided", "time 0 is the only common time: nothing was learned yet"
    reason += f"; no number in both: {', '.join(empty)}" if empty and tested.names else ""
    reason += "; the theory is approximate here" * is_approximate(theory)
    worst = lambda kind: largest([largest(result[f"{n}_{kind}"]) for n in tested.names])
    return {
        "verdict": verdict,
        "reason": reason,
        "largest_z": worst("z"),
        "allowed_z": tested.allowed,
        "detectable": largest(list(tested.detectable.values())),
        "largest_scaled": worst("scaled"),
        "runs": band.runs,
        "size": simulation.attrs["size"],
    }


def _tested(result, names: list[str], theory, band: Band, rounding: float) -> Tested:
    entries = int(sum(result[f"{n}_z"].notnull().sum() for n in names))
    allowed = band.allowed(entries)

    def detectable(name: str) -> float:
        spread = result[f"{name}_spread"]
        spread = spread.where(spread > 2 * rounding)  # without entries in which runs cannot differ
        # At the time of the widest spread: a converged curve could not reveal a wrong course.
        typical = spread.median([d for d in spread.dims if d != "time"])
        widest = np.nan_to_num(largest(typical))
        return float(allowed * widest / np.sqrt(max(band.runs, 1)) / scale_of(theory[name]))

    return Tested(names, entries, allowed, {name: detectable(name) for name in names})
