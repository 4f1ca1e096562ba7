"""Averages of pairs of one activation, for arrays of variances and covariances.

u and w are centred Gaussian variables with variances q and p and covariance c, broadcastable
arrays of numbers. Closed forms are used where they are exact. Other activations are smooth: a
variable u = √q y has Hermite coefficients a_k = E[g(√q y) h_k(y)] (`hermite.py`), and with the
correlation ρ

    E[g(u) g(w)] = Σ_k a_k b_k ρ^k,    |Σ_{k ≥ K} a_k b_k ρ^k| ≤ |ρ|^K √(rest_a rest_b),

where rest_a = E[g(u)²] − Σ_{k < K} a_k² is known, so that the series ends where it is accurate.
The number of terms grows with the variance; at |ρ| = 1 the average is one over y alone.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import pieces
from learndyn.numerics.gaussian.activation import Activation
from learndyn.numerics.gaussian.base import AbstractActivation, AbstractClosedForm
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array

ACCURACY = 1e-11  # of a series, relative to the root of the product of both mean squares
ALLOWED = 1e-7  # the same, of a series with as many terms as there may be
MOST_TERMS = 8192
BLOCK = 64  # terms that are computed together
REACH = 11.0  # of y: the root of its density is e^(−30) there
STEPS = 0.25, 0.25  # at most, of y and of √q y: no named function has poles within 1.5 of 0
FINEST = 2**-8  # of the latter, for functions of users
LARGEST = (
    1e6  # variance of a series: the number of nodes grows with its root, as does that of terms
)
SAME = 1e-13  # 1 − |ρ| of variables that are multiples of each other, but for rounding
TOGETHER = 2**16  # points at which a function is evaluated at once


class PairAverages(NamedTuple):
    """E[g(u) g(w)] and E[g'(u) g'(w)]."""

    values: np.ndarray
    slopes: np.ndarray


def pair_averages(g: AbstractActivation, q: Array, c: Array, p: Array) -> PairAverages:
    """E[g(u) g(w)] and E[g'(u) g'(w)], float64.

    Args:
        g: the activation; one with kinks must have `pieces`.
        q: variances of u.
        c: covariances.
        p: variances of w.

    Returns:
        The averages, in the shape that the arguments broadcast to.

    Raises:
        ValueError: where variances are so large that a series is not accurate.
    """
    arguments = [np.asarray(a, np.float64) for a in (q, c, p)]
    with full_precision():
        averages = _closed(g, *arguments) if is_closed(g) else _series(g, *arguments)
        found = [np.asarray(average) for average in averages]
    return PairAverages(*found)


def mean(g: AbstractActivation, q: Array) -> np.ndarray:
    """E[g(u)], float64."""
    q = np.asarray(q, np.float64)
    if g.pieces and not g.fit:  # x and error functions are odd
        return g.pieces.constant + g.pieces.absolute * pieces.ROOT * np.sqrt(q)
    with full_precision():
        y, weights = _grid_for(g, q.max(initial=0.0))
        return np.tensordot(weights, _tabulated(g, q, y)[0], 1)


def is_closed(g: AbstractActivation) -> bool:
    """Whether the averages have closed forms of g itself, not of a fit to it."""
    return isinstance(g, AbstractClosedForm) or (g.pieces is not None and not g.fit)


@eqx.filter_jit
def _closed(g: AbstractActivation, q: Array, c: Array, p: Array) -> tuple[Array, Array]:
    if isinstance(g, AbstractClosedForm):
        C = [[q, c], [c, p]]
        values, slopes = g.I2(C), g.slopes(C)
    else:
        assert g.pieces
        values, slopes = (
            average(g.pieces, g.pieces, q, c, p)
            for average in (pieces.pair_values, pieces.pair_slopes)
        )
    shape = jnp.broadcast_shapes(q.shape, c.shape, p.shape)
    return jnp.broadcast_to(values, shape), jnp.broadcast_to(slopes, shape)


def _series(
    g: AbstractActivation, q: np.ndarray, c: np.ndarray, p: np.ndarray
) -> Iterator[np.ndarray]:
    """Averages of values, then of slopes."""
    y, weights = _grid_for(g, max(q.max(initial=0), p.max(initial=0)))
    shape, size = np.broadcast_shapes(q.shape, c.shape, p.shape), np.sqrt(q * p)
    rho = np.clip(np.divide(c, size, out=np.zeros(shape), where=size > 0), -1, 1)
    same = 1 - np.abs(rho) < SAME
    apart = np.where(same, 0.0, rho)
    for u, w in zip(_tabulated(g, q, y), _tabulated(g, p, y), strict=True):
        total = np.array(_horner(*_coefficients(u, w, y, weights, apart), apart))
        total[same] = _of_multiples(u, w, weights, rho, same)
        yield total


def _coefficients(
    u: np.ndarray, w: np.ndarray, y: np.ndarray, weights: np.ndarray, rho: np.ndarray
) -> list[np.ndarray]:
    """a and b, (terms, …), of functions at the nodes, (nodes, …)."""
    largest, terms, shapes = np.abs(rho).max(initial=0.0), 0, (u.shape[1:], w.shape[1:])
    sides = [side.reshape(len(y), -1) for side in (u, w)]
    squares = [weights @ side**2 for side in sides]
    rests, parts = list(squares), ([], [])
    for table in _polynomials(y):
        terms += BLOCK
        for i, side in enumerate(sides):
            parts[i].append((table * weights) @ side)
            rests[i] = rests[i] - np.sum(parts[i][-1] ** 2, axis=0)
        shares = [_largest_share(*pair) for pair in zip(rests, squares, strict=True)]
        error = largest**terms * math.sqrt(shares[0] * shares[1])
        if error <= ACCURACY:
            break
        if terms >= MOST_TERMS and error > ALLOWED:
            raise ValueError(
                f"variance: got variables with correlations of up to {largest:.6g}, whose averages "
                f"are accurate to {error:.1g}; allowed is {ALLOWED:g}, as of smaller inputs"
            )
        if terms >= MOST_TERMS:
            break
    joined = (np.concatenate(part) for part in parts)
    return [part.reshape(terms, *shape) for part, shape in zip(joined, shapes, strict=True)]


def _polynomials(y: np.ndarray) -> Iterator[np.ndarray]:
    """Normalised Hermite polynomials, (BLOCK, nodes) at a time, without end."""
    before, now, k = np.zeros_like(y), np.ones_like(y), 0
    while True:
        table = np.empty((BLOCK, len(y)))
        for row in table:
            row[:] = now
            before, now = now, (y * now - math.sqrt(k) * before) / math.sqrt(k + 1)
            k += 1
        yield table


def _largest_share(rests: np.ndarray, squares: np.ndarray) -> float:
    """The largest rest relative to its mean square."""
    shares = np.divide(rests, squares, out=np.zeros_like(rests), where=squares > 0)
    return float(shares.max(initial=0.0))


@jax.jit
def _horner(a: Array, b: Array, rho: Array) -> Array:
    # Term by term: a table of all powers of ρ would be as many matrices as there are terms.
    add = lambda total, pair: (total * rho + pair[0] * pair[1], None)
    return jax.lax.scan(add, jnp.zeros(rho.shape), (a, b), reverse=True)[0]


def _of_multiples(
    u: np.ndarray, w: np.ndarray, weights: np.ndarray, rho: np.ndarray, same: np.ndarray
) -> np.ndarray:
    """Averages where ρ is 1 or −1: both functions are of one y, which the grid has as −y too."""
    found, signs = [], rho[same] < 0
    columns = [_columns(side, same) for side in (u, w)]
    sides = [side.reshape(len(weights), -1) for side in (u, w)]
    for part in np.array_split(np.arange(len(signs)), 1 + len(signs) * len(weights) // 2**22):
        left, right = (side[:, column[part]] for side, column in zip(sides, columns, strict=True))
        found.append(weights @ (left * np.where(signs[part], right[::-1], right)))
    return np.concatenate(found)


def _columns(side: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Which entries of a side, flattened, belong to the chosen pairs."""
    numbers = np.arange(side[0].size).reshape(side.shape[1:])
    return np.broadcast_to(numbers, chosen.shape)[chosen]


