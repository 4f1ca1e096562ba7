"""The abstract's sentences on K-FAC and on numerical stability, which have no figure of their own.

The abstract says that layer-restricted approximations of natural gradient, e.g. K-FAC, "can
significantly distort the learning trajectory into highly diverging dynamics", and that fractional
natural gradient has "superior numerical stability", also if restricted to layers. On a deep linear
network K-FAC's factors, second moments of a layer's inputs and of derivatives by its outputs, make
up the layer's block exactly, so that K-FAC does what NGD-d does: a theorem. That its paths diverge
is read off the imbalance of neighbouring layers, which true NGD conserves. A rate is called stable
if no step raises the loss above twice that of the start. Exponents in the scale α of small starts
are ours. Starts from which NGD's straight line crosses singular maps are not drawn: NGD has no
finite velocity there. The quick preset has one depth, and fewer scales and draws.

Notes: docs/results/curvature2020linear/stability/notes.md.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.networks.solvable.matrix_product import product
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Interval, claim
from learndyn.studies.curvature2020linear._model import (
    POWERS,
    RULES,
    linear_system,
    target_with,
)
from learndyn.studies.curvature2020linear._steps import RATES, kfac_step, largest_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import exponents
from learndyn.theory.deep_linear import map_dynamics

TITLE = "K-FAC, and the stability of full, fractional and layer-restricted corrections"
DIFFERS = (
    "the abstract's sentences have no figure and no sizes; here width 3, depths 2 to 4, 50 draws"
)
CORRECTED = ["NGD", "√NGD", "NGD-d", "√NGD-d"]
FRACTIONAL = [("√NGD", "NGD"), ("√NGD-d", "NGD-d")]
PROBES = {
    "imbalance": lambda model: jnp.sqrt(
        sum(jnp.sum(c**2) for c in map_dynamics.conserved(model.weights))
    )
}
CLAIMS = {
    "kfac": claim("K-FAC, with factors from a layer's inputs and from derivatives by its outputs, "
                  "is layer-restricted NGD: largest distance of steps, in units of rounding",
                  "abstract: approximations as in K-FAC", kind="theorem",
                  because="rounding times the condition numbers of the factors, per network"),
    "diverges": claim("layer-restricted NGD distorts the trajectory into highly diverging "
                      "dynamics: decades by which the imbalance of neighbouring layers grows, "
                      "least mean", "abstract", because="'highly' is read as a decade"),
    "tamer": claim("{fractional} distorts less than {full}: logarithm of the ratio between their "
                   "growths of the imbalance, largest mean",
                   "Sec. 1, item 5; Sec. 4; Fig. 1D, E"),
    "stabler": claim("{fractional} is stable at larger learning rates than {full}: logarithm of "
                     "the ratio between the largest, least mean",
                     "abstract: superior numerical stability"),
    "further": claim("{fractional} learns faster than {full} at equally safe rates: loss left "
                     "after {steps} steps at half the largest stable rate, logarithm of the ratio, "
                     "largest mean", "abstract, of speed and stability", kind="finding"),
    "exponent": claim("{rule}: exponent of {what} in the scale of small starts ({slopes}), largest "
                      "distance of a mean from the predicted one", "{source}",
                      kind="finding", because="corrections of the order of the scale, times 10, "
                      "over the range of its logarithm"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study."""

    target: tuple[float, ...] = (1.5, 1.0, 0.7)  # singular values, as many as a layer is wide
    depths: tuple[int, ...] = (3,)
    scales: tuple[float, ...] = (0.001, 0.003, 0.01)  # α, of starts α w with random w (Xavier)
    draws: int = 20  # of w
    time: float = 12.0  # learning rate × steps, until which flows are followed
    steps: int = 50  # that must not make the loss too large
    widths: tuple[int, ...] = (4, 5, 3, 2)  # of networks on which K-FAC takes a step
    examples: int = 12  # of the data on which it does
    networks: int = 10  # their number
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(depths=(2, 3, 4), scales=(0.001, 0.002, 0.005, 0.01), draws=50, networks=100),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Flows and steps of each rule from the same starts, and steps of K-FAC beside NGD-d's."""
    jobs = [(depth, rule) for depth in params.depths for rule in CORRECTED]
    drawn = {depth: _drawn(params, depth) for depth in params.depths}
    rows = [_measured(params, rule, drawn[depth]) for depth, rule in cases(jobs, report, end=0.9)]
    axes = {"depth": params.depths, "rule": CORRECTED, "scale": params.scales}
    dims, shape = (*axes, "draw"), (*map(len, axes.values()), params.draws)
    table: dict[str, Any] = {
        name: (dims, np.reshape([row[name] for row in rows], shape)) for name in rows[0]
    }
    seeds = cases([[params.key, 1, i] for i in range(params.networks)], report, begin=0.9)
    sizes = params.widths, params.examples
    steps = [kfac_step(*sizes, np.random.default_rng(seed)) for seed in seeds]
    kfac, restricted, rounding = map(np.array, zip(*steps, strict=True))
    table |= {"kfac": (("network", "weight"), kfac), "rounding": ("network", rounding)}
    table["restricted"] = ("network", "weight"), restricted
    powers = [POWERS[rule] for rule in CORRECTED]
    coordinates = {name: list(values) for name, values in axes.items()}
    return xr.Dataset(table, coordinates | {"power": ("rule", powers)}, {"steps": params.steps})


