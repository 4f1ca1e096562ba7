"""Averages of pairs of one activation, for arrays of variances and covariances.

u and w are centred Gaussian variables with variances q and p and covariance c, broadcastable
arrays of numbers. Closed forms are used where they are exact, and otherwise Hermite series, which
reach the stated accuracy for any smooth function.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import hermite, pieces
from learndyn.numerics.gaussian.base import AbstractActivation, AbstractClosedForm
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array

ACCURACY = 1e-10  # of Hermite series, relative to the mean square of the function


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
    """
    arguments = (np.asarray(a, np.float64) for a in (q, c, p))
    with full_precision():
        if is_closed(g):
            averages = _closed(g, *arguments)
        else:
            averages = _series(g, *arguments, rule=_rule(g, (q, p)))
    return PairAverages(*(np.asarray(average) for average in averages))


def mean(g: AbstractActivation, q: Array) -> np.ndarray:
    """E[g(u)], float64."""
    q = np.asarray(q, np.float64)
    if g.pieces and not g.fit:  # x and error functions are odd
        return g.pieces.constant + g.pieces.absolute * pieces.ROOT * np.sqrt(q)
    with full_precision():
        return np.asarray(hermite.values(g, np.zeros(()), np.sqrt(q), _rule(g, (q,)))[0])


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


@eqx.filter_jit
def _series(
    g: AbstractActivation, q: Array, c: Array, p: Array, rule: hermite.Rule
) -> tuple[Array, Array]:
    scale = q * p
    rho = jnp.clip(jnp.where(scale > 0, c / jnp.sqrt(jnp.where(scale > 0, scale, 1.0)), 0.0), -1, 1)
    u, w = (
        [hermite.values(f, jnp.zeros(()), jnp.sqrt(a), rule) for f in hermite.derivatives(g)[:2]]
        for a in (q, p)
    )

    def horner(a: Array, b: Array) -> Array:
        # Term by term: a table of all powers of ρ would be as many matrices as there are terms.
        add = lambda total, pair: (total * rho + pair[0] * pair[1], None)
        return jax.lax.scan(add, jnp.zeros(rho.shape), (a, b), reverse=True)[0]

    return horner(u[0], w[0]), horner(u[1], w[1])


def _rule(g: AbstractActivation, variances: tuple[Array, ...]) -> hermite.Rule:
    largest = math.sqrt(max(float(np.max(v, initial=0.0)) for v in variances))
    # Few different values, so that few programs are compiled.
    spread = 2 ** (math.ceil(2 * math.log2(max(largest, 0.5))) / 2)
    return hermite.rule_for((g,), spread, ACCURACY, 3, False)
