"""E[g'_i g'_j Δ²] for students with one slope on either side of 0, by products of signs.

g' = p + m s_i with s_i = sgn z_i. Units are sums of 1, z, |z| = s z and error functions, which are
signs of the variable with independent noise added: E over the noise of sgn(z + √e ξ). So all
averages are of products of signs and variables, which Gaussian integration by parts (d sgn = 2δ)
reduces to the arcsine law and to E[s_1 s_2 s_3 s_4]. If two signs are of one variable, conditional
variances vanish; then sgn 0 = 0 is right, since the product of the signs is constant. For three
signs of one variable s³ = s, of which each of the three derivatives is a third.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian.orthant import four_signs
from learndyn.numerics.gaussian.pieces import (
    ROOT,
    ROUNDING,
    TWO_PI,
    Pieces,
    angle,
    determinant,
    inverse,
    inverse_root,
    root,
)
from learndyn.runtime.types import Array


class Signs(NamedTuple):
    """Δ as a sum over variables, whose values, sizes and signs enter it.

    Attributes:
        units: the unit of each variable.
        extra: the variance that each variable has beside that of its unit.
        values: factors of z, one per variable.
        sizes: factors of |z|.
        signs: factors of the sign.
        weights: c of each variable's unit, by which all its factors are multiplied.
        constant: the term without a variable.
    """

    units: np.ndarray
    extra: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    signs: np.ndarray
    weights: Array
    constant: Array

    @staticmethod
    def of(pieces: Sequence[Pieces], c: Array) -> "Signs":
        """Δ = Σ_k c_k f_k: one variable per unit with a ramp, and one per error function."""
        rows = [
            (k, *row)
            for k, f in enumerate(pieces)
            for row in (
                *([(0.0, f.linear, f.absolute, 0.0)] if f.linear or f.absolute else []),
                *((e, 0.0, 0.0, w) for w, e in zip(f.weights, f.widths, strict=True)),
            )
        ]
        units = np.array([row[0] for row in rows])
        constant = c @ np.array([f.constant for f in pieces])
        extra, values, sizes, signs = np.array([row[1:] for row in rows]).T
        return Signs(units, extra, values, sizes, signs, c[units], constant)


class AbstractVariables(abc.ABC):
    """Covariances and variances of variables, by arrays of indices.

    Every number is computed once per pair of arrays, so that programs stay small.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def _once(self, compute: Callable[..., Any], *indices: np.ndarray) -> Any:
        # The indices are kept, too: an `id` is unique only among objects that exist.
        key = (compute.__name__, *sorted(map(id, indices)))
        if key not in self._known:
            self._known[key] = (compute(*indices), *indices)
        return self._known[key][0]

    def cov(self, a: np.ndarray, b: np.ndarray) -> Array:
        """Cov(a, b)."""
        return self._once(self._cov, a, b)

    def var(self, a: np.ndarray) -> Array:
        """Var a."""
        return self._once(self._var, a)

    def given(self, at: np.ndarray) -> "Given":
        """The variables, given that `at` is 0."""
        return self._once(self._given, at)

    def _given(self, at: np.ndarray) -> "Given":
        return Given(self, at)

    @abc.abstractmethod
    def _cov(self, a: np.ndarray, b: np.ndarray) -> Array: ...

    @abc.abstractmethod
    def _var(self, a: np.ndarray) -> Array: ...


