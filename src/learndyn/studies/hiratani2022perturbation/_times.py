"""Panels on the time to a target over a ladder of learning rates (Figs. 4E, 5B, 5C, S3B)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from learndyn.plotting import legend
from learndyn.studies.claims import Claim
from learndyn.studies.hiratani2022perturbation._curves import Rule, first_step, steps_of, trained
from learndyn.studies.hiratani2022perturbation._intervals import (
    exponents,
    surely_above,
    surely_below,
)
from learndyn.studies.hiratani2022perturbation._tasks import Task

FALLS = "the largest rate at which it reaches the target falls with the width: exponent"


def times(
    task: Task,
    networks: Mapping[int, Any],
    rule: Rule,
    rates: Sequence[float],
    *,
    target: float,
    of: str,
    last: int,
    points: int,
    seeds: int,
    key: int,
    done: Callable[[], None] = lambda: None,
) -> xr.DataArray:
    """Steps until every seed first reaches the target, for every network and rate.

    Args:
        task: what is learnt.
        networks: number → network.
        rule: of a rate.
        rates: the ladder.
        target: of the test set.
        of: "test" for an error that falls to it, "accuracy" for one that rises.
        last: step at which a run ends.
        points: at which is measured.
        seeds: how many.
        key: of the first.
        done: called after each case.

    Returns:
        (case, rate, seed), missing where the target is not reached.
    """
    grid, found = steps_of(last, points), []
    for network in networks.values():
        for rate in rates:
            curve = trained(task, network, rule(rate), grid, key=key, seeds=seeds)
            found.append(first_step(curve[of], target, above=of == "accuracy"))
            done()
    shape = len(networks), len(rates), seeds
    values = np.reshape([one.values for one in found], shape)
    coords = {"case": list(networks), "rate": list(rates)}
    return xr.DataArray(values, dims=("case", "rate", "seed"), coords=coords)


def named(ladders: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """Several ladders in one data set: `<name>_times`, with a dimension `<name>_rate`."""
    return xr.Dataset({f"{n}_times": t.rename(rate=f"{n}_rate") for n, t in ladders.items()})


def least(times: xr.DataArray) -> xr.DataArray:
    """The shortest time over rates, by case and seed."""
    return times.min(times_rate(times))


def times_rate(times: xr.DataArray) -> str:
    """The name of the dimension of rates."""
    return next(str(d) for d in times.dims if "rate" in str(d))


def best_rate(times: xr.DataArray) -> xr.DataArray:
    """The rate of the shortest time, by case and seed."""
    dim = times_rate(times)
    return times[dim].isel({dim: times.fillna(np.inf).argmin(dim)}).drop_vars(dim, errors="ignore")


def stable_rate(times: xr.DataArray) -> xr.DataArray:
    """The largest rate at which the target is reached, by case and seed."""
    dim = times_rate(times)
    return times[dim].where(times.notnull()).max(dim)


def draw_least(axis: Axes, rows: Mapping[str, xr.DataArray], xlabel: str, title: str) -> None:
    """Shortest times against the case, with the standard error over seeds."""
    for number, (name, times) in enumerate(rows.items()):
        best = least(times)
        error = best.std("seed", ddof=1) / np.sqrt(best.sizes["seed"])
        axis.errorbar(best["case"], best.mean("seed"), error, marker="o", ms=4, color=f"C{number}",
                      label=name)  # fmt: skip
    axis.set(yscale="log", xlabel=xlabel, ylabel="steps to the target", title=title)
    legend(axis, fontsize=7)


def draw_rates(axis: Axes, times: xr.DataArray, label: str, title: str) -> None:
    """Times against the rate, a line for each case."""
    dim = times_rate(times)
    for number, case in enumerate(times["case"].values):
        mean = times.sel(case=case).mean("seed", skipna=False)
        axis.plot(times[dim], mean, "o-", ms=3.5, color=f"C{number}", label=f"{label} {case}")
    axis.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="steps to the target",
             title=title)  # fmt: skip
    legend(axis, fontsize=7)


def check_widths(perturbed: xr.DataArray, sgd: xr.DataArray, source: str) -> list[Claim]:
    """How the shortest time and the best rate depend on the width."""
    widths = perturbed["case"].values
    rows = lambda values: values.transpose("seed", "case").values
    slopes = exponents(widths, rows(least(perturbed)))
    rates = exponents(widths, rows(stable_rate(perturbed)))
    ratio = xr.ufuncs.log(least(perturbed) / least(sgd)).transpose("seed", "case")
    weak = (
        "shortest training time under node perturbation grows less than in proportion to the "
        "number of nodes: exponent in the hidden width"
    )
    slower = "node perturbation is slower than SGD at every width: least logarithm of the ratio of "
    return [
        surely_below(weak, source, slopes, 1.0),
        surely_above(slower + "shortest times", source, ratio.min("case").values, 0.0),
        surely_below(FALLS, source, rates, 0.0),
    ]
