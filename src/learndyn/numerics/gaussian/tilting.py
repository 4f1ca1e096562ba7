"""E[g'_i g'_j Δ²] for students whose slope is a sum of Gaussian functions (erf, tanh, logistic).

g'(x) = Σ_a w_a √(2/(π e_a)) exp(−x²/(2 e_a)), so that g'_i g'_j times the Gaussian density is a sum
of Gaussian densities: with A = diag(e_a, e_b) + Σ over (i, j) and X = Σ's columns i and j,

    E[g'_i g'_j Δ²] = (2/π) Σ_ab w_a w_b |A|^(−1/2) exp(−½ βᵀA⁻¹β) E_ab[Δ²]

where under E_ab the covariance is T = Σ − X A⁻¹ Xᵀ and the means −X A⁻¹ β, for biases β of i, j.
For sums of error functions without biases Mehler's series has known coefficients,

    E_T[f_k f_l] = Σ_m a_mk a_ml ρ_kl^(2m+1),    a_mk = α_m Σ_j w_j t_jk^(m+1/2),

t_jk = T_kk/(e_j + T_kk) and α_m² = (2/π) (2m)!/(4^m m!² (2m+1)).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from learndyn.numerics.gaussian.hermite import correlations
from learndyn.numerics.gaussian.pieces import Pieces, root
from learndyn.runtime.types import Array

TOGETHER = 36  # tilts at once: enough to fill vector units, and few enough for the cache
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
    w, e = jnp.asarray(slope.weights), jnp.asarray(slope.widths)
    i, j, a, b, times = _tilts(students, len(slope.weights))

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

    each = times * jax.lax.map(lambda tilt: jax.vmap(tilted)(*tilt), (i, j, a, b))
    half = jnp.zeros((students, students)).at[i, j].add(each / np.pi)
    return half + half.T


def _tilts(K: int, J: int) -> tuple[np.ndarray, ...]:
    """The pairs i ≤ j of students and a, b of error functions, and how often each counts.

    In rows of equal length, the last filled up with tilts that do not count.
    """
    i, j, a, b = np.indices((K, K, J, J)).reshape(4, -1)
    times = np.where((i < j) | (a < b), 2.0, 1.0)
    kept = (i < j) | ((i == j) & (a <= b))
    count = np.count_nonzero(kept)
    rows = -(-count // TOGETHER)
    width = -(-count // rows)
    rest = np.zeros(rows * width - count, int)
    filled = lambda array: np.concatenate([array[kept], rest]).reshape(rows, width)
    return tuple(filled(array) for array in (i, j, a, b, times))


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

    def values(self, T: Array, terms: int) -> Array:
        """E[f_k f_l] without biases, (n, n), term by term, so that little memory is touched."""
        variance, (_, rho) = jnp.diagonal(T), correlations(T)
        t = variance / (self.widths + variance)

        def add(carry: tuple[Array, Array, Array], alpha: Array):
            total, power, w = carry
            a = alpha * jnp.sum(w, axis=0)
            return (total + a[:, None] * a * power, power * rho * rho, w * t), None

        start = jnp.zeros_like(rho), rho, self.weights * root(t)
        odd = jax.lax.scan(add, start, jnp.asarray(erf_coefficients(terms)), unroll=8)[0][0]
        return self.constants[:, None] * self.constants + odd

    def terms(self, std: float, accuracy: float) -> int | None:
        """How many terms of the series units of a standard deviation need; None if too many."""
        t = std**2 / (self.widths + std**2)
        m = np.arange(4 * MOST_TERMS)[:, None, None]
        sums = erf_coefficients(len(m))[:, None] * np.sum(self.weights * t ** (m + 0.5), axis=1)
        rest = np.cumsum(sums[::-1] ** 2, axis=0)
        small = np.all(rest[::-1] <= accuracy * rest[-1], axis=1)
        terms = int(np.argmax(small)) + 1
        return terms if small.any() and terms <= MOST_TERMS else None


def erf_coefficients(terms: int) -> np.ndarray:
    """|α_m| for m < terms."""
    m = np.arange(terms)
    return np.sqrt(
        2 / np.pi * np.exp(gammaln(2 * m + 1) - m * np.log(4) - 2 * gammaln(m + 1)) / (2 * m + 1)
    )
