"""Misprints of the chapter and its appendix: printed, corrected and measured values.

Measured are networks that are trained for one step in float64. Values of the equations come from
the state before the step, those of Eq. 3.16 from derivatives of the network there. Eqs. B.9-B.12
are compared in what does not depend on their normalisation, (r'/r)² and ηλ of a direction. "B.13"
stands for the unnumbered equations of Proposition B.13.1, with the inputs' squared norm 4. The
tolerance is 1e-9 of the value, or of 1 if that is larger: rounding, with room for cancellation. The
fall of v over u (B.5) is a difference of numbers that are larger by v/u, which grows with the
width: 100 times their rounding if that is more. The quick preset has smaller networks.

Notes: docs/results/zhu2024quadratic/equations/notes.md.
"""

import dataclasses
from typing import Any, NamedTuple, cast

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.optimize import brentq

import learndyn as ld
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.printed import finish, rows_figure, table
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024quadratic import _model
from learndyn.theory.quadratic_model import closed_map, errata

TITLE = "Misprints: printed, corrected and measured values"
DIFFERS = "the paper has no such figure"
ROUNDING = 1e-9
EXACT = 1e-17  # where a logarithmic axis has its zero
Y = 0.7  # the target of the single example
# Equation → what is looked at.
WHAT = {
    "3.16, trace": "trace of the kernel after a step",
    "3.16, off the diagonal": "its entries above the diagonal, summed",
    "B.5": "fall of v in a step over u, without a target",
    "B.6, v*": "v at which r changes its sign and not its size",
    "B.6, no equilibrium": "v after that step",
    "B.6, missed equilibrium": "residual after a step over that before, at u = 4 and v = 4 + w",
    "B.9": "growth of r² in a step, direction 1",
    "B.10": "ηλ after a step, direction 1",
    "B.11": "growth of r² in a step, direction 2",
    "B.12": "ηλ after a step, direction 2",
    "B.13, g": "output of the general model after a step",
    "B.13, λ": "its kernel after a step",
    "Proposition B.13.1, Σ²": "tr Σ² over |x|² tr I for the two-layer linear network",
    "Proposition B.13.1, Σ³": "|Σ³| over |x|² |Σ| for it",
}
SIGN = {"B.5": "u (4 − v) < 0"}  # printed, but not as a number
NOT_PRINTED = "B.6, missed equilibrium", "Proposition B.13.1, Σ³"
PRINTED = "{printed:.6g}, {ratio:.5g} of the measured"
CLAIMS = {
    name: claim(f"{name}: {what}", name, kind="finding", because="rounding of float64")
    for name, what in WHAT.items()
}
for _name in [name for name in WHAT if name not in NOT_PRINTED]:
    CLAIMS[_name] = CLAIMS[_name].erratum(SIGN.get(_name, PRINTED))


class Row(NamedTuple):
    """One equation: what is measured, and what either form gives; NaN where none is printed."""

    equation: str
    measured: float
    corrected: float
    printed: float = np.nan
    cancels: float = 0.0  # the size of what is subtracted to measure it, where that is larger


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
    text = lambda words: ("row", [words.get(row.equation, "") for row in rows])
    return table(rows).assign(what=text(WHAT), prints=text(SIGN))


def _kernel(params: Params) -> list[Row]:
    """Eq. 3.16 on several examples, in the twin of a relu network."""
    rng = _model.rng_of(params.key)
    x, y = rng.standard_normal((params.n, params.d)), rng.standard_normal(params.n)
    model = _model.two_layers(params.d, params.m, params.key)
    twin, eta = ld.quadratic(model), params.v / _model.top_kernel(model, x)
    probe = {"ntk": lambda after: _model.gram(after, x)}
    record = _model.train(_model.half_sum(x, y), twin, model.weights, eta, [0.0, 1.0], probe)
    measured = record["ntk"].values[1]
    J, G = (np.asarray(part) for part in _model.derivatives(twin, model.weights, x, y))
    right = np.asarray(closed_map.next_kernel(J, G, eta))
    printed = np.asarray(errata.printed_eq316(J, G, eta))
    upper = lambda K: np.sum(np.triu(K, 1))
    return [
        Row("3.16, trace", *map(np.trace, (measured, right, printed))),
        Row("3.16, off the diagonal", *map(upper, (measured, right, printed))),
    ]


