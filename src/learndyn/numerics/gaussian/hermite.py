"""Averages of pairs by Hermite coefficients (Mehler's formula), for smooth functions and biases.

With h_p = He_p/√p! and a standard normal y, the coefficients a_p(m, s) = E[f(m + s y) h_p(y)] give

    E[f(u) k(w)] = Σ_p a_p b_p ρ^p

for u of mean m and standard deviation s, w likewise, and their correlation ρ. Coefficients are
sums over an equidistant grid (trapezoid rule), which for functions with poles converges faster
than Gauss-Hermite nodes. At a kink neither does: there the coefficients must be known, and one of
the two functions must be smooth, or else the series converges too slowly near |ρ| = 1.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array

Function = Callable[[Array], Array]

STEPS = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125)
MOST_TERMS = 512
TOGETHER = 4096  # points at which a function is evaluated at once to choose a rule


class Rule(NamedTuple):
    """How coefficients are computed: the first `terms`, on a grid of `step` up to ± `reach`."""

    step: float
    reach: float
    terms: int

    @property
    def nodes(self) -> np.ndarray:
        """The grid."""
        half = int(self.reach / self.step)
        return self.step * np.arange(-half, half + 1)

    @property
    def weights(self) -> np.ndarray:
        """The weights of E[f(y)], one per node."""
        return self.step * np.exp(-(self.nodes**2) / 2) / math.sqrt(2 * math.pi)

    @property
    def table(self) -> np.ndarray:
        """The weights of a_p, (terms, nodes)."""
        return polynomials(self.nodes, self.terms) * self.weights

    @property
    def finer(self) -> "Rule":
        """A rule with smaller steps and more terms, to see what changes."""
        return Rule(self.step / 1.5, self.reach * 1.1, self.terms * 3 // 2)


class Coefficients(NamedTuple):
    """The coefficients of f, f' and f'', each (terms, units)."""

    values: Array
    slopes: Array
    curvatures: Array


def polynomials(y: np.ndarray, terms: int) -> np.ndarray:
    """h_p(y) for p < terms, (terms, nodes)."""
    table = np.ones((terms, len(y)))
    for p in range(1, terms):
        before = table[p - 2] if p > 1 else 0.0
        table[p] = (y * table[p - 1] - math.sqrt(p - 1) * before) / math.sqrt(p)
    return table


def derivatives(f: Function) -> tuple[Function, Function, Function]:
    """f, f' and f'', elementwise."""
    slope = lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
    curvature = lambda x: jax.jvp(slope, (x,), (jnp.ones_like(x),))[1]
    return f, slope, curvature


def coefficients(f: Function, mean: Array, std: Array, rule: Rule) -> Coefficients:
    """Coefficients of a smooth f around means (units,) with standard deviations (units,)."""
    z = mean + std * rule.nodes[:, None]
    slope = lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))
    (value, first), (_, second) = jax.jvp(slope, (z,), (jnp.ones_like(z),))
    return Coefficients(*(rule.table @ array for array in (value, first, second)))


def values(f: Function, mean: Array, std: Array, rule: Rule) -> Array:
    """The coefficients of f alone, (terms, …) for means and standard deviations (…)."""
    z = mean + std * rule.nodes.reshape(-1, *(1,) * jnp.ndim(mean + std))
    return jnp.tensordot(rule.table, f(z), 1)


def correlations(sigma: Array) -> tuple[Array, Array]:
    """Standard deviations (n,) and correlations (n, n); 0 with a variable that is constant."""
    variance = jnp.diagonal(sigma)
    moves = variance > 0
    # The inner `where` keeps √0 and 1/0, whose derivatives are infinite, out of unused branches.
    std = jnp.where(moves, jnp.sqrt(jnp.where(moves, variance, 1.0)), 0.0)
    inverse = jnp.where(moves, 1 / jnp.where(moves, std, 1.0), 0.0)
    return std, sigma * inverse[:, None] * inverse


def powers(rho: Array, terms: int) -> Array:
    """ρ^p for p < terms, (terms, …), in about log2(terms) products."""
    table = jnp.stack([jnp.ones_like(rho), rho])
    while len(table) < terms:
        table = jnp.concatenate([table, table * (table[-1] * rho)])
    return table[:terms]


