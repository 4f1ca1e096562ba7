"""Training times over learning rates at many hidden widths (Fig. S2).

`params` are those of the study: `seeds`, `target` and `key`.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.hiratani2022perturbation import _model, _shortest
from learndyn.studies.hiratani2022perturbation._shortest import Fastest

LINES = tuple(10**n for n in range(2, 9))  # hidden widths of the theories
MULTIPLES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1)  # of η*, for the recursions
SGD_MULTIPLES = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05)  # of Eq. 96's rate, for the recursion
SGD_TRIED, SGD_SEEDS = (0.8, 0.95, 1.1), 20  # for the simulations
ORDERS = ("full", "finite")
TRIED = (0.85, 0.95, 1.05, 1.15)  # of the fastest rate of order "finite", for the simulations
DIRECT = 1000, 0.95  # hidden units, and rate as above, at which every weight is moved as well
FOLLOWED = 2.5  # closed-form times for which the recursions are followed
LATER, SGD_LATER = 1.3, 1.6  # simulated time over the shortest of order "finite", and of Eq. 96
POINTS, FINE = 201, 1001  # recorded steps of a run, and of a recursion


def theories(L_h: int, params: Any) -> xr.Dataset:
    """Closed forms of both rules, and the recursions' times at every rate."""
    options = {"target": params.target, "L_h": L_h}
    ours, sgd = (_model.predicted(rule(1.0), **options) for rule in (ld.NodePerturbation, ld.SGD))
    end, critical = FOLLOWED * ours["minimal_time"], ours["critical_learning_rate"]
    rules = [ld.NodePerturbation(float(multiple * critical)) for multiple in MULTIPLES]
    solved = lambda rule, order, end: _shortest.recursion_time(rule, order, end, FINE, **options)
    times = [[solved(rule, order, end) for rule in rules] for order in ORDERS]
    others = [ld.SGD(float(m * sgd["optimal_learning_rate"])) for m in SGD_MULTIPLES]
    late = SGD_LATER * sgd["minimal_time"]
    by_sgd = [solved(rule, "finite", late) for rule in others]
    table = {
        "recursion": (("order", "multiple"), times),
        "sgd_recursion": ("sgd_multiple", by_sgd),
        "critical_rate": critical,
        "closed_rate": ours["optimal_learning_rate"],
        "closed_time": ours["minimal_time"],
        "sgd_rate": sgd["optimal_learning_rate"],
        "sgd_time": sgd["minimal_time"],
    }
    grids = {"multiple": list(MULTIPLES), "sgd_multiple": list(SGD_MULTIPLES)}
    return xr.Dataset(table, {"order": list(ORDERS), **grids})


def runs(L_h: int, params: Any, theory: xr.Dataset) -> xr.Dataset:
    """Steps of node perturbation and of SGD to the target, at every rate."""
    taken = [steps(L_h, multiple, params, theory, "reduced") for multiple in TRIED]
    rates = np.multiply(TRIED, recursion(theory, L_h, "finite").rate)
    here, more = theory.sel(line=L_h), dataclasses.replace(params, seeds=SGD_SEEDS)
    rules = [ld.SGD(float(multiple * here["sgd_rate"])) for multiple in SGD_TRIED]
    by_sgd = [_reached(rule, L_h, SGD_LATER * here["sgd_time"], more) for rule in rules]
    table: dict = {"steps": (("tried", "seed"), taken), "rate": ("tried", rates)}
    table["sgd_steps"] = (("sgd_tried", "sgd_seed"), by_sgd)
    return xr.Dataset(table, {"tried": list(TRIED), "sgd_tried": list(SGD_TRIED)})


def steps(L_h: int, multiple: float, params: Any, theory: xr.Dataset, method: str) -> np.ndarray:
    """Steps of node perturbation to the target, at a multiple of the recursion's fastest rate."""
    best = recursion(theory, L_h, "finite")
    rule = ld.NodePerturbation(multiple * best.rate)
    return _reached(rule, L_h, LATER * best.time, params, method)


def _reached(rule, L_h: int, end, params: Any, method: str = "reduced") -> np.ndarray:
    """Steps to the target, by seed; NaN where it is not reached."""
    starts = _model.drawn_starts(params.key, params.seeds, L_h=L_h)
    options = {"starts": starts, "key": params.key, "method": method, "dtype": "float64"}
    return _shortest.network_times(rule, float(end), POINTS, params.target, {"L_h": L_h}, **options)


def recursion(data: xr.Dataset, L_h: int, order: str) -> Fastest:
    """The fastest training of node perturbation by a recursion."""
    here = data.sel(line=L_h, order=order)
    rates = (here["critical_rate"] * here["multiple"]).values
    return _shortest.fastest(rates, here["recursion"].values[:, None])


def sgd_recursion(data: xr.Dataset, L_h: int) -> Fastest:
    """The fastest training of SGD by its recursion of order "finite"."""
    here = data.sel(line=L_h)
    rates = (here["sgd_rate"] * here["sgd_multiple"]).values
    return _shortest.fastest(rates, here["sgd_recursion"].values[:, None])


def of_width(data: xr.Dataset, L_h: int) -> tuple[Fastest, Fastest]:
    """The fastest training of node perturbation, and the bounds of chance."""
    here = data.sel(width=L_h)
    return _shortest.fastest_with_bounds(here["rate"].values, here["steps"].values)


def of_sgd(data: xr.Dataset, L_h: int) -> tuple[Fastest, Fastest]:
    """The same of SGD."""
    rates = (data["sgd_rate"].sel(line=L_h) * data["sgd_tried"]).values
    return _shortest.fastest_with_bounds(rates, data["sgd_steps"].sel(width=L_h).values)
