"""Published formulas that are wrong, kept so that a study can show where they fail."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from learndyn.numerics.gaussian import ACTIVATIONS, AbstractClosedForm, tabulate
from learndyn.numerics.gaussian.base import Covariance
from learndyn.problems import Spectrum
from learndyn.runtime.precision import in_float64
from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.dynamics import linear, moments
from learndyn.theory.committee.late_stage import erf_symmetric
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.power_law import features, learning_curve
from learndyn.theory.committee.power_law.learning_curve import Real, Reals


def printed_eq34_noise(Q: np.ndarray, rho: np.ndarray, eta: float) -> np.ndarray:
    """The η² term of dQ/dα as published in Eq. 34 of bocchi2026escape (T = I).

    The bracket multiplied by Q_kk' should be the risk R; it is printed as
    1 + 2/p* − (2p − 1)/p² (Σ Q_rr)² − (1/(p p*)) Σ ρ². All other terms are right.

    Args:
        Q: student-student overlaps (p, p).
        rho: student-teacher overlaps (p, p*).
        eta: learning rate.

    Returns:
        The printed term, (p, p).
    """
    p, p_star = rho.shape
    trace, cross = np.trace(Q), rho @ rho.T
    bracket = 1 + 2 / p_star - (2 * p - 1) / p**2 * trace**2 - np.sum(rho**2) / (p * p_star)
    others = (
        (4 / p_star + 8 / p_star**2 - 4 * trace / (p * p_star)) * cross
        + (4 * trace / p**2 - 4 / p) * Q @ Q
        + 8 / p**2 * Q @ Q @ Q
        - 8 / (p * p_star) * (cross @ Q + Q @ cross)
    )
    return 16 * eta**2 / p**2 * (Q * bracket + others)


def printed_extreme_ratio(N: Int, p_star: Int) -> float:
    """The ratio of negative to null eigenvalues of the plateau "up to p = N", as in Sec. 7.2.2.

    A plateau needs p + p* ≤ N, so the extreme is at p = N − p* (`negative_to_null_ratio`).
    """
    return float(p_star / (N / 2 - p_star - 1 / 2))


def printed_eq91(C: Covariance) -> Array:
    """I4 of erf as Eq. 91 of worschech2024scaling prints A0, A1 and A2 (A4 is right).

    `numerics.gaussian.Erf.I4` is the corrected form.
    """
    A4 = (1 + C[0][0]) * (1 + C[1][1]) - C[0][1] ** 2
    A0 = A4 * C[2][3] + C[1][2] * C[1][3] * (1 + C[0][0]) + C[0][2] * C[0][3] * (1 + C[1][1])
    A0 = A0 + C[0][1] ** 2 * C[0][2] ** 2 * C[1][3] ** 2
    A1 = A4 * (1 + C[2][2]) + C[1][2] * (1 + C[0][0]) - C[0][2] * (1 + C[1][1])
    A1 = A1 + 2 * C[0][1] * C[0][2] * C[1][2]
    A2 = A4 * (1 + C[3][3]) - C[1][3] * (1 + C[0][0]) - C[0][3] * (1 + C[1][1])
    A2 = A2 + 2 * C[0][1] * C[0][3] * C[1][3]
    return 4 / np.pi**2 / np.sqrt(A4) * np.arcsin(A0 / np.sqrt(A1 * A2))


@in_float64
def printed_eq18(
    state: moments.Moments, lam: ArrayLike, phi: ArrayLike, eta: float, activation: str = "erf"
) -> moments.Moments:
    """The right-hand side as Eq. 18 of worschech2024scaling prints it, with the correct I4.

    dR^(l) has η in place of η/K, 1 in place of M/K, and y^(l+1) in place of y^(l); the η² term
    has M/K² and 2/K in place of (M/K)² and 2M/K. The O(η) term of dQ is right.
    """
    # The wrong dR replaces the right one; of dQ only the η² term is added to the right flow.
    c, nu = jnp.asarray(moments.characteristic(lam)), moments.traces(lam, phi)
    flow = moments.drift(state, lam, phi, eta, activation, "flow")
    dR, noise = _printed_eq18_parts(state, c, ACTIVATIONS[activation])
    noise = eta**2 / len(noise) ** 2 * nu[:, None, None] * noise
    return moments.Moments(flow.Q + noise, eta * dR, jnp.zeros_like(flow.T))


@eqx.filter_jit
def _printed_eq18_parts(
    state: moments.Moments, c: Array, g: AbstractClosedForm
) -> tuple[Array, Array]:
    Q1, R1, T1 = moments.shifted(state, c)
    _, R2, T2 = moments.shifted(moments.Moments(Q1, R1, T1), c)
    K, M = R1.shape[1:]
    first = jnp.block([[Q1[0], R1[0]], [R1[0].T, T1[0]]])
    signs = jnp.concatenate([-jnp.ones(K), jnp.ones(M)])
    dR = moments.weighted_I3(g, first, signs, R2, jnp.concatenate([R2, T2], axis=1))
    I4 = tabulate(g.I4, first, range(K), range(K), range(K + M), range(K + M))
    total = lambda *part: jnp.sum(I4[:, :, *part], axis=(2, 3))
    x, y = slice(None, K), slice(K, None)
    return dR, M / K**2 * total(x, x) + total(y, y) - 2 / K * total(x, y)


@in_float64
def printed_eq19(state: moments.Moments, lam: ArrayLike, activation: str = "erf") -> Array:
    """ε_g as Eq. 19 of worschech2024scaling prints it: without 1/M, M/K² and 1/K."""
    K, M = state.R.shape[1:]
    signs = jnp.concatenate([-jnp.ones(K), jnp.ones(M)])
    c = jnp.asarray(moments.characteristic(lam))
    return moments.half_square(state, c, signs, ACTIVATIONS[activation])


def printed_eq96(Tl: ArrayLike, T: ArrayLike) -> tuple[np.ndarray, float]:
    """(R*(l)_n, Q*(l)) as Eq. 96 of worschech2024scaling prints them, without 1/T^(1)_nn."""
    T = np.asarray(T, dtype=np.float64)
    return erf_uniform.approximate_moments(np.asarray(Tl) * np.diag(T), T)


def printed_eq98(
    Tl: Array | float, T: float, D: float, M: Int
) -> tuple[Array | float, Array | float]:
    """(R*(l), Q*(l)), l ≥ 1, as Eq. 98 prints them: (R*, Q*) times T^(l)/T, wrong for D ≠ 0."""
    R, Q = erf_uniform.plateau_overlaps(T, D, M)
    return Tl / T * R, Tl / T * Q


def printed_eq99(T: float, D: float, M: Int) -> float:
    """ε* as Eq. 99 prints it: arcsin(D/(1+T)) in place of arcsin(D/((M−1)(1+T)))."""
    wrong, right = np.arcsin(D / (1 + T)), np.arcsin(D / ((M - 1) * (1 + T)))
    return erf_uniform.plateau_error(T, D, M) + float((M - 1) / np.pi * (wrong - right))


def printed_eq115(alpha: Array | float, r0: float, tau: float, T: float, D: float, M: Int) -> Array:
    """ε* − ε_g as Eq. 115 prints it: T in place of ((1+T)/2)², and e^(α/τ_esc) for its square."""
    S = T + D
    depth = S * (M * (1 + T) - S) / (8 * np.pi * M * (M - 1) * (T - S**2 / (4 * M**2)) ** 1.5)
    return depth * r0**2 * np.exp(np.asarray(alpha) / tau)


def printed_plateau_length(
    tau: float, R_star: float, sigma_P: float, sigma_J: float, N: Int
) -> float:
    """α_P − α_0 as App. C.4 computes it: with half of τ_esc, and ½ ln N added to a σ_P ∝ 1/√N.

    Eq. 117 with c = σ_P/σ_J; `erf_uniform.escape_length` is the consistent form.
    """
    constant = np.log(erf_uniform.departure_size(R_star) * sigma_J / sigma_P)
    return erf_uniform.plateau_length(tau / 2, constant, sigma_J, N)


def printed_f5(M: Int) -> float:
    """f₅ as Eq. 120 prints it: 4√6 (M−2) in place of 8√3 (M−2)."""
    return float(4 * np.sqrt(6.0) * (M - 2) + 3 * M**2 - 15 * M + 26)


def printed_late_exponents() -> tuple[float, float]:
    """(2 − √3, 2 + √3) of Eqs. 17 and 122, right for M = 2 only."""
    return float(2 - np.sqrt(3.0)), float(2 + np.sqrt(3.0))


def printed_eq6(alpha: ArrayLike, spectrum: Spectrum, eta: float, sigma_J: float) -> np.ndarray:
    """⟨ε⟩ of a linear student as Eqs. 6 and 56 of worschech2024scaling print it.

    (1+σ_J²)/(2L) Σ_k b_k |λ̃_k| exp(−2η|λ̃_k|α) with λ̃_k of A_1 + ηU in place of A_1 + ηU/2, and
    b = W⁻¹ (T^(1) … T^(L)) in place of (T^(0) … T^(L−1)). The printed λ̃_k is negative; its
    absolute value is used here. In the level basis A_1 + ηU is half of the matrix of
    `linear.modes` at κ = 2η, and b_k are its `weights`. `linear.mean_curve` is the corrected form.
    """
    modes = linear.modes(spectrum, 2 * eta)
    decay = np.exp(-2 * eta * np.multiply.outer(np.asarray(alpha, dtype=np.float64), modes.rates))
    return (1 + sigma_J**2) / (2 * spectrum.levels) * decay @ (modes.weights * modes.rates)


@in_float64
def printed_eq25(
    state: moments.Moments, lam: ArrayLike, phi: ArrayLike, eta: float
) -> tuple[Array, Array]:
    """(dR, dQ)/dα of the last power L−1 for one linear unit as Eq. 25 prints them.

    The O(η) terms have the wrong sign; the η² term is right.
    """
    # The published terms are recovered from the right ones, so that only the sign differs.
    flow = moments.drift(state, lam, phi, eta, "linear", "flow")
    full = moments.drift(state, lam, phi, eta, "linear")
    return -flow.R[-1], full.Q[-1] - 2 * flow.Q[-1]


def printed_eq44(lam: ArrayLike, eta: float) -> float:
    """The entry (1, 1) of A₄⁻¹ as Eq. 44 prints it, with η/(2 − η) for η/(2 (2 − η))."""
    return moments.inverse_corner(lam, eta) - eta / (2 * (2 - eta))


def printed_late_matrix(lam: ArrayLike, phi: ArrayLike, M: Int, eta: float) -> np.ndarray:
    """A of Eq. 118 with the f₅ that Eq. 120 prints (`erf_symmetric.late_matrix` is right)."""
    lam, phi = np.asarray(lam, dtype=np.float64), np.asarray(phi, dtype=np.float64)
    excess = printed_f5(M) - erf_symmetric.noise_coefficients(M)[4]
    F = np.zeros((4, 4))
    F[3, [1, 3]] = erf_symmetric.noise_coefficients(M)[5] * excess * np.array([-1 / 2, 1 / 4])
    wrong = erf_symmetric.noise_unit(M, eta) * np.kron(F, np.outer(phi * lam, lam))
    return erf_symmetric.late_matrix(lam, phi, M, eta) + wrong


def printed_eq49(alpha: Reals, *, lam_plus: Real, L: Int, eta: Real, sigma_J: Real) -> Array:
    """(1+σ_J²) λ₊/(2L) exp(−2 η λ₊ α), the published bound of Eq. 49 on sum minus integral.

    It is twice f(1)/2, the leading part of `learning_curve.end_correction`, and leaves out f(L)/2
    and the higher orders, which decay more slowly. It is therefore a bound only at the beginning
    of the window, while 2 η λ₊ α is at most a few.
    """
    x = 2 * eta * lam_plus * np.asarray(alpha, dtype=np.float64)
    return learning_curve.amplitude(lam_plus, L, sigma_J) * np.exp(-x)


def printed_worst_case_bound(*, lam_plus: Real, L: Int, beta: Real, sigma_J: Real) -> float:
    """The bound of App. B.2 on sum minus integral, as printed.

    (1+σ_J²) λ₊/(2L) [L^-(1+β) + ζ(1+β) − 1/β]; its bracket exceeds that of
    `learning_curve.initial_gap` by about L^-(1+β)/2.
    """
    bracket = float(L) ** -(1 + beta) + special.zeta(1 + beta) - 1 / beta
    return float(learning_curve.amplitude(lam_plus, L, sigma_J) * bracket)


def printed_eq79(
    alpha: Reals,
    n_trainable: Int,
    *,
    lam_plus: Real,
    L: Int,
    beta: Real,
    eta: Real,
    sigma_J: Real,
) -> Array:
    """Eqs. 11 and 79 as printed, with L in the first gamma function: wrong where N_l < L."""
    spectrum = {"lam_plus": lam_plus, "L": L, "beta": beta, "sigma_J": sigma_J}
    rest = features.asymptote_integral(n_trainable, **spectrum)
    return learning_curve.error_integral(alpha, eta=eta, **spectrum) + rest


def printed_eq13_rate(p_star: Int) -> float:
    """The rate 16/p* that Eq. 13 of bocchi2026escape gives per t = η α; it is per η α/p."""
    return 16 / p_star


def printed_outside_norm(p: Int, r: Int) -> float:
    """α from 1 − r/p − 2 α/p = 0, as printed in Sec. 7.2.1 of bocchi2026escape.

    The correct condition is 1 − α r/p − 2 α/p = 0.
    """
    return (p - r) / 2
