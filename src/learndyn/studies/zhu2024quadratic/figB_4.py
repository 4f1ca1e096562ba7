"""Fig. B.4: general quadratic models, and networks, against γ (or the width) and the rate.

(a) as in App. B.14: d = 100, φ = x/|x|, Σ diagonal with signs, normal weights, loss ½ r² of one
example; its target, which is not given, is 1. The rate is 2.8 where γ varies, γ = 10⁻³ where the
rate does. (b) relu networks on 20 examples of CIFAR-2, in coordinates of the span of their inputs,
which changes nothing (`_span.py`). Rates are in units of η_crit: the thesis's 2.8 is 1.4 η_crit
where η_crit is 2, as in (a). With the mean of r² and entries of variance one, η_crit of 20 examples
is 3.2 to 4.3 (12 draws, width 1000), and 2.8 would be sub-critical; the thesis, which calls its
rates super-critical, states neither scale. A catapult's peak is ∝ 1/c = γ^(−2), or ∝ m. The quick
preset has 20 normal inputs of dimension 50 with labels by a linear teacher, and fewer widths, seeds
and steps.

Notes: docs/results/zhu2024quadratic/figB_4/notes.md.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import exponents
from learndyn.studies.zhu2024quadratic import _model
from learndyn.studies.zhu2024quadratic._span import coordinates
from learndyn.studies.zhu2024quadratic._tasks import Panel, task

TITLE = "Peak and last kernel of general quadratic models and networks, against γ, width and rate"
DIFFERS = (
    "(a): the target is not stated, here 1; (b): widths 300 to 10⁴; the scales of loss and inputs, "
    "which the rate 2.8 depends on, are not stated, here 1.2 to 1.6 η_crit (2.8 is 1.4 in (a))"
)
STEPS = 0.15  # what the place of the peak between steps adds to an exponent, over two decades
NEAR = 0.1  # relative: "no effect" on the last kernel
# Sweep → what it is of, and what is said to raise peaks, in the order of the sweep.
SWEEPS = {
    "gamma": ("general models", "smaller γ"),
    "rate": ("general models", "larger rates"),
    "width": ("networks", "larger widths"),
    "network_rate": ("networks", "larger rates"),
}
NO_EFFECT = {"gamma": "γ", "width": "the width"}  # on the last kernel
CLAIMS = {
    "power": claim("general models: the peak goes with γ to the power", "Fig. B.4", kind="finding",
                   within=Tolerance(STEPS, "peak ∝ 1/c; where steps fall in the peak")),
    "peaks": claim("{models}: {change} lead to larger peaks, least log₁₀ of the ratio of "
                   "neighbours, mean over seeds", "Fig. B.4", because="an order"),
    "decrease": claim("{models}: {change} make the kernel decrease more, largest change of "
                      "λ_∞/λ₀, mean over seeds", "Fig. B.4", because="an order"),
    "no effect": claim("{models}: {other} has no effect on the last kernel, largest logarithm of "
                       "the ratio of neighbours, mean over seeds", "Fig. B.4",
                       because="'no' is read as 10 %"),
}  # fmt: skip
# Neither 20 nor 80 seeds decide it: the logarithm is about as large as what "no" is read as.
WEAK = {CLAIMS["no effect"].statement.format(models="general models", other="γ"): 0.05}


@dataclasses.dataclass(frozen=True)
class Params:
    """(a): γ and rates; (b): widths and rates over η_crit; seeds, steps."""

    d: int = 100
    gammas: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    rates: tuple[float, ...] = (2.4, 2.8, 3.2)
    n: int = 20
    data: str = ""  # of networks; "" for normal inputs
    inputs: int = 50  # of the latter
    widths: tuple[int, ...] = (300, 3000)
    network_rates: tuple[float, ...] = (1.2, 1.4, 1.6)
    seeds: int = 20
    network_seeds: int = 5
    steps: int = 100
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(data="cifar10", widths=(300, 3000, 10000), steps=300),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Losses over steps, peaks and last kernels over first ones, of four sweeps."""
    middle, rate = params.gammas[len(params.gammas) // 2], params.rates[len(params.rates) // 2]
    wide, net = params.widths[-1], params.network_rates[len(params.network_rates) // 2]
    sweeps = {
        "gamma": [(_general, g, rate) for g in params.gammas],
        "rate": [(_general, middle, r) for r in params.rates],
        "width": [(_network, m, net) for m in params.widths],
        "network_rate": [(_network, wide, r) for r in params.network_rates],
    }
    axes = params.gammas, params.rates, params.widths, params.network_rates
    parts = zip(cases(list(sweeps), report), axes, strict=True)
    return xr.merge([_sweep(params, name, sweeps[name], axis) for name, axis in parts])


def _sweep(params: Params, name: str, points: list[Any], axis: tuple) -> xr.Dataset:
    seeds = params.seeds if name in ("gamma", "rate") else params.network_seeds
    rows = [
        xr.concat([make(params, params.key + i, *at) for i in range(seeds)], f"{name}_seed")
        for make, *at in points
    ]
    data = xr.concat(rows, xr.Variable(name, [float(value) for value in axis]))
    return data.rename({n: f"{name}_{n}" for n in data.data_vars})


def _general(params: Params, seed: int, gamma: float, rate: float) -> xr.Dataset:
    return _run(params, *_model.general_model(params.d, gamma, seed), rate)


def _network(params: Params, seed: int, m: int, rate: float) -> xr.Dataset:
    x, y = _examples(params, seed)
    model = _model.two_layers(x.shape[1], m, seed)
    data = _model.mean_square(x, y)
    eta = rate * params.n / _model.top_kernel(model, x)
    return _run(params, data, model.network, model.weights, eta)


def _examples(params: Params, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of a data set in coordinates of their span, or normal inputs; labels ±1."""
    if params.data:
        examples, _ = task(Panel.of(f"{params.data} fc2 relu gd"), params.n, 1, seed)
        return coordinates(examples.x), 2.0 * examples.y - 1
    rng = _model.rng_of(seed)
    x = rng.standard_normal((params.n, params.inputs))
    return x, np.sign(x @ rng.standard_normal(params.inputs))


def _run(
    params: Params, data: ld.Dataset, network: AbstractNetwork, weights: Any, eta: float
) -> xr.Dataset:
    """One training; the kernel is read before and after it."""
    times, size = np.arange(params.steps + 1.0), {"size": lambda model: _norm(model, data.x)}
    record = _model.train(data, network, weights, eta, times, size)
    loss, kernel = record["error"].values, record["size"].values
    table = {
        "loss": ("time", loss),
        "peak": float(np.nanmax(loss)),
        "last_kernel": kernel[-1] / kernel[0],
        "last": loss[-1] / loss[0],
        "eta": eta,
    }
    return xr.Dataset(table, {"time": times})


def _norm(model: ld.Model, x: Any) -> Any:
    """The largest eigenvalue of the kernel, by power iteration."""
    K = _model.gram(model, x)
    start = jnp.ones(len(x), K.dtype)
    step = lambda v, _: (K @ v / jnp.sqrt(jnp.sum((K @ v) ** 2)), None)
    v, _ = jax.lax.scan(step, start, None, length=50)
    return v @ K @ v


def draw(data: xr.Dataset) -> Figure:
    """Losses of the first seed, one panel per sweep."""
    figure, axes = panels(4, size=(4.4, 3.1))
    words = {
        "gamma": "(a) general model: γ = {:g}",
        "rate": "(a) general model: η = {:g}",
        "width": "(b) network: m = {:g}",
        "network_rate": "(b) network: η = {:g} η_crit",
    }
    for axis, (name, word) in zip(axes, words.items(), strict=True):
        title, label = word.split(": ")
        for number, value in enumerate(data[name].values):
            one = data.sel({name: value}).isel({f"{name}_seed": 0})
            text = f"{label.format(value)}, λ ×{float(one[f'{name}_last_kernel']):.2f}"
            axis.plot(data["time"], one[f"{name}_loss"], color=f"C{number}", label=text)
        axis.set(xlabel="steps", ylabel="loss", yscale="log", title=title, xlim=(0, 60))
        axis.set_ylim(1e-4, None)
        legend(axis, fontsize=7)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Peaks rise with 1/γ, width and rate; last kernels fall with the rate alone."""
    power = intervals.of_mean(exponents(data["gamma_peak"], "gamma"), "seeds")
    rows = [CLAIMS["power"].equals(power, -2.0)]
    for name, (models, change) in SWEEPS.items():
        fields = {"models": models, "change": change, "other": NO_EFFECT.get(name, "")}
        sentences = {key: row.format(**fields) for key, row in CLAIMS.items()}
        peak, kernel = xr.ufuncs.log10(data[f"{name}_peak"]), data[f"{name}_last_kernel"]
        # Seeds are the same at all values of what is swept.
        mean = lambda values, which, name=name: intervals.of_mean(
            values.diff(name), "seeds", over=f"{name}_seed", which=which
        )
        rows.append(sentences["peaks"].at_least(mean(peak, "least"), 0.0))
        if name in NO_EFFECT:
            apart = mean(xr.ufuncs.log(kernel), "farthest")
            rows.append(sentences["no effect"].at_most(apart, NEAR))
        else:
            rows.append(sentences["decrease"].at_most(mean(kernel, "largest"), 0.0))
    return rows
