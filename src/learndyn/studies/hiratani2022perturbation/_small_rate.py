"""Panels at a small rate: node perturbation beside SGD, and the dimension of hidden activity."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies.claims import Claim
from learndyn.studies.hiratani2022perturbation._curves import (
    Counted,
    draw_curves,
    gradient,
    perturbed,
    steps_of,
    trained,
)
from learndyn.studies.hiratani2022perturbation._intervals import surely_below
from learndyn.studies.hiratani2022perturbation._tasks import Task

RULES = {"np": "node perturbation", "sgd": "SGD"}
FEWER = (
    "hidden activity has fewer dimensions under node perturbation than under SGD at the same "
    "small rate: logarithm of the ratio of participation ratios at the end"
)
MOST = 1000  # training inputs over which the covariance is taken


def small_rate(
    task: Task,
    network: Any,
    rate: float,
    *,
    batch: int,
    last: int,
    points: int,
    seeds: int,
    key: int,
    done: Counted,
) -> xr.Dataset:
    """Curves of both rules at one rate: `small_<rule>_test`, `small_<rule>_dimension`."""
    x = task.problem.x[:MOST]
    x = x / np.float32(255) if x.dtype == np.uint8 else x
    active = {"node": "layer1", "activation": "relu"}
    probes = {"dimension": lambda model: ld.probes.participation_ratio(model, x, **active)}
    grid, found = steps_of(last, points), {}
    for name, rule in (("np", perturbed(batch)), ("sgd", gradient(batch))):
        given = {"key": key, "seeds": seeds, "probes": probes}
        curves = trained(task, network, rule(rate), grid, **given).rename(step="small_step")
        found |= {f"small_{name}_{n}": curves[n] for n in ("test", "dimension")}
        done()
    return xr.Dataset(found)


def draw_small(axis: Axes, data: xr.Dataset, what: str, label: str, title: str) -> None:
    """The curves of both rules."""
    for number, (name, said) in enumerate(RULES.items()):
        curve = data[f"small_{name}_{what}"].rename(small_step="step")
        draw_curves(axis, curve, f"C{number}", said)
    axis.set(xscale="log", xlabel="step", ylabel=label, title=title)
    legend(axis, fontsize=7)


def check_small(data: xr.Dataset, source: str) -> list[Claim]:
    """NP's curve lies on SGD's; its activity has fewer dimensions."""
    test, dimension = (
        xr.ufuncs.log(data[f"small_np_{what}"] / data[f"small_sgd_{what}"])
        for what in ("test", "dimension")
    )
    apart = abs(test).max("small_step")
    near = (
        "at a small rate node perturbation learns as SGD does: largest distance of the logarithms"
    )
    return [
        surely_below(f"{near} of the errors of one seed", source, apart.values, 0.25),
        surely_below(FEWER, source, dimension.isel(small_step=-1).values, 0.0),
    ]
