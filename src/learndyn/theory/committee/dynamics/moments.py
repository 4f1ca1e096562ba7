"""The closure by powers of the covariance, kept for comparison (worschech2024scaling).

Q^(l) = Σ_k λ_k^l q^k, and likewise R^(l) and T^(l), l = 0 … L−1, closed by Cayley-Hamilton,

    X^(L) = −Σ_{l<L} c_l X^(l),   Π_k (z − λ_k) = Σ_l c_l z^l,

with right-hand sides in the form of the paper, by the averages I3 and I4 (Eqs. 4 and 18 with
corrected prefactors; 24 to 29 for linear units). In exact arithmetic they agree with the
level-resolved equations. In double precision rounding errors of the powers exceed the solution
beyond L = 12 or so.

Scales of the paper: student (√M/K) Σ g(x_i), teacher (1/√M) Σ g(y_n), loss (1/2)(ζ − σ)².
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from learndyn.numerics.gaussian import ACTIVATIONS, AbstractClosedForm, tabulate
from learndyn.runtime.checks import one_of
from learndyn.runtime.precision import as_float64, in_float64
from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.state import Overlaps


class Moments(eqx.Module):
    """Order parameters by power of the covariance: Q[l] = J Σ^l Jᵀ / N, likewise R and T.

    Args:
        Q: (L, K, K), l = 0 … L−1.
        R: (L, K, M).
        T: (L, M, M).
    """

    Q: Array = eqx.field(converter=as_float64)
    R: Array = eqx.field(converter=as_float64)
    T: Array = eqx.field(converter=as_float64)


def moments_of(levels: Overlaps, lam: ArrayLike) -> Moments:
    """Q^(l) = Σ_k λ_k^l q^k for l = 0 … L−1, and likewise R and T.

    Args:
        levels: overlaps by level.
        lam: eigenvalues λ_k, (L,).

    Returns:
        The moments.
    """
    powers = np.vander(np.asarray(lam, dtype=np.float64), increasing=True).T
    sums = (np.einsum("lk,kij->lij", powers, a) for a in (levels.Q, levels.R, levels.T))
    return Moments(*sums)


def moment(blocks: ArrayLike, lam: ArrayLike, l: Int) -> np.ndarray:
    """X^(l) = Σ_k λ_k^l x^k of one kind of overlaps, for any l.

    Args:
        blocks: x^k, (…, L, rows, columns).
        lam: eigenvalues λ_k, (L,).
        l: the power.

    Returns:
        X^(l), (…, rows, columns).
    """
    lam, blocks = (np.asarray(a, dtype=np.float64) for a in (lam, blocks))
    return np.einsum("k,...kij->...ij", lam ** int(l), blocks)


def characteristic(lam: ArrayLike) -> np.ndarray:
    """c_0 … c_{L−1} of Π_k (z − λ_k) = z^L + Σ_l c_l z^l, (L,)."""
    return np.poly(np.asarray(lam, dtype=np.float64))[:0:-1]


def companion(lam: ArrayLike) -> np.ndarray:
    """A₁ of dR/dα = η (A₁ R + u) for one linear unit (Eqs. 27 and 28); eigenvalues −λ_k."""
    c = characteristic(lam)
    A1 = -np.eye(len(c), k=1)
    A1[-1] = c
    return A1


@in_float64
def drift(
    moments: Moments,
    lam: ArrayLike,
    phi: ArrayLike,
    eta: float | Array,
    activation: str = "erf",
    order: str = "full",
) -> Moments:
    """d moments/dα (Eqs. 4 and 18, corrected).

    dR^(l)_in = (η/K) [Σ_m I3(x_i, y_n^(l), y_m) − (M/K) Σ_j I3(x_i, y_n^(l), x_j)], with
    Cov(x_i, y_n^(l)) = R^(l+1)_in and Cov(y_n^(l), y_m) = T^(l+1)_nm; dQ^(l) likewise, plus
    (η²/K²) ν_{l+1} [Σ I4(x_i x_j y_n y_m) + (M/K)² Σ I4(x_i x_j x_k x_l)
    − (2M/K) Σ I4(x_i x_j x_k y_n)], ν_l = (1/N) tr Σ^l.

    Args:
        moments: the state.
        lam: eigenvalues λ_k, (L,).
        phi: fractions N_k/N, (L,).
        eta: learning rate.
        activation: "erf" or "linear".
        order: "full", or "flow" without the η² term.

    Returns:
        The right-hand side; zero for T.
    """
    one_of("activation", activation, ("erf", "linear"))
    nu = traces(lam, phi) * float(one_of("order", order, ("full", "flow")) == "full")
    eta, g = jnp.asarray(eta), ACTIVATIONS[activation]
    return _right_hand_side(moments, jnp.asarray(characteristic(lam)), nu, eta, g)


@in_float64
def error(moments: Moments, lam: ArrayLike, activation: str = "erf") -> Array:
    """ε_g = ½ [(1/M) Σ I2(y,y) + (M/K²) Σ I2(x,x) − (2/K) Σ I2(x,y)] (Eq. 19, corrected)."""
    one_of("activation", activation, ("erf", "linear"))
    K, M = moments.R.shape[1:]
    c = jnp.concatenate([jnp.full(K, -(M**0.5) / K), jnp.full(M, M**-0.5)])
    return half_square(moments, jnp.asarray(characteristic(lam)), c, ACTIVATIONS[activation])


@eqx.filter_jit
def half_square(moments: Moments, coefficients: Array, c: Array, g: AbstractClosedForm) -> Array:
    """½ E[(Σ_k c_k g(z_k))²] over z = (x, y), by I2."""
    Q, R, T = shifted(moments, coefficients)
    every = range(len(c))
    I2 = tabulate(g.I2, jnp.block([[Q[0], R[0]], [R[0].T, T[0]]]), every, every)
    return c @ I2 @ c / 2


@eqx.filter_jit
def _right_hand_side(
    moments: Moments, coefficients: Array, nu: Array, eta: Array, g: AbstractClosedForm
) -> Moments:
    Q, R, T = shifted(moments, coefficients)
    K, M = R.shape[1:]
    first = jnp.block([[Q[0], R[0]], [R[0].T, T[0]]])
    c = jnp.concatenate([jnp.full(K, -M / K), jnp.ones(M)])
    dR = eta / K * weighted_I3(g, first, c, R, jnp.concatenate([R, T], axis=1))
    half = eta / K * weighted_I3(g, first, c, Q, jnp.concatenate([Q, R.swapaxes(1, 2)], axis=1))
    I4 = tabulate(g.I4, first, range(K), range(K), range(K + M), range(K + M))
    noise = jnp.einsum("ijkl,k,l->ij", I4, c, c)
    dQ = half + half.swapaxes(1, 2) + eta**2 / K**2 * nu[:, None, None] * noise
    return Moments(dQ, dR, jnp.zeros_like(T))


def shifted(moments: Moments, coefficients: Array) -> tuple[Array, Array, Array]:
    """(Q, R, T) of powers 1 … L from those of 0 … L−1, the last by Cayley-Hamilton.

    Args:
        moments: powers 0 … L−1.
        coefficients: c_l of `characteristic`, (L,).

    Returns:
        The three arrays, shifted by one power.
    """
    close = lambda X: jnp.concatenate([X[1:], -jnp.tensordot(coefficients, X, 1)[None]])
    return close(moments.Q), close(moments.R), close(moments.T)


def traces(lam: ArrayLike, phi: ArrayLike) -> np.ndarray:
    """ν_1 … ν_L with ν_l = (1/N) tr Σ^l = Σ_k φ_k λ_k^l."""
    lam, phi = np.asarray(lam, dtype=np.float64), np.asarray(phi, dtype=np.float64)
    return (phi * lam) @ np.vander(lam, increasing=True)


def weighted_I3(
    g: AbstractClosedForm, first: Array, c: Array, with_x: Array, with_z: Array
) -> Array:
    """Σ_k c_k I3(x_i, v_n, z_k), (…, K, n), for variables v_n with the given covariances.

    Args:
        g: the activation.
        first: covariance of z = (x, y), (K + M, K + M).
        c: weights of z, (K + M,).
        with_x: Cov(x_i, v_n), (L, K, n).
        with_z: Cov(z_k, v_n), (L, K + M, n).

    Returns:
        The sums, (L, K, n).
    """
    K = with_x.shape[1]
    own, other = jnp.diag(first)[:K], jnp.diag(first)
    # Axes (level, i, n, k). The variance of v does not enter I3: NaN would show if it did.
    xv, vz = with_x[..., None], with_z.swapaxes(1, 2)[:, None]
    xz = first[:K][:, None, :]
    C = [[own[:, None, None], xv, xz], [xv, jnp.nan, vz], [xz, vz, other]]
    return jnp.sum(c * g.I3(C), axis=-1)


def student_matrix(lam: ArrayLike, phi: ArrayLike, eta: float) -> np.ndarray:
    """A₄ = 2 A₁ + η U of dQ/dα for one linear unit, U = u e₂ᵀ with u = (ν_1 … ν_L) (App. B.1)."""
    A4 = 2 * companion(lam)
    A4[:, 1] += eta * traces(lam, phi)
    return A4


def inverse_corner(lam: ArrayLike, eta: float) -> float:
    """The entry (1, 1) of A₄⁻¹ (Eq. 44, corrected): c_1/(2 c_0) − η/(2 (2 − η)), for ν_1 = 1.

    The published second term is η/(2 − η) (`errata.printed_eq44`).
    """
    c = characteristic(lam)
    return float(c[1] / (2 * c[0]) - eta / (2 * (2 - eta)))