def _drawn(params: Params, depth: int) -> tuple[np.ndarray, list[Any]]:
    """A target, and weights at α = 1 from which the straight line to it is never singular.

    The scale of a start multiplies its map and leaves the signs of the line's eigenvalues.
    """
    n, rng = len(params.target), np.random.default_rng([params.key, 0, depth])
    target, weights = target_with(params.target, n, n, params.key), []
    while len(weights) < params.draws:
        one = ld.Xavier().sample(rng, (depth + 1) * (n,), None)
        if not map_dynamics.line_is_singular(np.asarray(product(one)), target):
            weights.append(one)
    return target, weights


def _measured(params: Params, name: str, drawn: tuple[np.ndarray, list[Any]]) -> dict[str, Any]:
    """Growth of the imbalance along flows, largest stable rate and the loss left at half of it."""
    target, weights = drawn
    starts = [tuple(scale * w for w in one) for scale in params.scales for one in weights]
    widths = [len(target)] * (len(weights[0]) + 1)
    system = linear_system(RULES[name](1.0), target, widths, ld.Xavier())
    begins = [ld.start(system, weights=start) for start in starts]
    times = [0.0, params.time]
    flows = ld.simulate(system, times, starts=begins, method="flow", probes=PROBES)
    path = flows["imbalance"].isel(run=0).transpose("start", "time").values
    exponent = float(map_dynamics.largest_rate_exponent(len(widths) - 1, POWERS[name]))
    units = np.repeat(np.asarray(params.scales) ** exponent, len(weights))
    rate, left = largest_rates(system, target, starts, params.steps, units)
    if np.any(rate < RATES[0] * units):
        raise ValueError(f"scales: got {params.scales}, where {name} has no stable rate above "
                         f"{RATES[0]:g} α^{exponent:g}; allowed are scales with one")  # fmt: skip
    return {"growth": path[:, 1] / path[:, 0], "rate": rate, "left": left}


def draw(data: xr.Dataset) -> Figure:
    """Imbalance, largest rate and loss left against the scale, and K-FAC beside NGD-d."""
    figure, axes = panels(4, size=(4.6, 3.6))
    shown = data.isel(depth=-1)
    labels = {
        "growth": "growth of the layers' imbalance",
        "rate": "largest stable learning rate",
        "left": f"loss left after {data.attrs['steps']} steps at half of it",
    }
    for axis, (name, label) in zip(axes, labels.items(), strict=False):
        _against_scale(axis, shown, name)
        lines = "means" if name == "left" else "predicted exponents"
        axis.set(xlabel="scale α of the start", ylabel=label)
        axis.set_title(f"depth {int(shown['depth'])}; lines: {lines}", fontsize=9)
    legend(axes[2], fontsize=8, loc="center")
    axes[3].plot(data["restricted"].values.ravel(), data["kfac"].values.ravel(), ".", color="C3")
    axes[3].axline((0, 0), slope=1, color="0.6", linewidth=0.8)
    axes[3].set(xlabel="step of NGD-d, all weights", ylabel="step of K-FAC")
    axes[3].set_title("one step of networks on random data", fontsize=9)
    return figure


