"""Panels at a small rate: node perturbation beside SGD, and the dimension of hidden activity."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation import _curves
from learndyn.studies.hiratani2022perturbation._intervals import surely_below
from learndyn.studies.hiratani2022perturbation._tasks import Task

RULES = {"np": "node perturbation", "sgd": "SGD"}
CLAIMS = {
    "near": claim("at a small rate node perturbation learns as SGD does: largest distance of "
                       "the logarithms of the errors of one seed", "{source}"),
    "fewer": claim("hidden activity has fewer dimensions under node perturbation than under "
                        "SGD at the same small rate: logarithm of the ratio of participation "
                        "ratios at the end", "{source}", rate=0.05),
}  # fmt: skip
NEAR = 0.25  # "as SGD does": a fortieth of the curves' fall on a logarithmic axis in the paper
MOST = 1000  # training inputs over which the covariance is taken


def small_rate(params: Any, task: Task, network: Any, done: _curves.Counted) -> xr.Dataset:
    """Curves of both rules at one rate: `small_<rule>_test`, `small_<rule>_dimension`.

    Of the study's `params`, `small`, `small_steps`, `batch`, `points`, `seeds`, `key` are read.
    """
    x = task.problem.x[:MOST]
    x = x / np.float32(255) if x.dtype == np.uint8 else x
    active = {"node": "layer1", "activation": "relu"}
    probes = {"dimension": lambda model: ld.probes.participation_ratio(model, x, **active)}
    grid, table = _curves.steps_of(params.small_steps, params.points), {}
    rules = {"np": _curves.perturbed(params.batch), "sgd": _curves.gradient(params.batch)}
    for name, rule in rules.items():
        options = {"key": params.key, "seeds": params.seeds, "probes": probes}
        curves = _curves.trained(task, network, rule(params.small), grid, **options)
        curves = curves.rename(step="small_step")
        table |= {f"small_{name}_{n}": curves[n] for n in ("test", "dimension")}
        done()
    return xr.Dataset(table)


def draw_small(axis: Axes, data: xr.Dataset, what: str, label: str, title: str) -> None:
    """The curves of both rules."""
    for number, (name, rule) in enumerate(RULES.items()):
        _curves.draw_curves(axis, data[f"small_{name}_{what}"], f"C{number}", rule)
    ylabel = f"{label}, η = {data.attrs['small']:g}"
    axis.set(xscale="log", xlabel="step", ylabel=ylabel, title=title)
    legend(axis, fontsize=7)


def check_small(data: xr.Dataset, source: str) -> list[Claim]:
    """Node perturbation's curve lies on SGD's; its activity has fewer dimensions."""
    test, dimension = (
        xr.ufuncs.log(data[f"small_np_{what}"] / data[f"small_sgd_{what}"])
        for what in ("test", "dimension")
    )
    apart, last = abs(test).max("small_step"), dimension.isel(small_step=-1)
    return [
        surely_below(CLAIMS["near"], apart, NEAR, source=source),
        surely_below(CLAIMS["fewer"], last, 0.0, source=source),
    ]