class Variables(AbstractVariables):
    """Those of students, then those of Δ."""

    def __init__(self, sigma: Array, students: int, delta: Signs):
        super().__init__()
        self.units = np.concatenate([np.arange(students), delta.units])
        self.extra = np.concatenate([np.zeros(students), delta.extra])
        self._sigma = sigma

    def _cov(self, a: np.ndarray, b: np.ndarray) -> Array:
        # The noise of two error functions is independent, also of the same one.
        return self._sigma[self.units[a], self.units[b]]

    def _var(self, a: np.ndarray) -> Array:
        return self._cov(a, a) + self.extra[a]

    def same(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whether the signs of a and b are equal, so that their product is 1."""
        return (self.units[a] == self.units[b]) & (self.extra[a] + self.extra[b] == 0)


class Given(AbstractVariables):
    """Variables, given that one of them is 0."""

    def __init__(self, free: AbstractVariables, at: np.ndarray):
        super().__init__()
        self.free, self.at, self._over = free, at, inverse(free.var(at))

    def _cov(self, a: np.ndarray, b: np.ndarray) -> Array:
        of = self.free.cov
        return of(a, b) - of(a, self.at) * of(b, self.at) * self._over

    def _var(self, a: np.ndarray) -> Array:
        # 0 where the difference is rounding.
        whole = self.free.var(a)
        rest = whole - self.free.cov(a, self.at) ** 2 * self._over
        return jnp.where(rest > ROUNDING * whole, rest, 0.0)


def noise(sigma: Array, c: Array, students: int, pieces: Sequence[Pieces], square: Array) -> Array:
    """E[g'_i g'_j Δ²], (K, K).

    Args:
        sigma: covariance of all units, (n, n).
        c: their weights in Δ, (n,).
        students: K, the number of leading units that i and j run over.
        pieces: of every unit.
        square: E[Δ²].

    Returns:
        The matrix.
    """
    K, delta = students, Signs.of(pieces, c)
    variables = Variables(sigma, K, delta)
    p, m = pieces[0].linear, pieces[0].absolute
    one = _with_one_sign(variables, K, delta)
    two = jnp.eye(K) * square
    if K > 1:
        i, j = np.triu_indices(K, 1)
        off = _with_two_signs(variables, K, delta, i[:, None], j[:, None])
        two = two.at[i, j].set(off).at[j, i].set(off)
    return p * p * square + p * m * (one[:, None] + one) + m * m * two


def _with_one_sign(v: Variables, K: int, delta: Signs) -> Array:
    """E[s_i Δ²], (K,): twice the product of the even and the odd part of Δ."""
    i, k = np.ogrid[:K, K : K + len(delta.units)]
    c, q, p = v.cov(i, k), v.var(i), v.var(k)
    odd = delta.values * ROOT * c * inverse_root(q) + delta.signs * TWO_PI * angle(q, c, p)
    total = delta.constant * (odd @ delta.weights)
    l = k[:, None, :]
    i, k, c, q, p = (array[:, :, None] for array in (i, k, c, q, p))
    # E[s_i |z_k| z_l] and E[s_i |z_k| S_l].
    sized = v.cov(l, i) * root(determinant(q, c, p)) * inverse(q) + v.cov(l, k) * angle(q, c, p)
    products = TWO_PI * sized * delta.values
    if delta.signs.any():
        products += _three_signs(v, (i, k, l), k) * delta.signs
    sizes = delta.sizes * delta.weights
    return 2 * (total + jnp.einsum("ikl,k,l->i", products, sizes, delta.weights))


def _with_two_signs(v: Variables, K: int, delta: Signs, i: np.ndarray, j: np.ndarray) -> Array:
    """E[s_i s_j Δ²], one for each of the pairs i, j."""
    n = len(delta.units)
    k = K + np.arange(n)[None]
    sizes, weights = delta.sizes * delta.weights, delta.weights
    both = TWO_PI * angle(v.var(i), v.cov(i, j), v.var(j))[:, 0]
    total = delta.constant**2 * both
    total += 2 * delta.constant * (_three_signs(v, (i, j, k), k) @ sizes)
    if delta.signs.any():
        mixed = _three_signs(v, (i[:, :, None], j[:, :, None], k[:, None, :]), k[:, :, None])
        values, signs = delta.values * weights, delta.signs * weights
        total += 2 * jnp.einsum("akl,k,l->a", mixed, values, signs)
    k, l = np.triu_indices(n)
    of_pair = np.where(k == l, 1.0, 2.0) * weights[k] * weights[l]
    return total + _pairs(v, delta, i, j, K + k[None], K + l[None]) @ of_pair


def _pairs(
    v: Variables, delta: Signs, i: np.ndarray, j: np.ndarray, k: np.ndarray, l: np.ndarray
) -> Array:
    """E[s_i s_j f_k f_l] of values, sizes and signs of variables k and l, (pairs ij, pairs kl)."""
    K = len(v.units) - len(delta.units)
    product = lambda factors: (factors[k - K] * factors[l - K])[0]
    four = _four_signs(v, i, j, k, l)
    total = four * product(delta.signs)
    if delta.values.any():
        total += _two_signs_two_values(v, i, j, k, l) * product(delta.values)
    if delta.sizes.any():
        sized = v.cov(k, l) * four
        for x, others in ((i, (j, k)), (j, (i, k)), (k, (i, j))):
            slope = ROOT * v.cov(k, x) * inverse_root(v.var(x))
            sized += slope * _three_signs(v.given(x), (*others, l), l)
        total += sized * product(delta.sizes)
    return total


def _two_signs_two_values(
    v: Variables, i: np.ndarray, j: np.ndarray, k: np.ndarray, l: np.ndarray
) -> Array:
    """E[s_i s_j z_k z_l]."""
    total = v.cov(k, l) * TWO_PI * angle(v.var(i), v.cov(i, j), v.var(j))
    for x, y in ((i, j), (j, i)):
        rest = v.given(x)
        slope = TWO_PI * v.cov(k, x) * inverse_root(v.var(x))
        total += slope * rest.cov(l, y) * inverse_root(rest.var(y))
    return total


def _three_signs(v: AbstractVariables, signs: tuple[np.ndarray, ...], value: np.ndarray) -> Array:
    """E[s_1 s_2 s_3 z]."""
    total = jnp.zeros(())
    for x, a, b in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        rest = v.given(signs[x])
        arc = angle(rest.var(signs[a]), rest.cov(signs[a], signs[b]), rest.var(signs[b]))
        two = TWO_PI * arc + _of_one_variable(rest, signs[a], signs[b])
        total += v.cov(value, signs[x]) * inverse_root(v.var(signs[x])) * two
    return ROOT * total


def _of_one_variable(v: AbstractVariables, a: np.ndarray, b: np.ndarray) -> Array:
    """± 1/3 where a and b are 0 because both are multiples of one variable that is 0."""
    if not isinstance(v, Given):
        return jnp.zeros(())
    free = v.free
    now = (v.var(a) == 0) & (v.var(b) == 0) & (free.var(a) > 0) & (free.var(b) > 0)
    product = jnp.sign(free.cov(a, v.at)) * jnp.sign(free.cov(b, v.at)) / 3
    return jnp.where(now, product, _of_one_variable(free, a, b))


def _four_signs(v: Variables, i: np.ndarray, j: np.ndarray, k: np.ndarray, l: np.ndarray) -> Array:
    """E[s_i s_j s_k s_l], by quadrature only where no two of the signs are the same."""
    i, j, k, l = np.broadcast_arrays(i, j, k, l)
    two = lambda a, b: TWO_PI * angle(v.var(a), v.cov(a, b), v.var(b))
    total = jnp.zeros(i.shape)
    left = np.ones(i.shape, bool)
    for a, b, c, d in ((k, l, i, j), (i, k, j, l), (i, l, j, k), (j, k, i, l), (j, l, i, k)):
        where = left & v.same(a, b)
        at = np.nonzero(where)
        total = total.at[at].set(two(c[at], d[at]))
        left &= ~where
    at = np.nonzero(left)
    i, j, k, l = (index[at] for index in (i, j, k, l))
    rho = lambda a, b: v.cov(a, b) * inverse_root(v.var(a)) * inverse_root(v.var(b))
    each = [rho(a, b) for a, b in ((i, j), (i, k), (i, l), (j, k), (j, l), (k, l))]
    return total.at[at].set(four_signs(jnp.stack(each)))
