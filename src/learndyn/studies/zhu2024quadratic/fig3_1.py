"""Fig. 3.1: linear models converge or diverge; networks and quadratic models catapult between.

The thesis draws a sketch. Here a two-layer relu network, its linear and quadratic twins, and a
general quadratic model (App. B.14) learn one example with target 1 and loss ½ r², at rates in units
of η_crit = 2/λ₀ of each. Catapult rates stay below 1.9 η_crit, where at these widths even networks
with a target converge; the divergent one is 2.2 η_crit. The quick preset has narrower networks and
fewer seeds.

Notes: docs/results/zhu2024quadratic/fig3_1/notes.md.
"""

import dataclasses
import itertools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024quadratic import _model
from learndyn.theory.quadratic_model.catapult import Regime

TITLE = "Linear models diverge above the critical rate, networks and quadratic models catapult"
DIFFERS = "the figure states no sizes; here one example, width 5000, 20 seeds"
MODELS = "f_lin", "f", "f_quad", "general"
EPSILON = float(np.finfo(float).eps)
ABOVE = "above 2 η_crit"
NAMES = {
    "f_lin": "linear models (a)",
    "f": "finitely wide networks (b)",
    "f_quad": "quadratic models of networks (b)",
    "general": "general quadratic models (b)",
}
CLAIMS = {
    "regime": claim("{model}, {where}: fraction of runs that are {regime}", "Fig. 3.1",
                    within=Tolerance(0.0, "the sketch has no exceptions", PLANNED)),
    "linear": claim("{model}, {where}: fraction of runs that are {regime}", "Fig. 3.1",
                    kind="theorem", within=Tolerance(0.0, "Eq. 3.5")),
    "factor": claim("loss of a linear model has the factor of Eq. 3.5 in every step: largest "
                    "relative error", "Fig. 3.1", kind="theorem",
                    because="100 ε of the first residual over the least, 8 steps"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Width, inputs, γ of the general model; rates over η_crit, steps, seeds."""

    m: int = 1000
    d: int = 10
    gamma: float = 0.01
    rates: tuple[float, ...] = (0.4, 0.9, 1.1, 1.5, 1.8, 2.2)
    steps: int = 200
    seeds: int = 3
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(m=5000, seeds=20)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Losses at every step, the regimes they show, and absolute critical rates."""
    seeds = range(params.key, params.key + params.seeds)
    return xr.concat([_seed(params, seed) for seed in cases(seeds, report)], "seed")


def _seed(params: Params, seed: int) -> xr.Dataset:
    times = np.arange(params.steps + 1.0)
    loss = np.empty((len(MODELS), len(params.rates), len(times)))
    critical = np.empty(len(MODELS))
    model = _model.two_layers(params.d, params.m, seed)
    for i, name in enumerate(MODELS):
        if name == "general":
            data, network, weights = _model.general_model(10 * params.d, params.gamma, seed)
        else:
            data = _model.half_sum(_model.one_example(seed, params.d), [1.0])
            network, weights = _model.twin(model, name), model.weights
        critical[i] = 2 / _model.top_kernel(ld.Model(network, weights), data.x)
        for j, rate in enumerate(params.rates):
            record = _model.train(data, network, weights, rate * critical[i], times)
            loss[i, j] = record["error"].values
    table = {
        "loss": (("model", "rate", "time"), loss),
        "regime": (("model", "rate"), np.apply_along_axis(_model.regime_of, -1, loss)),
        "critical": ("model", critical),
    }
    coordinates = {"model": list(MODELS), "rate": list(params.rates), "time": times}
    return xr.Dataset(table, coordinates)


def expected(name: str, rate: float) -> int:
    """The regime that Fig. 3.1 draws; η_max is 2 η_crit (Theorem B.7.1)."""
    if rate < 1:
        return int(Regime.MONOTONE)
    return int(Regime.DIVERGENT if name == "f_lin" or rate > 2 else Regime.CATAPULT)


def draw(data: xr.Dataset) -> Figure:
    """Losses of the first seed, one panel per model."""
    figure, axes = panels(len(MODELS), size=(4.4, 3.2))
    first = data.isel(seed=0)
    for axis, name in zip(axes, MODELS, strict=True):
        one = first.sel(model=name)
        for number, rate in enumerate(data["rate"].values):
            label = f"{rate:g} η_crit ({rate * float(one['critical']):.2f})"
            axis.plot(one["time"], one["loss"].sel(rate=rate), color=f"C{number}", label=label)
        axis.set(xlabel="steps", ylabel="loss ½ r²", yscale="log", ylim=(1e-8, 1e6), xlim=(0, 80))
        axis.set_title(f"{name}: {NAMES[name]}", fontsize=9)
        legend(axis, fontsize=6.5, loc="upper right")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Regimes on each side of η_crit and η_max; the linear model's factor a step."""
    sides = {"below η_crit": (0.0, 1.0), "above η_crit": (1.0, 2.0), ABOVE: (2.0, 9.0)}
    rows = []
    for name, (where, (low, high)) in itertools.product(MODELS, sides.items()):
        rates = [rate for rate in data["rate"].values if low < rate < high]
        wanted = xr.DataArray([expected(name, rate) for rate in rates], dims="rate")
        fraction = float((data["regime"].sel(model=name, rate=rates) == wanted).mean())
        regime = Regime(int(wanted[0])).name.lower()
        row = CLAIMS["linear" if name == "f_lin" else "regime"]
        sentence = row.format(model=NAMES[name], where=where, regime=regime)
        if (name, where) == ("f", ABOVE):
            rows.append(sentence.open("the thesis gives no η_max of networks", fraction, 1.0))
        else:
            rows.append(sentence.equals(fraction, 1.0))
    # The loss of a linear model takes the factor (1 − 2 η/η_crit)² in each step.
    loss = data["loss"].sel(model="f_lin").isel(time=slice(0, 9))
    factor = loss.isel(time=slice(1, None)).values / loss.isel(time=slice(0, -1)).values
    off = np.abs(factor / (1 - 2 * data["rate"].values[:, None]) ** 2 - 1)
    least = np.sqrt(loss.isel(time=0).values / loss.min("time").values).max()
    return [*rows, CLAIMS["factor"].at_most(off.max(), 100 * EPSILON * least)]