def _against_scale(axis: Axes, data: xr.Dataset, name: str) -> None:
    """Every draw, and the predicted power law through the geometric mean."""
    for number, rule in enumerate(data["rule"].values):
        values = data[name].sel(rule=rule).transpose("scale", "draw")
        style = {"color": f"C{number}", "linestyle": "none", "markersize": 3, "alpha": 0.35}
        side = 1.06 ** (number - 1.5)  # beside each other, not over each other
        axis.plot(side * data["scale"], values, "o", **style)
        middle = np.exp(xr.ufuncs.log(values).mean("draw"))
        if name == "left":
            axis.plot(side * data["scale"], middle, color=f"C{number}", label=rule)
        else:
            x = data["scale"] / data["scale"].values[0]
            line = middle.values[0] * x ** _expected(data, name).sel(rule=rule)
            axis.plot(data["scale"], line, color=f"C{number}")
    axis.set(xscale="log", yscale="log")


def _expected(data: xr.Dataset, name: str) -> xr.DataArray:
    """The exponents in α, by rule and depth."""
    if name == "rate":
        form = map_dynamics.largest_rate_exponent
        return xr.apply_ufunc(form, data["depth"], data["power"])
    rows = zip(data["rule"].values, data["power"].values, strict=True)
    form = map_dynamics.imbalance_exponent
    return data["power"].copy(data=[form(s, blocks=rule.endswith("-d")) for rule, s in rows])


def check(data: xr.Dataset) -> list[Claim]:
    """K-FAC is layer-restricted, such paths diverge, and fractional corrections are stable."""
    norm = lambda values: np.sqrt((values**2).sum("weight"))
    distance = norm(data["kfac"] - data["restricted"]) / norm(data["restricted"])
    grown = xr.ufuncs.log10(data["growth"].sel(rule="NGD-d"))
    return [
        CLAIMS["kfac"].at_most((distance / data["rounding"]).max(), 1.0),
        CLAIMS["diverges"].at_least(_mean(grown, "least"), 1.0),
        *(_ratio(data, "tamer", "growth", *pair) for pair in FRACTIONAL[1:]),
        *(_ratio(data, "stabler", "rate", *pair) for pair in FRACTIONAL),
        *(_ratio(data, "further", "left", *pair) for pair in FRACTIONAL),
        *(_exponent(data, "growth", rule) for rule in CORRECTED if rule.endswith("-d")),
        *(_exponent(data, "rate", rule) for rule in CORRECTED),
    ]


def _mean(values: xr.DataArray, which: intervals.Which) -> Interval:
    """The extreme one of the means over draws, at every depth and scale."""
    return intervals.of_mean(values, "draws", over="draw", which=which)


def _ratio(data: xr.Dataset, key: str, name: str, fractional: str, full: str) -> Claim:
    """The logarithm of the ratio of two rules: rates are to be larger, all else smaller."""
    log = xr.ufuncs.log(data[name])
    between = log.sel(rule=fractional) - log.sel(rule=full)
    fields = {"fractional": fractional, "full": full, "steps": data.attrs["steps"]}
    sentence = CLAIMS[key].format(**fields)
    if name == "rate":
        return sentence.at_least(_mean(between, "least"), 0.0)
    return sentence.at_most(_mean(between, "largest"), 0.0)


def _exponent(data: xr.Dataset, name: str, rule: str) -> Claim:
    """Of the depth whose exponent is farthest from the predicted one, its error included."""
    slopes = exponents(data[name].sel(rule=rule), "scale")
    apart = slopes - _expected(data, name).sel(rule=rule, drop=True)
    sentence = CLAIMS["exponent"].format(
        rule=rule,
        what={"growth": "the growth of the imbalance", "rate": "the largest stable rate"}[name],
        source={"growth": "Eqs. 7, 25", "rate": "S.I.16"}[name],
        slopes=", ".join(f"{float(slope):.3f}" for slope in slopes.mean("draw")),
    )
    scales = data["scale"].values
    most = 10 * scales.max() / np.ptp(np.log(scales))
    return sentence.at_most(_mean(apart, "farthest"), most)