def series(a: Array, b: Array, rho_powers: Array) -> Array:
    """Σ_p a_p b_p ρ^p for a (terms, rows) and b (terms, columns)."""
    return jnp.einsum("pk,pl,pkl->kl", a, b, rho_powers)


@functools.cache
def rule_for(
    functions: tuple[Function, ...], std: float, accuracy: float, orders: int, linear: bool
) -> Rule:
    """The coarsest rule that is accurate for functions of a variable of standard deviation `std`.

    Terms end where the rest of the coefficients, which bounds the rest of every series by the
    Cauchy-Schwarz inequality, is small; the step is the largest that leaves the others unchanged.

    Args:
        functions: smooth functions.
        std: the largest standard deviation.
        accuracy: relative to the mean square of each function.
        orders: 1 for averages of values, 3 for those of slopes and curvatures, too.
        linear: whether the other function of a pair may have a kink, so that its coefficients do
            not decay, and errors of coefficients count instead of those of their squares.

    Returns:
        The rule.
    """
    # Slopes and curvatures weigh higher coefficients, which live further out.
    reach = math.sqrt((4 if linear else 3 if orders > 1 else 2) * math.log(100 / accuracy))
    tolerance = accuracy if orders == 1 else accuracy / 10
    fine = Rule(min(0.02, 0.05 / std), reach + 2, MOST_TERMS)
    every = [d for f in functions for d in derivatives(f)[:orders]]
    exact = [_coefficients(d, std, fine) for d in every]
    rest = accuracy**2 if linear else tolerance
    terms = max(_terms(a, rest) for a in exact)

    def enough(step: float) -> bool:
        rough = (_coefficients(d, std, Rule(step, reach, terms)) for d in every)
        errors = (_error(a, b[:terms], linear) for a, b in zip(rough, exact, strict=True))
        return all(error <= tolerance for error in errors)

    return Rule(next(filter(enough, STEPS), STEPS[-1]), reach, terms)


def step_for(functions: tuple[Function, ...], std: float, accuracy: float) -> float:
    """The largest step for which the means of smooth functions do not depend on the grid's origin.

    The error of the trapezoid rule changes its sign if the grid is moved by half a step.
    """

    def enough(step: float) -> bool:
        both = (means(f, std, step) for f in functions)
        return all(abs(a - b) <= accuracy * abs(a) for a, b in both)

    return next(filter(enough, STEPS), STEPS[-1])


def means(f: Function, std: float, step: float) -> tuple[float, float]:
    """E[f(s y)] on two grids that are half a step apart."""
    y = step * np.arange(-int(9 / step), int(9 / step))
    mean = lambda y: float(np.sum(_values(f, std * y) * np.exp(-(y**2) / 2)))
    return mean(y), mean(y + step / 2)


def _values(f: Function, x: np.ndarray) -> np.ndarray:
    """f at points. They are filled up to one length, so that each operation compiles once."""
    filled = np.append(x, np.zeros(-len(x) % TOGETHER))
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        return np.asarray(f(jnp.asarray(filled)), np.float64)[: len(x)]


def _coefficients(f: Function, std: float, rule: Rule) -> np.ndarray:
    return rule.table @ _values(f, std * rule.nodes)


def _terms(a: np.ndarray, accuracy: float) -> int:
    """The number of terms that leaves a small share of Σ a_p²."""
    rest = np.cumsum(a[::-1] ** 2)[::-1]
    small = np.nonzero(rest <= accuracy * rest[0])[0]
    return min(MOST_TERMS, int(small[0]) + 2 if len(small) else MOST_TERMS)


def _error(rough: np.ndarray, exact: np.ndarray, linear: bool) -> float:
    """The largest error of a coefficient, or of Σ_p a_p² ρ^p at some ρ, relative to Σ a_p²."""
    size = np.linalg.norm(exact)
    if not size:
        return 0.0
    if linear:
        return float(np.abs(rough - exact).max() / size)
    rho = np.array([[1.0], [0.9], [0.5], [-1.0]]) ** np.arange(len(exact))
    return float(np.abs(rho @ (rough**2 - exact**2)).max() / size**2)
