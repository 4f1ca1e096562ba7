"""Panels on the time to a target over a ladder of learning rates (Figs. 4E, 5B, 5C, S3B)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from learndyn.plotting import legend
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation._curves import (
    Rule,
    first_step,
    gradient,
    perturbed,
    steps_of,
    trained,
)
from learndyn.studies.hiratani2022perturbation._intervals import surely_above, surely_below
from learndyn.studies.hiratani2022perturbation._tasks import Task
from learndyn.studies.statistics import exponents

Networks = Mapping[int, Any]
Ladder = tuple[Sequence[float], int]
Done = Callable[[], None]
CLAIMS = {
    "weak": claim("shortest training time under node perturbation grows less than in "
                       "proportion to the number of nodes: exponent in the hidden width",
                       "{source}"),
    "slower": claim("node perturbation is slower than SGD at every width: least logarithm of "
                         "the ratio of shortest times", "{source}"),
    "falls": claim("the largest rate at which it reaches the target falls with the width: "
                        "exponent", "{source}"),
}  # fmt: skip


def times(
    params: Any, task: Task, networks: Networks, rule: Rule, ladder: Ladder, of: str, done: Done
) -> xr.DataArray:
    """Steps until every seed first reaches the target, (case, rate, seed); NaN where it does not.

    Of the study's `params`, `target`, `points`, `seeds` and `key` are read. `networks` are by case,
    a `ladder` is rates and the step at which runs end, and `of` is "test" for an error that falls
    to the target, or "accuracy", which rises to it.
    """
    (rates, last), rows = ladder, []
    for network in networks.values():
        for rate in rates:
            options = {"key": params.key, "seeds": params.seeds}
            curve = trained(task, network, rule(rate), steps_of(last, params.points), **options)
            rows.append(first_step(curve[of], params.target, above=of == "accuracy"))
            done()
    values = np.reshape([row.values for row in rows], (len(networks), len(rates), params.seeds))
    coords = {"case": list(networks), "rate": list(rates)}
    return xr.DataArray(values, dims=("case", "rate", "seed"), coords=coords)


def ladders(
    params: Any, task: Task, networks: Networks, ladder: Ladder, of: str, done: Done
) -> xr.Dataset:
    """The times under both rules; SGD has `params.sgd_ladder` and `params.sgd_ladder_steps`."""
    rules = {
        "np": (perturbed(params.batch), ladder),
        "sgd": (gradient(params.batch), (params.sgd_ladder, params.sgd_ladder_steps)),
    }
    return named(
        {
            name: times(params, task, networks, rule, rungs, of, done)
            for name, (rule, rungs) in rules.items()
        }
    )


def named(ladders: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """Several ladders in one data set: `<name>_times`, with a dimension `<name>_rate`."""
    return xr.Dataset({f"{n}_times": t.rename(rate=f"{n}_rate") for n, t in ladders.items()})


def least(times: xr.DataArray) -> xr.DataArray:
    """The shortest time over rates, per case and seed."""
    return times.min(times_rate(times))


def times_rate(times: xr.DataArray) -> str:
    """The name of the dimension of rates."""
    return next(str(d) for d in times.dims if "rate" in str(d))


def best_rate(times: xr.DataArray) -> xr.DataArray:
    """The rate of the shortest time, per case and seed."""
    dim = times_rate(times)
    return times[dim].isel({dim: times.fillna(np.inf).argmin(dim)}).drop_vars(dim, errors="ignore")


def stable_rate(times: xr.DataArray) -> xr.DataArray:
    """The largest rate at which the target is reached, per case and seed."""
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
    """How the shortest time and the largest useful rate depend on the width."""
    ratio = xr.ufuncs.log(least(perturbed) / least(sgd)).min("case")
    growth, rates = (exponents(of(perturbed), "case") for of in (least, stable_rate))
    return [
        surely_below(CLAIMS["weak"], growth, 1.0, source=source),
        surely_above(CLAIMS["slower"], ratio, 0.0, source=source),
        surely_below(CLAIMS["falls"], rates, 0.0, source=source),
    ]
