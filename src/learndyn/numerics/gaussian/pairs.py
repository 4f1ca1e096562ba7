"""Tables of averages of pairs of units, block by block, each in its own way.

closed form          one function with closed forms, or sums of x, |x| and erfs; no biases
Hermite series       at least one of the two functions is smooth
quasi-random points  both have kinks, and biases or no closed form
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp

from learndyn.numerics.gaussian import hermite, pieces
from learndyn.numerics.gaussian.base import AbstractActivation, AbstractClosedForm
from learndyn.numerics.gaussian.points import Points
from learndyn.runtime.types import Array

if TYPE_CHECKING:
    from learndyn.numerics.gaussian.units import Units

CLOSED, SERIES, POINTS = "closed form", "Hermite series", "quasi-random points"
OF_PIECES = {
    "values": pieces.pair_values,
    "slopes": pieces.pair_slopes,
    "curvatures": pieces.pair_curvatures,
    "slope_values": pieces.pair_slope_values,
}
# The names of the same averages in `AbstractClosedForm`, and of the coefficients in a series.
OF_CLOSED = {"values": "I2", "slopes": "slopes", "curvatures": "curvature_times_value"}
IN_SERIES = {
    "values": ("values", "values"),
    "slopes": ("slopes", "slopes"),
    "curvatures": ("curvatures", "values"),
    "slope_values": ("slopes", "values"),
}


def way(f: AbstractActivation, k: AbstractActivation, biased: bool, kind: str = "values") -> str:
    """The way of an average of f and k."""
    if not biased and f.pieces and k.pieces:
        return CLOSED
    if not biased and f == k and isinstance(f, AbstractClosedForm) and kind in OF_CLOSED:
        return CLOSED
    return SERIES if f.smooth or k.smooth else POINTS


def table(units: "Units", kind: str, sigma: Array, biases: Array | None) -> Array:
    """The averages of one kind: (n, n) for values, else (K, n)."""
    K, n, f = units.K, units.K + units.M, (units.student, units.teacher)
    parts = slice(0, K), slice(K, n)
    blocks = [(0, 0), (0, 1)] + [(1, 1)] * (kind == "values")
    ways = {(a, b): way(f[a], f[b], biases is not None, kind) for a, b in blocks}
    others = {}
    if SERIES in ways.values():
        others[SERIES] = series(units, kind, sigma, biases, units.rule)
    if POINTS in ways.values():
        others[POINTS] = getattr(points(units, sigma, biases), kind)()

    def block(a: int, b: int) -> Array:
        rows, columns = parts[a], parts[b]
        if ways[a, b] != CLOSED:
            return others[ways[a, b]][rows, columns]
        q = jnp.diagonal(sigma)
        return _closed(kind, f[a], f[b], q[rows, None], sigma[rows, columns], q[columns])

    top = jnp.concatenate([block(0, 0), block(0, 1)], axis=1)
    if kind != "values":
        return top
    low = jnp.concatenate([top[:, K:].T, block(1, 1)], axis=1)
    return jnp.concatenate([top, low])


def points(units: "Units", sigma: Array, biases: Array | None) -> Points:
    """The averages at quasi-random points; a finer resolution is another scrambling."""
    return Points(units.activations, units.K, sigma, biases, seed=int(units.finer))


def _closed(
    kind: str, f: AbstractActivation, k: AbstractActivation, q: Array, c: Array, p: Array
) -> Array:
    if f == k and isinstance(f, AbstractClosedForm) and kind in OF_CLOSED:
        return getattr(f, OF_CLOSED[kind])([[q, c], [c, p]])
    assert f.pieces and k.pieces
    return OF_PIECES[kind](f.pieces, k.pieces, q, c, p)


def series(
    units: "Units", kind: str, sigma: Array, biases: Array | None, rule: hermite.Rule
) -> Array:
    """The averages of one kind by Hermite coefficients."""
    K = units.K
    std, rho = hermite.correlations(sigma)
    mean = jnp.zeros_like(std) if biases is None else biases
    students = units.student.coefficients(mean[:K], std[:K], rule)
    teachers = units.teacher.coefficients(mean[K:], std[K:], rule)
    of = lambda name: jnp.concatenate([getattr(students, name), getattr(teachers, name)], axis=1)
    first, second = IN_SERIES[kind]
    rows = of(first) if kind == "values" else getattr(students, first)
    rho = rho[: rows.shape[1]]
    return hermite.series(rows, of(second), hermite.powers(rho, rule.terms))
