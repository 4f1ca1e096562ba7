"""Gaussian averages over the hidden units of a student and a teacher.

z = (student, teacher) pre-activations are jointly Gaussian and centred, with covariance Σ; unit k
computes f_k(z_k + b_k), where f_k = g for the K students, f for the M teachers. `pairs` has the
averages of two factors. For E[g'_i g'_j Δ²] the first of these ways is taken that applies:

    closed form          one function with closed forms; a linear student; without biases also a
                         quadratic one, and one with a kink at 0 if the teacher's pieces are known
    Gaussian tilts       students that are sums of erfs
    conditioning         smooth functions
    quasi-random points  the rest
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import conditioning, hermite, pairs, signs, tilting
from learndyn.numerics.gaussian.base import AbstractActivation, AbstractClosedForm
from learndyn.numerics.gaussian.pairs import CLOSED, POINTS, SERIES
from learndyn.numerics.gaussian.quadratic import Quadratic
from learndyn.runtime.types import Array

TILTS, CONDITIONING = "Gaussian tilts", "conditioning"


class Units(eqx.Module):
    """K units with activation g, then M units with activation f, with their Gaussian averages.

    Arguments of the methods are traced: `sigma` the covariance (n, n) of z, n = K + M, `biases`
    (n,) or None. None is known when a program is compiled, so that units without biases keep their
    closed forms.

    Args:
        student: g.
        teacher: f.
        K: number of students.
        M: number of teachers.
        accuracy: the error that averages without a closed form aim at, relative to the largest.
        spread: the largest standard deviation of z that the resolution is made for; see `resolved`.
        finer: whether the resolution is finer than that, to see what changes.
    """

    student: AbstractActivation
    teacher: AbstractActivation
    K: int = eqx.field(static=True)
    M: int = eqx.field(static=True)
    accuracy: float = eqx.field(static=True)
    spread: float = eqx.field(static=True)
    finer: bool = eqx.field(static=True)

    def __init__(
        self, student: AbstractActivation, teacher: AbstractActivation, K: int, M: int,
        accuracy: float = 1e-6, spread: float = 2.0, finer: bool = False,
    ):  # fmt: skip
        better = accuracy / 5 if finer else accuracy
        self.student, self.teacher = (f.with_accuracy(better) for f in (student, teacher))
        self.K, self.M, self.accuracy, self.spread, self.finer = K, M, accuracy, spread, finer

    def values(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[f_k f_l], (n, n)."""
        return pairs.table(self, "values", *_arrays(sigma, biases))

    def slopes(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[g'_i f'_k], (K, n)."""
        return pairs.table(self, "slopes", *_arrays(sigma, biases))

    def curvatures(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[g''_i f_k], (K, n)."""
        return pairs.table(self, "curvatures", *_arrays(sigma, biases))

    def slope_values(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[g'_i f_k], (K, n): the drift of the biases."""
        return pairs.table(self, "slope_values", *_arrays(sigma, biases))

    def noise(self, sigma: Array, c: Array, biases: Array | None = None) -> Array:
        """E[g'_i g'_j Δ²], (K, K), where Δ = Σ_k c_k f_k for weights c (n,)."""
        (sigma, biases), c = _arrays(sigma, biases), jnp.asarray(c)
        way = self.noise_way(biases is not None)
        if way == POINTS:
            return pairs.points(self, sigma, biases).noise(c)
        if way == CONDITIONING:
            b = jnp.zeros(len(c)) if biases is None else biases
            return conditioning.noise(self, sigma, c, b, self.grid)
        if way == TILTS:
            return self._tilted(sigma, c, biases)
        return self._closed_noise(sigma, c, biases)

    def _closed_noise(self, sigma: Array, c: Array, biases: Array | None) -> Array:
        g, K = self.student, self.K
        if biases is None and isinstance(g, AbstractClosedForm) and g == self.teacher:
            return g.weighted_noise(sigma, c, K)
        square = lambda sigma: c @ self.values(sigma, biases) @ c
        if isinstance(g, Quadratic):
            return _quadratic_noise(square, sigma, K)
        assert g.pieces
        if g.pieces.mean_slope_only:
            return jnp.full((K, K), g.pieces.linear**2 * square(sigma))
        return signs.noise(sigma, c, K, self.pieces, square(sigma))

    def _tilted(self, sigma: Array, c: Array, biases: Array | None) -> Array:
        assert self.student.pieces
        values = self.values  # the arcsine law, and teachers with kinks
        if self.student.smooth and self.teacher.smooth:
            values = lambda T, means: pairs.series(self, "values", T, means, self.values_rule)
        if biases is None and all(f and f.gaussian_slope for f in self.pieces):
            sums = tilting.ErfSums.of(self.pieces)
            terms = sums.terms(self.spread, self.accuracy * (0.1 if self.finer else 1.0))
            values = self.values if terms is None else lambda T, _: sums.values(T, terms)
        square = lambda T, means: c @ values(T, means) @ c
        return tilting.noise(sigma, self.student.pieces, self.K, square, biases)

    def resolved(self, sigma: Array) -> "Units":
        """The same units, with the numerical resolution that a given covariance needs.

        It is chosen before anything is compiled, so `sigma` is an array of numbers here, of any
        leading shape. A quarter is added to the largest standard deviation, for what training adds.
        """
        variances = np.diagonal(np.asarray(sigma), axis1=-2, axis2=-1)
        largest = 1.25 * math.sqrt(max(float(np.max(variances)), 0.0))
        # Few different values, so that few programs are compiled.
        spread = 2 ** (math.ceil(2 * math.log2(max(largest, 0.5))) / 2)
        return dataclasses.replace(self, spread=spread)

    def method(self, biased: bool = False) -> str:
        """How the averages are computed, with the names of all ways that are taken."""
        ways = self._ways(biased)
        names = [way for way in (CLOSED, SERIES, TILTS, CONDITIONING, POINTS) if way in ways]
        fits = (f.fit for f in (self.student, self.teacher) if f.fit)
        return ", ".join(dict.fromkeys([*names, *fits]))

    def approximate(self, biased: bool = False) -> bool:
        """Whether some averages are over quasi-random points, with an error of about 1 %."""
        return POINTS in self._ways(biased)

    def error(self, sigma: Array, c: Array, biases: Array | None = None) -> float:
        """The change of the averages under refinement, relative to the largest of each kind."""
        if self.method(biases is not None) == CLOSED:
            return 0.0
        finer = dataclasses.replace(self, finer=True)
        with jax.enable_x64(True):
            both = (_averages(units, sigma, c, biases) for units in (self, finer))
            return max(_change(a, b) for a, b in zip(*both, strict=True))

    def noise_way(self, biased: bool) -> str:
        """The way of E[g'_i g'_j Δ²]."""
        g, f = self.student, self.teacher
        if g.pieces and g.pieces.mean_slope_only:
            return CLOSED
        closed = isinstance(g, Quadratic) or (isinstance(g, AbstractClosedForm) and g == f)
        if not biased and closed:
            return CLOSED
        if not biased and g.pieces and g.pieces.stepwise_slope and f.pieces:
            return CLOSED
        if g.pieces and g.pieces.gaussian_slope and POINTS not in self._pair_ways(biased):
            return TILTS
        return CONDITIONING if g.smooth and f.smooth else POINTS

    def _pair_ways(self, biased: bool) -> set[str]:
        g, f = self.student, self.teacher
        return {pairs.way(*both, biased) for both in ((g, g), (g, f), (f, f))}

    def _ways(self, biased: bool) -> set[str]:
        return {*self._pair_ways(biased), self.noise_way(biased)}

    def activations(self, z: Array) -> Array:
        """All activations, along the last axis."""
        parts = self.student(z[..., : self.K]), self.teacher(z[..., self.K :])
        return jnp.concatenate(parts, axis=-1)

    @property
    def pieces(self) -> list[Any]:
        """The pieces of every unit, None where there are none."""
        return [self.student.pieces] * self.K + [self.teacher.pieces] * self.M

    @property
    def rule(self) -> hermite.Rule:
        """The resolution of Hermite series."""
        both = tuple(dict.fromkeys((self.student, self.teacher)))
        smooth = tuple(f for f in both if f.smooth)
        kinked = len(smooth) < len(both)
        rule = hermite.rule_for(smooth, self.spread, self.accuracy, 3, kinked)
        return rule.finer if self.finer else rule

    @property
    def values_rule(self) -> hermite.Rule:
        """The resolution of Hermite series of values alone, of smooth functions."""
        both = self.student, self.teacher
        rule = hermite.rule_for(both, self.spread, self.accuracy, 1, False)
        return rule.finer if self.finer else rule

    @property
    def grid(self) -> conditioning.Grid:
        """The resolution of conditioning."""
        g, f = self.student, self.teacher
        slope = hermite.derivatives(g)[1]
        squares = tuple((lambda x, k=k: (slope(x) * k(x)) ** 2) for k in (g, f))
        step = hermite.step_for(squares, self.spread, self.accuracy)
        step, smallest = (step / 1.5, 1e-4) if self.finer else (step, 1e-2)
        outer = hermite.Rule(step, reach=9.0, terms=1)
        return conditioning.Grid(outer, self.values_rule, smallest * self.accuracy)


def _arrays(sigma: Array, biases: Array | None) -> tuple[Array, Array | None]:
    return jnp.asarray(sigma), None if biases is None else jnp.asarray(biases)


def _quadratic_noise(square: Any, sigma: Array, K: int) -> Array:
    """4 E[z_i z_j Δ²] by Price's theorem: the derivative of E[Δ²] along s_i s_jᵀ + s_j s_iᵀ."""

    def entry(i: Array, j: Array) -> Array:
        direction = jnp.outer(sigma[i], sigma[j])
        value, slope = jax.jvp(square, (sigma,), (direction + direction.T,))
        return 4 * (sigma[i, j] * value + slope)

    every = jnp.arange(K)
    return jax.vmap(jax.vmap(entry, (None, 0)), (0, None))(every, every)


@eqx.filter_jit
def _averages(units: Units, sigma: Array, c: Array, biases: Array | None) -> list[Array]:
    kinds = [units.values, units.slopes, units.curvatures]
    # Without biases these do not enter, and vanish for odd functions.
    kinds += [] if biases is None else [units.slope_values]
    return [*(kind(sigma, biases) for kind in kinds), units.noise(sigma, c, biases)]


def _change(a: Array, b: Array) -> float:
    largest = max(float(jnp.max(jnp.abs(b))), 1e-300)
    return float(jnp.max(jnp.abs(a - b))) / largest