def _grid_for(g: AbstractActivation, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """A grid that resolves g: a finer one for a function whose mean squares it would change."""
    if variance > LARGEST:
        raise ValueError(
            f"variance: got pre-activations of variance {variance:.3g}; allowed is {LARGEST:g}, as "
            "of smaller inputs"
        )
    step = STEPS[1]
    if not isinstance(g, Activation):
        return _grid(variance, step)
    now = _mean_squares(g, variance, step)
    while step > FINEST:
        step, before, now = step / 2, now, _mean_squares(g, variance, step / 2)
        if np.all(np.abs(now - before) <= ACCURACY * now):
            return _grid(variance, 2 * step)
    raise ValueError(
        "activation: got one that changes too fast for pre-activations of variance "
        f"{variance:.3g}; allowed is a smoother one"
    )


def _mean_squares(g: AbstractActivation, variance: float, step: float) -> np.ndarray:
    """E[g(u)²] and E[g'(u)²] for one variance."""
    y, weights = _grid(variance, step)
    return np.array([weights @ side**2 for side in _tabulated(g, np.asarray(variance), y)])


def _grid(variance: float, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of averages over a standard normal y (trapezoid rule).

    Steps of √q y, for a variance q, are at most `largest`.
    """
    step = min(STEPS[0], largest / max(math.sqrt(variance), 1e-300))
    half = int(REACH / step)
    y = step * np.arange(-half, half + 1)
    return y, step * np.exp(-(y**2) / 2) / math.sqrt(2 * math.pi)


def _tabulated(g: AbstractActivation, q: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """g and its slope at √q y, (nodes, …). Of one length at a time, so that they compile once."""
    z = np.sqrt(q) * y.reshape(-1, *(1,) * q.ndim)
    if z.size == 0:
        return [z, z]
    rows = np.pad(z.reshape(-1), (0, -z.size % TOGETHER)).reshape(-1, TOGETHER)
    parts = zip(*(_with_slope(g, row) for row in rows), strict=True)
    return [np.concatenate(part)[: z.size].reshape(z.shape) for part in parts]


@eqx.filter_jit
def _with_slope(g: AbstractActivation, z: Array) -> tuple[Array, Array]:
    return jax.jvp(g, (z,), (jnp.ones_like(z),))
