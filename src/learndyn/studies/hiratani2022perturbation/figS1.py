"""Fig. S1: updates until the error of linear regression is a ten-thousandth, against the rate.

Eq. 9 is that of the main text, Eq. 104 with its sign corrected. It holds for large layers; at
100-10 fourth moments make K of Eq. 102 larger by 22 % for node perturbation. All runs of a preset
begin from one student and one teacher. The quick preset trains to a hundredth of the error.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.analysis import escape_time, fit_line
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation._model import L_X, L_Y, SEEDS, TARGET
from learndyn.studies.hiratani2022perturbation._regression import RULES, error_curves
from learndyn.studies.hiratani2022perturbation._shortest import fastest, jackknife_tolerance
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import jackknife, student_bound, student_tolerance
from learndyn.theory.perturbation import errata, regression, sgd

TITLE = "Linear regression: number of updates against the learning rate"
DIFFERS = (
    "the supplement states neither rates nor number of seeds; here 0.3 to 2.1 times the optimal "
    "rate and 20 seeds"
)
# Rates in units of 1/K, K exact: the error falls fastest at 1, and grows from 2 on.
MULTIPLES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.1)
LONGER = 1.6  # than the predicted time: four standard deviations of a run at the largest rate
GROWTH = 2.0  # minimal times for which the error is followed where it never gets there
EDGE = 3  # so many of the largest rates show where the error no longer falls
POINTS = 200  # recorded steps
LOOKS = {"sgd": ("C0", "o", "SGD"), "node perturbation": ("C1", "s", "node perturbation")}
FASTER = "runs decay faster than their mean, by half the variance of the logarithm"
FOURTH = f"{FASTER}; Eq. 102 neglects the 2 that fourth moments add to L_x and L_y"
QUANTITIES = {
    "smallest number of updates": "Fig. S1, Eq. 9",
    "rate at which it is smallest": "before Eq. 104",
    "largest stable rate": "after Eq. 104",
}
CLAIMS = {
    "exact": claim("{rule}: {what}, with the exact K", "Eqs. 102, 103", kind="finding",
                   because=FASTER),
    "large": claim("{rule}: {what}, as for large layers", "{source}", because=FOURTH),
    "twice": claim("{rule}: largest stable rate over the best one", "after Eq. 104",
                   because=FASTER),
    "curve": claim("{rule}: updates at every rate below the largest stable one, with the exact K: "
                   "largest distance in standard errors", "Eqs. 102, 103", kind="finding",
                   because="beyond half the variance of the logarithm"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """The paper's sizes, and the number of seeds and the target, which it does not state."""

    target: float = TARGET
    seeds: int = SEEDS
    key: int = 0


