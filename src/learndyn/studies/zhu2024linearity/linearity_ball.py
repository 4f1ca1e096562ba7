"""Cor. 2.3.7 and Thm 2.3.8: outputs and pre-activations are nearly linear in a ball of weights.

At weights w_0 ± R v the distance |f − f_lin| from the first-order Taylor expansion is measured,
for v the top eigenvector of the Hessian, which is the worst direction to second order, and for
random v. The corollary bounds it by ½ R² times the largest Hessian norm in the ball, and so by
m^(−1/2). The same holds for every pre-activation: here the first neuron of the second layer, read
through its tap. Pre-activations of the first layer are linear (Remark 2.3.9). A network with a
bottleneck layer is beside them. Along a random direction the distance is ½ R² vᵀHv, of order R²
‖H‖_F/p with p ~ m² weights: a random point of the ball shows nothing of the bound. The Hessian
norm in the ball is measured at w_0 and w_0 ± R v. The quick preset has fewer and smaller widths.
Tolerances were written before the first run.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.sparse.linalg import eigsh

import learndyn as ld
from learndyn.networks import Taylor
from learndyn.numerics.lanczos import spectral_norm
from learndyn.plotting import legend, panels
from learndyn.probes.hessian import operator_of
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_bound
from learndyn.studies.zhu2024linearity._drawing import half, over_width, width_axes
from learndyn.studies.zhu2024linearity._model import (
    BECAUSE,
    HALF,
    LEVEL,
    NETWORKS,
    D,
    drawn,
    exponent_bound,
    exponents,
    inputs,
)

TITLE = "Outputs and pre-activations against their linear twins in a ball of weights"
WIDE, NARROW, NODE = "output", "output behind a bottleneck layer", "pre-activation of layer 2"
FUNCTIONS = {WIDE: "fully connected", NARROW: "bottleneck layer", NODE: "fully connected"}
RANDOM = 8  # random directions
BENT = 0.1  # part by which the norm may be larger between the points at which it is measured


@dataclasses.dataclass(frozen=True)
class Params:
    """Widths, radii of the ball, and draws of the weights."""

    widths: tuple[int, ...] = (16, 48, 144)
    radii: tuple[float, ...] = (1.0, 2.0)
    seeds: int = 6
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(widths=(32, 64, 128, 256), seeds=10)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Distances along both kinds of directions, and Hessian norms."""
    given = [(name, m) for name in FUNCTIONS for m in params.widths]
    rows = [_measured(params, name, m) for name, m in cases(given, report, end=0.95)]
    shape = len(FUNCTIONS), len(params.widths)
    names = ("function", "width", "seed", "radius")
    fields = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    data: dict = {k: (names, v.reshape(*shape, *v.shape[1:])) for k, v in fields.items()}
    coords = {"function": list(FUNCTIONS), "width": list(params.widths)}
    data["first_layer"] = _first_layer(params)
    report(1.0)
    return xr.Dataset(data, coords | {"radius": list(params.radii)})


def _measured(params: Params, name: str, m: int) -> dict[str, list]:
    """One function at one width: values by seed and radius."""
    network = NETWORKS[FUNCTIONS[name]](m)
    function = _node(network, "layer2") if name == NODE else network
    found: dict[str, list] = {"top": [], "random": [], "norm": []}
    for key in range(params.key, params.key + params.seeds):
        x = inputs(name, 1, key)
        model = ld.Model(function, drawn(network, (D,), key).weights).placed()
        top, others = _top(model, x), _random(model, key)
        rows = [_at(model, x, top, others, radius) for radius in params.radii]
        for field, values in zip(found.values(), zip(*rows, strict=True), strict=True):
            field.append(values)
    return found


def _node(network: Any, name: str) -> ld.Network:
    """The first neuron of a layer as a network of its own."""
    apply = lambda weights, x: ld.forward(network, weights, x)[1][name][:, 0]
    return ld.Network(None, apply, shape=(D,))


def _value(outputs: Any) -> Any:
    return outputs[0]


def _top(model: ld.Model, x: np.ndarray) -> np.ndarray:
    """The eigenvector of the output's Hessian whose eigenvalue is largest in modulus."""
    start = np.random.default_rng(0).standard_normal(model.size)
    solve: Any = eigsh
    return solve(operator_of(model, x, _value), 1, which="LM", v0=start)[1][:, 0]


