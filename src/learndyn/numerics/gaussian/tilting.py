"""E[g'_i g'_j Δ²] for students whose slope is a sum of Gaussian functions (erf, tanh, logistic).

g'(x) = Σ_a w_a √(2/(π e_a)) exp(−x²/(2 e_a)), so that g'_i g'_j times the Gaussian density is a sum
of Gaussian densities: with A = diag(e_a, e_b) + Σ over (i, j) and X = Σ's columns i and j,

    E[g'_i g'_j Δ²] = (2/π) Σ_ab w_a w_b |A|^(−1/2) exp(−½ βᵀA⁻¹β) E_ab[Δ²]

where under E_ab the covariance is T = Σ − X A⁻¹ Xᵀ and the means −X A⁻¹ β, for biases β of i, j.
E[Δ²] of sums of error functions without biases is Mehler's series with known coefficients,

    E[Δ²] = Σ_m A_mᵀ (ρ^(2m+1)) A_m,   A_mk = c_k α_m Σ_j w_j t_jk^(m+1/2),   t = T_kk/(e_j + T_kk),

α_m² = (2/π) (2m)!/(4^m m!² (2m+1)), with powers of ρ_kl entry by entry.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from learndyn.numerics.gaussian.hermite import correlations, powers
from learndyn.numerics.gaussian.pieces import Pieces, root
from learndyn.runtime.types import Array

MOST_TERMS = 120  # of the series; the arcsine law is cheaper than more of them


def noise(
    sigma: Array, slope: Pieces, students: int, square: Callable[[Array, Any], Array],
    biases: Array | None = None,
) -> Array:  # fmt: skip
    """E[g'_i g'_j Δ²], (K, K).

    Args:
        sigma: covariance of all units, (n, n).
        slope: the students' pieces.
        students: their number K.
        square: covariance and means (None where there are no biases) → E[Δ²].
        biases: of all units, (n,), or None.

    Returns:
        The matrix.
    """
    K, J = students, len(slope.weights)
    w, e = jnp.asarray(slope.weights), jnp.asarray(slope.widths)
    i, j = np.triu_indices(K)
    a, b = np.indices((J, J)).reshape(2, -1)

    def tilted(i: Array, j: Array, a: Array, b: Array) -> Array:
        X = jnp.stack([sigma[:, i], sigma[:, j]], axis=1)
        p, q, c = e[a] + sigma[i, i], e[b] + sigma[j, j], sigma[i, j]
        det = p * q - c * c
        inverse = jnp.stack([jnp.stack([q, -c]), jnp.stack([-c, p])]) / det
        T = sigma - X @ inverse @ X.T
        weight = w[a] * w[b] * jax.lax.rsqrt(det)
        if biases is None:
            return weight * square(T, None)
        beta = jnp.stack([biases[i], biases[j]])
        weight = weight * jnp.exp(-beta @ inverse @ beta / 2)
        return weight * square(T, biases - X @ (inverse @ beta))

    over_ab = jax.vmap(tilted, (None, None, 0, 0))
    each = jax.lax.map(
        lambda ij: jnp.sum(over_ab(ij[0], ij[1], a, b)), (jnp.asarray(i), jnp.asarray(j))
    )
    upper = jnp.zeros((K, K)).at[i, j].set(2 / np.pi * each)
    return upper + jnp.triu(upper, 1).T


class ErfSums(NamedTuple):
    """Weights and widths of the error functions of every unit, (most of them, units)."""

    weights: np.ndarray
    widths: np.ndarray
    constants: np.ndarray

    @staticmethod
    def of(pieces: Sequence[Pieces]) -> "ErfSums":
        """The sums of some units; shorter ones are filled up with weights of 0."""
        J = max(len(f.weights) for f in pieces)
        filled = lambda values, by: [*values, *[by] * (J - len(values))]
        weights = np.array([filled(f.weights, 0.0) for f in pieces]).T
        widths = np.array([filled(f.widths, 1.0) for f in pieces]).T
        return ErfSums(weights, widths, np.array([f.constant for f in pieces]))

    def coefficients(self, variance: Array, terms: int) -> Array:
        """α_m Σ_j w_j t_j^(m+1/2) of every unit, (terms, units)."""
        t = variance / (self.widths + variance)
        sums = jnp.sum(self.weights * root(t) * powers(t, terms), axis=1)
        return erf_coefficients(terms)[:, None] * sums

    def square(self, T: Array, c: Array, terms: int) -> Array:
        """E[Δ²] for Δ = Σ_k c_k f_k, without biases."""
        _, rho = correlations(T)
        A = self.coefficients(jnp.diagonal(T), terms) * c
        odd = rho * powers(rho * rho, terms)
        return (c @ self.constants) ** 2 + jnp.einsum("pk,pl,pkl->", A, A, odd)

    def terms(self, std: float, accuracy: float) -> int | None:
        """How many terms of the series units of a standard deviation need; None if too many."""
        variance = np.full(len(self.constants), std**2)
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            squares = np.asarray(self.coefficients(variance, 4 * MOST_TERMS)) ** 2
        rest = np.cumsum(squares[::-1], axis=0)
        small = np.all(rest[::-1] <= accuracy * rest[-1], axis=1)
        terms = int(np.argmax(small)) + 1
        return terms if small.any() and terms <= MOST_TERMS else None


def erf_coefficients(terms: int) -> np.ndarray:
    """|α_m| for m < terms."""
    m = np.arange(terms)
    return np.sqrt(
        2 / np.pi * np.exp(gammaln(2 * m + 1) - m * np.log(4) - 2 * gammaln(m + 1)) / (2 * m + 1)
    )
