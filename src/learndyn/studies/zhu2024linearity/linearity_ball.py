"""Cor. 2.3.7 and Thm 2.3.8: outputs and pre-activations are nearly linear in a ball of weights.

At weights w_0 ± R v the distance |f − f_lin| from the first-order Taylor expansion is measured,
for v the top eigenvector of the Hessian, which is the worst direction to second order, and for
random v. The corollary bounds it by ½ R² times the largest Hessian norm in the ball, and so by
m^(−1/2). The same holds for every pre-activation: here the first neuron of the second layer, read
through its tap. Its Hessian has a block for each neuron of the first layer and none between them,
so that its norm is the largest of m, which adds a factor √ln m. Pre-activations of the first layer
are linear (Remark 2.3.9). A network with a bottleneck layer is shown for comparison. Exponents are
fitted for each seed, and the interval of their mean decides between −1/2 and 0. Along a random
direction the distance is ½ R² vᵀHv, of order R² ‖H‖_F/p with p ~ m² weights: a random point of the
ball shows nothing of the bound. The remainder in its integral form, R² ∫ (1 − t) vᵀH(w_0 + tRv)v
dt, is checked beside Eq. 2.9. The quick preset has fewer and smaller widths.

Notes: docs/results/zhu2024linearity/linearity_ball/notes.md.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.sparse.linalg import eigsh

import learndyn as ld
from learndyn.models import Taylor
from learndyn.plotting import legend, panels
from learndyn.probes.hessian import operator_of
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import exponents
from learndyn.studies.zhu2024linearity._drawing import half, over_width, width_axes
from learndyn.studies.zhu2024linearity._model import (
    BETWEEN,
    HALF,
    NETWORKS,
    STAYS,
    D,
    Weighted,
    drawn,
    finite_widths,
    inputs,
    logarithms,
)

TITLE = "Outputs and pre-activations against their linear twins in a ball of weights"
DIFFERS = "theorems without a figure; here widths 32 to 256, radii 1 and 2"
WIDE, NARROW, NODE = "output", "output behind a bottleneck layer", "pre-activation of layer 2"
FUNCTIONS = {WIDE: "fully connected", NARROW: "bottleneck layer", NODE: "fully connected"}
VALUE = Weighted(np.ones(1))  # the output of the only example
RANDOM = 8  # random directions
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)  # of the integral over t
FEWER = np.polynomial.legendre.leggauss(8)  # a rule whose distance bounds the error of the other
ROUNDING = 1e3 * float(np.finfo(float).eps)  # of a sum over the weights, relative to the output
DECAY = "exponent of |f − f_lin| over width, R = {radius:g}"
CLAIMS = {
    WIDE: claim(f"{WIDE}: {DECAY}", "Cor. 2.3.7", within=BETWEEN),
    NODE: claim(f"{NODE}: {DECAY}, √ln m removed", "Thm 2.3.8", within=BETWEEN),
    NARROW: claim(f"{NARROW}: it stays, {DECAY}", "App. A.6", within=BETWEEN),
    "random": claim("output: exponent along random directions, at most −1", "Cor. 2.3.7",
                    kind="finding", because="vᵀHv ~ ‖H‖_F/p"),
    "remainder": claim("f − f_lin against the remainder's integral: largest error over that of the "
                       "quadrature and rounding", "Eq. 2.9", kind="theorem",
                       because="Gauss quadrature with 16 nodes is off by less than with 8"),
    "first layer": claim("pre-activation of layer 1: its Hessian times a random vector",
                         "Remark 2.3.9", kind="theorem",
                         within=Tolerance(0.0, "it is linear in its weights")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Widths, radii of the ball, and draws of the weights."""

    widths: tuple[int, ...] = (16, 48, 144)
    radii: tuple[float, ...] = (1.0, 2.0)
    seeds: int = 24
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(widths=(32, 64, 128, 256))}


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
    found: dict[str, list] = {"top": [], "random": [], "remainder": []}
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


def _top(model: ld.Model, x: np.ndarray) -> np.ndarray:
    """The eigenvector of the output's Hessian whose eigenvalue is largest in modulus."""
    start = np.random.default_rng(0).standard_normal(model.size)
    solve: Any = eigsh
    return solve(operator_of(model, x, VALUE), 1, which="LM", v0=start)[1][:, 0]


def _random(model: ld.Model, key: int) -> np.ndarray:
    v = np.random.default_rng([key, 3]).standard_normal((RANDOM, model.size))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def _at(
    model: ld.Model, x: np.ndarray, top: np.ndarray, others: np.ndarray, radius: float
) -> tuple[float, float, float]:
    """The larger distance at ± top, the mean one at random, and the error of the remainder.

    The latter is over what quadrature and rounding allow.
    """
    distance = functools.partial(_distance, ld.linearise(model), x)
    ends = [distance(model.moved(sign * radius * top)) for sign in (1.0, -1.0)]
    random = [distance(model.moved(radius * v)) for v in others]
    fine, coarse = (_remainder(model, x, radius * top, *rule) for rule in ((NODES, WEIGHTS), FEWER))
    allowed = abs(fine - coarse) + ROUNDING * max(1.0, float(abs(model.outputs(x)).max()))
    return max(ends), float(np.mean(random)), abs(abs(fine) - ends[0]) / allowed


def _remainder(
    model: ld.Model, x: np.ndarray, step: np.ndarray, nodes: np.ndarray, weights: np.ndarray
) -> float:
    """∫ (1 − t) stepᵀ H(w_0 + t step) step dt over 0 … 1."""
    times = (1 + nodes) / 2
    bent = [step @ operator_of(model.moved(t * step), x, VALUE).matvec(step) for t in times]
    return float(np.sum(weights / 2 * (1 - times) * bent))


def _distance(linear: Taylor, x: np.ndarray, point: ld.Model) -> float:
    return float(abs(point.outputs(x) - ld.Model(linear, point.weights).outputs(x))[0])


def _first_layer(params: Params) -> float:
    """The size of a product with the Hessian of a pre-activation of the first layer."""
    network = NETWORKS["fully connected"](params.widths[0])
    model = ld.Model(_node(network, "layer1"), drawn(network, (D,), params.key).weights)
    (v,) = _random(model, params.key)[:1]
    return float(np.linalg.norm(operator_of(model, inputs(NODE, 1, params.key), VALUE) @ v))


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
    """Exponents along the top eigenvector and at random; the remainder; the first layer."""
    rows = [row for radius in data["radius"].values for row in _decay(data, float(radius))]
    random = exponents(data["random"].sel(function=WIDE).isel(radius=0), "width")
    return [
        *rows,
        CLAIMS["random"].at_most(
            intervals.of_mean(random, "seeds"), -1.0, finite_widths(data["width"])
        ),
        CLAIMS["remainder"].at_most(data["remainder"].max(), 1.0),
        CLAIMS["first layer"].equals(data["first_layer"], 0.0),
    ]


def _decay(data: xr.Dataset, radius: float) -> list[Claim]:
    found = exponents(data["top"].sel(radius=radius), "width")
    slack = logarithms(data["width"], 0.5)
    mean = lambda name, less=0.0: intervals.of_mean(found.sel(function=name) - less, "seeds")
    of = lambda name: CLAIMS[name].format(radius=radius)
    return [
        of(WIDE).equals(mean(WIDE), HALF),
        of(NODE).equals(mean(NODE, slack), HALF),
        of(NARROW).equals(mean(NARROW), STAYS),
    ]