def _one_step(params: Params, y: float, v: float) -> tuple[Any, Any, float, tuple[float, ...]]:
    """A step of the twin of a relu network on one example, at ηλ = v.

    Residual and kernel before and after it, the rate, and (u, v, w) before (Eqs. 3.13-3.14).
    """
    x = _model.one_example(params.key, params.d)
    model = _model.two_layers(params.d, params.m, params.key)
    eta, c = v / _model.top_kernel(model, x), float(np.sum(x**2)) / (params.m * params.d)
    data, network = _model.half_sum(x, [y]), ld.quadratic(model)
    record = _model.train(data, network, model.weights, eta, [0.0, 1.0])
    r, kernel = (record[name].values[:, 0] for name in ("residual", "kernel"))
    return r, kernel, eta, tuple(map(float, closed_map.reduced(r[0], kernel[0], c, y, eta)))


def _falling(params: Params) -> list[Row]:
    """App. B.5: the sign of u (4 − v), by which v falls at y = 0."""
    _, kernel, eta, (u, v, _) = _one_step(params, 0.0, params.v)
    return [Row("B.5", (kernel[0] - kernel[1]) * eta / u, 4 - v, cancels=v / u)]


def _turning(params: Params) -> list[Row]:
    """App. B.6: where |r| stays through a step, found by training; v does not stay there."""
    change = lambda v: np.subtract(*np.abs(_one_step(params, Y, v)[0])[::-1])
    there = cast(float, brentq(change, 1.5, 3.5, xtol=1e-14))
    _, kernel, eta, (u, v, w) = _one_step(params, Y, there)
    return [
        Row("B.6, v*", v, 2 + u + w, errata.printed_equilibrium(u, w)),
        Row("B.6, no equilibrium", kernel[1] * eta, v - u * (4 - v) - 4 * w, v),
    ]


def _missed(params: Params) -> list[Row]:
    """App. B.6: u = 4, v = 4 + w, balanced layers whose weights change their sign in a step."""
    x = _model.one_example(params.key, params.d)
    model = _model.two_layers(params.d, params.m, params.key, "linear")
    first, second = model.weights
    out = np.asarray(second.weight)
    along = out.T @ x / np.linalg.norm(x)  # U = v xᵀ/|x|
    weights = (type(first)(along, None), type(second)(out, None))
    root_c = np.linalg.norm(x) / np.sqrt(params.m * params.d)
    eta = 2 / (root_c * (root_c * float(np.sum(out**2)) - Y))
    record = _model.train(_model.half_sum(x, [Y]), model.network, weights, eta, [0.0, 1.0])
    r = record["residual"].values[:, 0]
    return [Row("B.6, missed equilibrium", r[1] / r[0], 1.0)]


def _line(params: Params) -> list[Row]:
    """Eqs. B.9-B.12: both directions of examples on a line, p_i = x ⊙ m_i as B.11.1 has it."""
    x, y = _model.on_a_line(params.key, 2 * params.n)
    model = _model.two_layers(1, params.m, params.key)
    eta = params.v / _model.top_kernel(model, x)
    data, network = _model.half_sum(x, y), ld.quadratic(model)
    record = _model.train(data, network, model.weights, eta, [0.0, 1.0])
    x, r0, rows = x[:, 0], _model.outputs(model, x) - y, []
    for i, names in enumerate((("B.9", "B.10"), ("B.11", "B.12"))):
        p = np.where(x > 0, x, 0) if i == 0 else np.where(x < 0, x, 0)
        r, kernel = (record[name].values[:, i] for name in ("residual", "kernel"))
        size = float(p @ p)
        along = float(p @ y) / np.sqrt(size)
        right = closed_map.reduced(r[0], kernel[0], size / params.m, along, eta)
        wrong = errata.printed_eqB9(r0, y, p, kernel[0], params.m, eta)
        growth = [(1 - v + u + w) ** 2 for u, v, w in (right, wrong)]
        kept = [v - u * (4 - v) - 4 * w for u, v, w in (right, wrong)]
        rows.append(Row(names[0], (r[1] / r[0]) ** 2, *growth))
        rows.append(Row(names[1], eta * kernel[1], *kept))
    return rows