def _random(model: ld.Model, key: int) -> np.ndarray:
    v = np.random.default_rng([key, 3]).standard_normal((RANDOM, model.size))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def _at(
    model: ld.Model, x: np.ndarray, top: np.ndarray, others: np.ndarray, radius: float
) -> tuple[float, float, float]:
    """The larger distance at ± top, the mean one at random, and the largest norm at 0, ± top."""
    linear = ld.linearise(model)
    points = [model.moved(sign * radius * top).placed() for sign in (1.0, -1.0)]
    distance = functools.partial(_distance, linear, x)
    norms = [spectral_norm(operator_of(each, x, _value)) for each in (model, *points)]
    random = [distance(model.moved(radius * v)) for v in others]
    return max(map(distance, points)), float(np.mean(random)), max(norms)


def _distance(linear: Taylor, x: np.ndarray, point: ld.Model) -> float:
    return float(abs(point.outputs(x) - ld.Model(linear, point.weights).outputs(x))[0])


def _first_layer(params: Params) -> float:
    """The norm of the Hessian of a pre-activation of the first layer."""
    network = NETWORKS["fully connected"](params.widths[0])
    model = ld.Model(_node(network, "layer1"), drawn(network, (D,), params.key).weights)
    return ld.probes.output_hessian_norm(model, inputs(NODE, 1, params.key)).largest


def draw(data: xr.Dataset) -> Figure:
    """Distances against width along the top eigenvector, and along random directions."""
    figure, axes = panels(2, size=(5.0, 4.0))
    radius = float(data["radius"][0])
    titles = ("along the top eigenvector of the Hessian", "along random directions")
    for axis, name, title in zip(axes, ("top", "random"), titles, strict=True):
        values = data[name].sel(radius=radius)
        for number, function in enumerate(data["function"].values):
            over_width(axis, values.sel(function=function), function, f"C{number}")
        half(axis, values.sel(function=WIDE))
        width_axes(axis, data["width"], rf"$|f - f_{{\rm lin}}|$ at R = {radius:g}", title)
    legend(axes[0], fontsize=7)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Exponents along the top eigenvector and at random; the bound; the first layer."""
    rows = [row for radius in data["radius"].values for row in _decay(data, float(radius))]
    random = exponents(data["random"].sel(function=WIDE).isel(radius=0))
    ratio = data["top"] / (data["norm"] * data["radius"] ** 2 / 2)
    return [
        *rows,
        claim("output: exponent along random directions, at most −1", "Cor. 2.3.7", kind="finding")
        .at_most(random.mean(), -1.0, within=mean_bound(random, "seed", LEVEL), rate=1 - LEVEL,
                 because=f"vᵀHv ~ ‖H‖_F/p; Student t at {LEVEL:.0%}"),
        claim("largest |f − f_lin| over ½ R² ‖H‖, H at the centre and at ± R v", "Cor. 2.3.7",
              kind="theorem")
        .at_most(ratio.max(), 1.0, within=BENT, because="the norm between these points"),
        claim("Hessian norm of a pre-activation of layer 1", "Remark 2.3.9", kind="theorem")
        .equals(data["first_layer"], 0.0, within=0.0, because="it is linear in its weights"),
    ]  # fmt: skip


def _decay(data: xr.Dataset, radius: float) -> list[Claim]:
    top, widths = data["top"].sel(radius=radius), data["width"]
    found = exponents(top)
    more = found.sel(function=NARROW) - found.sel(function=WIDE)
    given = {"because": BECAUSE, "rate": 1 - LEVEL}
    said = f"exponent of |f − f_lin| over width, R = {radius:g}"
    rows = [
        claim(f"{name}: {said}", source).equals(
            found.sel(function=name).mean(), HALF,
            within=exponent_bound(found.sel(function=name), widths), **given,
        )
        for name, source in ((WIDE, "Cor. 2.3.7"), (NODE, "Thm 2.3.8"))
    ]  # fmt: skip
    last = claim(f"{NARROW}: {said}, less that without", "App. A.6")
    within = exponent_bound(more, widths)
    return [*rows, last.equals(more.mean(), -HALF, within=within, **given)]
