"""Moments of products of Gaussian variables, also under the powers of a quadratic form.

For centred v with covariance C, linear combinations z of v with covariance Σ = E[z zᵀ] and
cross = E[v zᵀ], and Δ = Σ_k c_k z_k² + noise · ε with an independent standard normal ε,

    E[e^{sΔ} f(v)] = Z(s) E[f(v)] under the tilted covariance S(s),
    S(s) = C + cross · 2sA (I − 2sΣA)⁻¹ crossᵀ,    Z(s) = det(I − 2sΣA)^(-1/2) e^{s² noise²/2},

with A = diag(c). E[Δⁿ f] is n! times the coefficient of sⁿ, and f = v_a v_b v_c v_d obeys
Wick's rule under S(s), so that four factors times any power of Δ take three products of series.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array


class Series(NamedTuple):
    """Z(s) and S(s) as truncated power series: Z[n], S[n] are the coefficients of sⁿ."""

    Z: Array
    S: Array


class Pairs(NamedTuple):
    """The products Δ^power · v_u · v_w, one for each entry of the index arrays u and w."""

    power: int
    u: Array
    w: Array


def untilted(C: Array) -> Series:
    """The series of plain Gaussian moments: the first term only, for pairs of power 0."""
    return Series(jnp.ones(1), C[None])


def tilted(C: Array, cross: Array, sigma: Array, c: Array, noise: Array, highest: int) -> Series:
    """The series of the tilt by Δ = Σ_k c_k z_k² + noise · ε.

    Args:
        C: covariance (n, n) of the variables v.
        cross: covariance (n, m) of v and z.
        sigma: covariance (m, m) of z.
        c: weights (m,) of the squares.
        noise: standard deviation of the Gaussian that is added to Δ.
        highest: the largest power of Δ that is needed.

    Returns:
        The series up to that power.
    """
    A_sigma, power = c[:, None] * sigma, jnp.eye(len(c))
    S, logs = [C], [jnp.zeros(())]
    for k in range(1, highest + 1):
        S.append(2**k * cross @ power @ (c[:, None] * cross.T))
        power = power @ A_sigma
        logs.append(2 ** (k - 1) / k * jnp.trace(power) + (noise**2 / 2 if k == 2 else 0.0))
    Z = [jnp.ones(())]
    # The exponential of a series: Z' = (log Z)' Z, so that n Z_n = Σ_k k (log Z)_k Z_{n−k}.
    for n in range(1, highest + 1):
        Z.append(sum((k * logs[k] * Z[n - k] for k in range(1, n + 1)), jnp.zeros(())) / n)
    return Series(jnp.stack(Z), jnp.stack(S))


def means(series: Series, pairs: Pairs) -> Array:
    """E[Δ^power v_u v_w] for every pair."""
    n = pairs.power
    S = jnp.tensordot(series.Z[: n + 1], series.S[n::-1], axes=1)
    return math.factorial(n) * S[pairs.u, pairs.w]


def covariance(series: Series, groups: Sequence[Pairs]) -> Array:
    """The covariance matrix of all pairs, group by group."""
    mean = jnp.concatenate([means(series, group) for group in groups])
    second = jnp.block([[_products(series, a, b) for b in groups] for a in groups])
    return second - jnp.outer(mean, mean)


def _products(series: Series, a: Pairs, b: Pairs) -> Array:
    """E[Δ^(power_a + power_b) v_u v_w v_u' v_w'], a matrix over the pairs of a and of b."""
    n = a.power + b.power
    total = jnp.zeros((len(a.u), len(b.u)))
    for k in range(n + 1):
        left = jnp.tensordot(series.Z[: k + 1], series.S[k::-1], axes=1)  # of Z(s) S(s)
        right = series.S[n - k]
        # The three pairings of four variables.
        total += jnp.outer(left[a.u, a.w], right[b.u, b.w])
        total += left[jnp.ix_(a.u, b.u)] * right[jnp.ix_(a.w, b.w)]
        total += left[jnp.ix_(a.u, b.w)] * right[jnp.ix_(a.w, b.u)]
    return math.factorial(n) * total


class Moments:
    """The moments E[Π_i v_i^(m_i)] of centred Gaussian variables; each is computed once.

    Uses Wick's theorem, E[v_i u] = Σ_j C_ij E[∂u/∂v_j].

    Args:
        C: covariance (n, n).
    """

    def __init__(self, C: Array):
        self._C = np.asarray(C, np.float64)
        self._known: dict[tuple[int, ...], float] = {}

    def __call__(self, exponents: Sequence[int]) -> float:
        """The moment for exponents m, (n,)."""
        m = tuple(exponents)
        if sum(m) % 2:
            return 0.0
        if not any(m):
            return 1.0
        if m not in self._known:
            i = next(i for i, power in enumerate(m) if power)
            rest = (*m[:i], m[i] - 1, *m[i + 1 :])
            others = (j for j, power in enumerate(rest) if power)
            each = (
                self._C[i, j] * rest[j] * self((*rest[:j], rest[j] - 1, *rest[j + 1 :]))
                for j in others
                if self._C[i, j]
            )
            self._known[m] = float(sum(each))
        return self._known[m]