def _general(params: Params) -> list[Row]:
    """App. B.13: φ = 0, y = 0 and Σ² = 4 I."""
    rng, size, gamma, s = _model.rng_of(params.key), 5 * params.d, 0.1, 4.0
    network = ld.GeneralQuadratic(np.sqrt(s) * rng.choice([-1.0, 1.0], size), gamma=gamma)
    weights = 3 * _model.rng_of(params.key, 1).standard_normal(size)
    eta = params.v / (gamma**2 * s * float(weights @ weights))
    data = _model.half_sum(np.zeros((1, size)), [0.0])
    record = _model.train(data, network, weights, eta, [0.0, 1.0])
    g, kernel = (record[name].values[:, 0] for name in ("residual", "kernel"))
    right = closed_map.advance(g[0], kernel[0], gamma**2 * s, 0.0, eta)
    wrong = errata.printed_eqB13(g[0], kernel[0], gamma, s, eta)
    return [
        Row("B.13, g", g[1], right[0], wrong[0]),
        Row("B.13, λ", kernel[1], right[1], wrong[1]),
    ]


def _hypothesis(params: Params) -> list[Row]:
    """Proposition B.13.1: Σ² = |x|² I fails for the two-layer linear network; Σ³ = |x|² Σ holds."""
    m, d = 4, params.d
    x, model = _model.one_example(params.key, d), _model.two_layers(d, m, params.key, "linear")
    with jax.enable_x64(True):
        flat, back = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, model.weights))
        f = lambda w: model.network(back(w), jnp.asarray(x))[0]
        sigma = np.sqrt(m * d) * np.asarray(jax.hessian(f)(flat))
    square = float(np.sum(x**2))
    share = float(np.trace(sigma @ sigma)) / (square * len(sigma))
    kept = float(np.linalg.norm(sigma @ sigma @ sigma) / (square * np.linalg.norm(sigma)))
    return [
        Row("Proposition B.13.1, Σ²", share, 2 / (d + 1), 1.0),
        Row("Proposition B.13.1, Σ³", kept, 1.0),
    ]


def draw(data: xr.Dataset) -> Figure:
    """How far printed and corrected values are from the measured ones."""
    figure, axis, place = rows_figure(data, [str(row) for row in data["row"].values], 0.34)
    for name, marker, color in (("printed", "x", "C3"), ("corrected", "o", "C0")):
        off = np.maximum(abs(data[name] / data["measured"] - 1), EXACT)
        axis.plot(off, place, marker, color=color, ms=6, mfc="none", mew=1.5, label=name)
    axis.axvline(ROUNDING, color="0.6", lw=0.8, ls="--", label="tolerance, except for B.5")
    axis.set(xlabel="|value / measured − 1| (zero is drawn at 1e-17)", xscale="log")
    finish(axis, 3)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Corrected forms hold to rounding; what is printed misses."""
    rows = []
    for name in data["row"].values:
        one, sentence = data.sel(row=name), CLAIMS[str(name)]
        measured, corrected, printed = (float(one[key]) for key in Row._fields[1:4])
        if np.isfinite(printed):
            ratio = printed / measured
            sentence = sentence.format(printed=printed, ratio=ratio).erratum(value=printed)
        lost = 100 * np.finfo(float).eps * float(one["cancels"])
        within = max(ROUNDING * max(abs(corrected), 1.0), lost)
        rows.append(sentence.equals(measured, corrected, within))
    return rows