PRESETS = {"quick": Params(target=1e-2), "paper": Params(seeds=2 * SEEDS)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Steps to the target and mean rate of decay, for both rules and every rate."""
    jobs = [(rule, multiple) for rule in RULES for multiple in MULTIPLES]
    rates, curves, last = [], [], []
    for rule, multiple in cases(jobs, report):
        K = regression.noise(L_X, L_Y, rule)
        rates += [float(multiple * regression.optimal_learning_rate(K))]
        time = float(regression.training_time(rates[-1], K, params.target))
        shortest = float(regression.minimal_time(K, params.target))
        steps = LONGER * time if np.isfinite(time) else GROWTH * shortest
        record = error_curves(rule, rates[-1], steps, POINTS, params.seeds, params.key)
        fell = -np.log(record["error"][:, -1] / record["error"][:, 0]) / record["time"][-1]
        last += [float(record["time"][-1])]
        curves += [(escape_time(record, fraction=params.target), fell)]
    shape = (len(RULES), len(MULTIPLES))
    values = np.reshape(curves, (*shape, 2, params.seeds))
    dims = ("rule", "multiple", "seed")
    return xr.Dataset(
        {
            "steps": (dims, values[:, :, 0], {"long_name": "updates to the target"}),
            "decay": (dims, values[:, :, 1], {"long_name": "rate of decay of the error"}),
            "last": (dims[:2], np.reshape(last, shape), {"long_name": "steps of the runs"}),
            "rate": (dims[:2], np.reshape(rates, shape), {"long_name": "learning rate η"}),
        },
        {"rule": list(RULES), "multiple": list(MULTIPLES)},
        {"L_x": L_X, "L_y": L_Y, "target": params.target},
    )


def draw(data: xr.Dataset) -> Figure:
    """Means and standard deviations over the two forms of Eq. 103, and Eq. 9."""
    figure, (axis,) = panels(1, size=(6.0, 4.2))
    for rule, (color, marker, label) in LOOKS.items():
        one = data.sel(rule=rule)
        mean, spread = one["steps"].mean("seed", skipna=False), one["steps"].std("seed", ddof=1)
        look = {"color": color, "marker": marker, "linestyle": "none", "ms": 4, "capsize": 2}
        axis.errorbar(one["rate"], mean, spread, **look, label=label)
        for exact, style in ((True, "-"), (False, "--")):
            K = regression.noise(data.L_x, data.L_y, rule, exact=exact)
            rates = np.geomspace(0.25, 1.97, 200) * regression.optimal_learning_rate(K)
            times = regression.training_time(rates, K, data.target)
            axis.plot(rates, times, style, color=color, linewidth=1)
        axis.axhline(_eq9(data, rule), color=color, linestyle=":", linewidth=1.2)
    axis.set(xscale="log", yscale="log", xlabel=data["rate"].long_name)
    axis.set_ylabel(f"updates to {data.target:g} of the error")
    styles = {"Eq. 103, exact K": {"ls": "-"}, "Eq. 103, large layers": {"ls": "--"}}
    legend(axis, styles | {"Eq. 9": {"ls": ":"}}, fontsize=8)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Eq. 9 and its rates for large layers, and exactly; and the whole curve."""
    return [row for rule in LOOKS for row in _of_rule(data.sel(rule=rule), rule)]


def _of_rule(data: xr.Dataset, rule: str) -> list[Claim]:
    name, (values, bounds) = LOOKS[rule][2], _measured(data)
    exact, large = (_expected(data, rule, exact=e) for e in (True, False))
    tolerance = lambda value: jackknife_tolerance(value, data.sizes["seed"])
    rows = []
    for i, (what, source) in enumerate(QUANTITIES.items()):
        ours, theirs = (
            CLAIMS[key].format(rule=name, what=what, source=source) for key in ("exact", "large")
        )
        neglected = bounds[i] + abs(large[i] - exact[i])
        rows += [ours.equals(values[i], exact[i], tolerance(bounds[i]))]
        rows += [theirs.equals(values[i], large[i], tolerance(neglected))]
    twice = CLAIMS["twice"].format(rule=name)
    return [*rows, twice.equals(values[-1], 2.0, tolerance(bounds[-1])), _curve(data, rule)]


def _measured(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Shortest time, its rate, the largest stable rate and their ratio, with bounds."""
    rates, count = data["rate"].values, data.sizes["seed"]
    runs = np.stack([data["steps"].values, data["decay"].values])

    def of(runs: np.ndarray) -> np.ndarray:
        best, edge = fastest(rates, runs[0]), _edge(rates, runs[1].mean(axis=1))
        return np.array([best.time, best.rate, edge, edge / best.rate])

    slower = np.stack([runs[0] * _faster(data).values, runs[1] - _excess(data).values])
    chance = student_bound(count) * jackknife(runs, of)
    return of(runs), chance + abs(of(slower) - of(runs))


def _excess(data: xr.Dataset) -> xr.DataArray:
    """By how much runs decay faster than their mean: half the variance of the logarithm a step."""
    return (data["last"] * data["decay"].var("seed", ddof=1) / 2).expand_dims(seed=1, axis=1)


def _faster(data: xr.Dataset) -> xr.DataArray:
    """By what factor the mean takes longer than runs do."""
    decay = data["decay"].mean("seed")
    return decay / (decay - _excess(data))


def _edge(rates: np.ndarray, decay: np.ndarray) -> float:
    """The rate at which nothing decays: decay/η by a line through the last rates, about it."""
    line = fit_line(rates[-EDGE:], (decay / rates)[-EDGE:])
    return -line.intercept / line.slope


def _expected(data: xr.Dataset, rule: str, *, exact: bool) -> tuple[float, float, float]:
    """Eqs. 103 and 104: shortest time, its rate and the largest stable rate."""
    K = regression.noise(data.L_x, data.L_y, rule, exact=exact)
    time = regression.minimal_time(K, data.target) if exact else _eq9(data, rule)
    rates = regression.optimal_learning_rate(K), regression.critical_learning_rate(K)
    return float(time), float(rates[0]), float(rates[1])


def _eq9(data: xr.Dataset, rule: str) -> float:
    """K log(1/target), the sign of Eq. 104 corrected."""
    if rule == "node perturbation":
        return -float(errata.printed_eq104(data.L_x, data.L_y, data.target))
    return float(sgd.minimal_time(data.L_x, data.target))


def _curve(data: xr.Dataset, rule: str) -> Claim:
    """All rates at which the error falls."""
    K, falls = regression.noise(data.L_x, data.L_y, rule), data.sel(multiple=data["multiple"] < 2)
    closed = xr.apply_ufunc(
        lambda rate: regression.training_time(rate, K, data.target), falls["rate"]
    )
    mean, count = falls["steps"].mean("seed", skipna=False), data.sizes["seed"]
    error = falls["steps"].std("seed", ddof=1) / np.sqrt(count)
    faster = mean * abs(_faster(falls).isel(seed=0) - 1)
    distance = (abs(mean - closed) - faster) / error
    entries = distance.size
    chance = student_tolerance(0.0, count, "seeds", entries=entries)
    sentence = CLAIMS["curve"].format(rule=LOOKS[rule][2])
    return sentence.at_most(distance.max(skipna=False), student_bound(count, entries), chance)
