"""Misprints of the chapter and its appendix: printed, corrected and measured values.

Measured are networks that are trained for one step in float64. Values of the equations come from
the state before the step, those of Eq. 3.16 from derivatives of the network there. Eqs. B.9-B.12
are compared in what their normalisation leaves alone, (r'/r)² and ηλ of a direction. "B.13" stands
for the unnumbered equations of Proposition B.13.1, with the inputs' squared norm 4. The tolerance
is 1e-9 of the value, or of 1 where that is larger: rounding, with room for cancellation, and a
floor for values near zero. The fall of v over u (B.5) is a difference of numbers that are larger by
v/u, which grows with the width: 100 times their rounding where that is more, chosen after a run at
width 2000, which missed 1e-9 by a factor of five. The first entry of the single example is made
positive, so that its residual has its own sign in records.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.optimize import brentq

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.numerics.precision import compiled_in_float64
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024quadratic._model import (
    gram,
    half_sum,
    on_a_line,
    one_example,
    outputs,
    rng_of,
    top_kernel,
    train,
    two_layers,
)
from learndyn.theory.quadratic_model import closed_map, errata

TITLE = "Misprints: printed, corrected and measured values"
ROUNDING = 1e-9
EXACT = 1e-17  # where a logarithmic axis has its zero
Y = 0.7  # the target of the single example


class Row(NamedTuple):
    """One equation: what is looked at, measured and by either form; NaN where none is printed.

    `cancels` is the size of what is subtracted to measure it, where that is larger.
    """

    equation: str
    what: str
    measured: float
    corrected: float
    printed: float
    prints: str = ""
    cancels: float = 0.0


@dataclasses.dataclass(frozen=True)
class Params:
    """Width and inputs of the networks, examples, ηλ of the step (the largest λ)."""

    m: int = 40
    d: int = 3
    n: int = 6
    v: float = 2.6
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(m=2000, d=10, n=20)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """All rows."""
    parts = (_kernel, _falling, _turning, _missed, _line, _general, _hypothesis)
    rows = [row for part in cases(parts, report) for row in part(params)]
    columns = {name: ("row", [getattr(row, name) for row in rows]) for name in Row._fields[1:]}
    for name in Row._fields[2:5]:
        columns[name] = ("row", [*map(float, columns[name][1])])
    return xr.Dataset(columns, {"row": [row.equation for row in rows]})


def _kernel(params: Params) -> list[Row]:
    """Eq. 3.16 on several examples, in the twin of a relu network."""
    rng = rng_of(params.key)
    x, y = rng.standard_normal((params.n, params.d)), rng.standard_normal(params.n)
    model = two_layers(params.d, params.m, params.key)
    twin, eta = ld.quadratic(model), params.v / top_kernel(model, x)
    probe = {"ntk": lambda after: gram(after, x)}
    found = train(half_sum(x, y), twin, model.weights, eta, [0.0, 1.0], probe)
    measured = found["ntk"].values[1]
    J, G = (np.asarray(part) for part in _derivatives(twin, model.weights, x, y))
    right = np.asarray(closed_map.next_kernel(J, G, eta))
    printed = np.asarray(errata.printed_eq316(J, G, eta))
    looks = {
        "trace": (np.trace, "trace of the kernel after a step"),
        "off the diagonal": (_upper, "its entries above the diagonal, summed"),
    }
    return [
        Row(f"3.16, {name}", word, float(f(measured)), float(f(right)), float(f(printed)))
        for name, (f, word) in looks.items()
    ]


def _upper(K: np.ndarray) -> float:
    return float(np.sum(np.triu(K, 1)))


@compiled_in_float64
def _derivatives(network: AbstractNetwork, weights: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """J and the rows G_i = Σ_j r_j ∇g_j H_i, by derivatives of the network."""
    flat, back = jax.flatten_util.ravel_pytree(weights)
    outputs = lambda w: network(back(w), jnp.asarray(x))
    jacobian = jax.jacrev(outputs)
    slope = jacobian(flat).T @ (outputs(flat) - y)
    return jacobian(flat), jax.jvp(jacobian, (flat,), (slope,))[1]


class _Step(NamedTuple):
    """Residual and kernel of one example before and after a step, and what the map reads."""

    r: np.ndarray
    kernel: np.ndarray
    c: float
    y: float
    eta: float

    @property
    def uvw(self) -> tuple[float, float, float]:
        """(u, v, w) before the step (Eqs. 3.13-3.14)."""
        found = closed_map.reduced(self.r[0], self.kernel[0], self.c, self.y, self.eta)
        return float(found[0]), float(found[1]), float(found[2])


def _one_step(params: Params, y: float, v: float) -> _Step:
    """A step of the twin of a relu network on one example, at ηλ = v."""
    x, model = one_example(params.key, params.d), two_layers(params.d, params.m, params.key)
    eta = v / top_kernel(model, x)
    found = train(half_sum(x, [y]), ld.quadratic(model), model.weights, eta, [0.0, 1.0])
    r, kernel = found["residual"].values[:, 0], found["kernel"].values[:, 0]
    return _Step(r, kernel, float(np.sum(x**2)) / (params.m * params.d), y, eta)


def _falling(params: Params) -> list[Row]:
    """App. B.5: the sign of u (4 − v), by which v falls at y = 0."""
    found = _one_step(params, 0.0, params.v)
    u, v, _ = found.uvw
    fall = (found.kernel[0] - found.kernel[1]) * found.eta / u
    what = "fall of v in a step over u, without a target"
    return [Row("B.5", what, fall, 4 - v, np.nan, "u (4 − v) < 0", v / u)]


def _turning(params: Params) -> list[Row]:
    """App. B.6: where |r| stays through a step, found by training; v does not stay there."""
    change = lambda v: np.subtract(*np.abs(_one_step(params, Y, v).r)[::-1])
    found = _one_step(params, Y, _root(change, 1.5, 3.5))
    u, v, w = found.uvw
    after = found.kernel[1] * found.eta
    there = "v at which r changes its sign and not its size"
    return [
        Row("B.6, v*", there, v, 2 + u + w, errata.printed_equilibrium(u, w)),
        Row("B.6, no equilibrium", "v after that step", after, v - u * (4 - v) - 4 * w, v),
    ]


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    return cast(float, brentq(f, low, high, xtol=1e-14))


def _missed(params: Params) -> list[Row]:
    """App. B.6: u = 4, v = 4 + w, balanced layers whose weights change their sign in a step."""
    x = one_example(params.key, params.d)
    model = two_layers(params.d, params.m, params.key, "linear")
    first, second = model.weights
    out = np.asarray(second.weight)
    along = out.T @ x / np.linalg.norm(x)  # U = v xᵀ/|x|
    weights = (type(first)(along, None), type(second)(out, None))
    root_c = np.linalg.norm(x) / np.sqrt(params.m * params.d)
    eta = 2 / (root_c * (root_c * float(np.sum(out**2)) - Y))
    found = train(half_sum(x, [Y]), model.network, weights, eta, [0.0, 1.0])
    r = found["residual"].values[:, 0]
    what = "residual after a step over that before, at u = 4 and v = 4 + w"
    return [Row("B.6, missed equilibrium", what, r[1] / r[0], 1.0, np.nan)]


def _line(params: Params) -> list[Row]:
    """Eqs. B.9-B.12: both directions of examples on a line, p_i = x ⊙ m_i as B.11.1 has it."""
    x, y = on_a_line(params.key, 2 * params.n)
    model = two_layers(1, params.m, params.key)
    eta = params.v / top_kernel(model, x)
    found = train(half_sum(x, y), ld.quadratic(model), model.weights, eta, [0.0, 1.0])
    r0 = outputs(model, x) - y
    return [row for i in (0, 1) for row in _direction(params, found, x[:, 0], y, r0, eta, i)]


def _direction(
    params: Params, found: xr.Dataset, x: Any, y: Any, r0: Any, eta: float, i: int
) -> list[Row]:
    p = np.where(x > 0, x, 0) if i == 0 else np.where(x < 0, x, 0)
    r, kernel = (found[name].values[:, i] for name in ("residual", "kernel"))
    size = float(p @ p)
    given = r[0], kernel[0], size / params.m, float(p @ y) / np.sqrt(size), eta
    right = closed_map.reduced(*given)
    wrong = errata.printed_eqB9(r0, y, p, kernel[0], params.m, eta)
    growth = [(1 - v + u + w) ** 2 for u, v, w in (right, wrong)]
    kept = [v - u * (4 - v) - 4 * w for u, v, w in (right, wrong)]
    names, which = ("B.9", "B.10") if i == 0 else ("B.11", "B.12"), f"direction {i + 1}"
    return [
        Row(names[0], f"growth of r² in a step, {which}", (r[1] / r[0]) ** 2, *growth),
        Row(names[1], f"ηλ after a step, {which}", eta * kernel[1], *kept),
    ]


def _general(params: Params) -> list[Row]:
    """App. B.13: φ = 0, y = 0 and Σ² = 4 I."""
    rng, size, gamma, s = rng_of(params.key), 5 * params.d, 0.1, 4.0
    network = ld.GeneralQuadratic(np.sqrt(s) * rng.choice([-1.0, 1.0], size), gamma=gamma)
    weights = 3 * rng_of(params.key, 1).standard_normal(size)
    eta = params.v / (gamma**2 * s * float(weights @ weights))
    data = half_sum(np.zeros((1, size)), [0.0])
    found = train(data, network, weights, eta, [0.0, 1.0])
    g, kernel = found["residual"].values[:, 0], found["kernel"].values[:, 0]
    right = closed_map.advance(g[0], kernel[0], gamma**2 * s, 0.0, eta)
    wrong = errata.printed_eqB13(g[0], kernel[0], gamma, s, eta)
    words = "output of the general model after a step", "its kernel after a step"
    three = zip((g[1], kernel[1]), right, wrong, strict=True)
    return [
        Row(f"B.13, {name}", word, *values)
        for name, word, values in zip(("g", "λ"), words, three, strict=True)
    ]


def _hypothesis(params: Params) -> list[Row]:
    """Proposition B.13.1: Σ² = |x|² I fails for the two-layer linear network; Σ³ = |x|² Σ holds."""
    m, d = 4, params.d
    x, model = one_example(params.key, d), two_layers(d, m, params.key, "linear")
    with jax.enable_x64(True):
        flat, back = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, model.weights))
        f = lambda w: model.network(back(w), jnp.asarray(x))[0]
        sigma = np.sqrt(m * d) * np.asarray(jax.hessian(f)(flat))
    square = float(np.sum(x**2))
    share = float(np.trace(sigma @ sigma)) / (square * len(sigma))
    kept = float(np.linalg.norm(sigma @ sigma @ sigma) / (square * np.linalg.norm(sigma)))
    what = "tr Σ² over |x|² tr I for the two-layer linear network"
    return [
        Row("Proposition B.13.1, Σ²", what, share, 2 / (d + 1), 1.0),
        Row("Proposition B.13.1, Σ³", "|Σ³| over |x|² |Σ| for it", kept, 1.0, np.nan),
    ]


def draw(data: xr.Dataset) -> Figure:
    """How far printed and corrected values are from the measured ones."""
    figure, (axis,) = panels(1, size=(7.0, 0.34 * data.sizes["row"] + 1.2))
    place = np.arange(data.sizes["row"])
    for name, marker, color in (("printed", "x", "C3"), ("corrected", "o", "C0")):
        off = np.maximum(abs(data[name] / data["measured"] - 1), EXACT)
        axis.plot(off, place, marker, color=color, ms=6, mfc="none", mew=1.5, label=name)
    axis.axvline(ROUNDING, color="0.6", lw=0.8, ls="--", label="tolerance, but for B.5")
    axis.set(xlabel="|value / measured − 1| (zero is drawn at 1e-17)", xscale="log")
    axis.set_yticks(place, [str(row) for row in data["row"].values])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    legend(axis, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Corrected forms hold to rounding; what is printed misses."""
    return [_row(data.sel(row=row)) for row in data["row"].values]


def _row(one: xr.Dataset) -> Claim:
    equation, what, prints = (one[name].item() for name in ("row", "what", "prints"))
    measured, corrected, printed = (
        float(one[name]) for name in ("measured", "corrected", "printed")
    )
    said = claim(f"{equation}: {what}", equation, kind="finding")
    if np.isfinite(printed):
        said = said.erratum(f"{printed:.6g}, {printed / measured:.5g} of the measured", printed)
    elif prints:
        said = said.erratum(prints)
    lost = 100 * np.finfo(float).eps * float(one["cancels"])
    within, because = max(ROUNDING * max(abs(corrected), 1.0), lost), "rounding of float64"
    return said.equals(measured, corrected, within=within, because=because)
