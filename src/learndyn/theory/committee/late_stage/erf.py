"""The late stage of an erf committee: linearised around the teacher (worschech2024scaling).

Scales of the paper with K = M: student (1/√M) Σ g(x_i), teacher (1/√M) Σ g(y_n), loss
(1/2)(ζ − σ)². Everything is resolved by level, where all numbers stay moderate. The paper's moments
span so many orders of magnitude that they need arbitrary precision beyond L = 12 or so.

Exact to first order in the overlaps, for any T: the overlaps e^k = q^k − r^k − r^kᵀ + t^k of J − B
and the error obey

    ė^k = −(η/M) λ_k (Φ e^k + e^k Φ),   ε_g = (1/2M) Σ_k λ_k tr(Φ e^k),
    Φ_ij = E[g'(y_i) g'(y_j)] = (2/π) [(1 + T_ii)(1 + T_jj) − T_ij²]^(-1/2).

First order in the overlaps is not leading order in J − B: (r^k − t^k)² is of the order of e^k
unless J − B lies mostly outside the span of the teachers. `erf_hessian` includes both. The paper's
case of equal deviations is `erf_symmetric`.
"""

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.types import Int


def slope_matrix(T: ArrayLike) -> np.ndarray:
    """Φ_ij = E[g'(y_i) g'(y_j)] for pre-activations of covariance T, (M, M)."""
    T = np.asarray(T, dtype=np.float64)
    edge = 1 + np.diag(T)
    return 2 / np.pi / np.sqrt(np.outer(edge, edge) - T**2)


def late_modes(e: ArrayLike, T: ArrayLike, lam: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The error of the late stage as a sum of exponentials, to first order, for any T.

    Args:
        e: deviations at α = 0, (L, M, M), from `deviations.deviation`.
        T: T^(1) = Σ_k λ_k t^k, (M, M).
        lam: eigenvalues λ_k, (L,).

    Returns:
        Rates per t = η α and amplitudes, (L, M) each: ε_g = Σ amplitude · e^(−rate · η α).
        Rates are 2 λ_k f/M with f the eigenvalues of Φ, ascending.
    """
    lam, e = np.asarray(lam, dtype=np.float64), np.asarray(e, dtype=np.float64)
    f, U = np.linalg.eigh(slope_matrix(T))
    diagonal = np.einsum("na,knm,ma->ka", U, e, U)
    return 2 * np.outer(lam, f) / len(f), lam[:, None] * f * diagonal / (2 * len(f))


def late_curve(
    alphas: ArrayLike, e: ArrayLike, T: ArrayLike, lam: ArrayLike, eta: float
) -> np.ndarray:
    """ε_g(α) of the late stage in the flow limit, to first order in the overlaps, for any T.

    Args:
        alphas: times since e was taken, (n,).
        e: deviations at α = 0, (L, M, M).
        T: T^(1), (M, M).
        lam: eigenvalues λ_k, (L,).
        eta: learning rate.

    Returns:
        The error, (n,).
    """
    rates, amplitudes = late_modes(e, T, lam)
    decay = np.exp(-eta * np.multiply.outer(np.asarray(alphas, dtype=np.float64), rates))
    return np.einsum("nka,ka->n", decay, amplitudes)


def critical_gain(M: Int, T: float = 1.0) -> float:
    """The gain ρ for which the late stage is stable if η < M/(ρ Σ_k φ_k λ_k), for T^(1) = T I.

    With the η² term, ė^k = −(η/M) λ_k (Φ e^k + e^k Φ) + (η²/M²) λ_k φ_k Ω[Σ_j λ_j e^j] and
    Ω[e]_ij = Σ_kl E[g'(y_i) g'(y_j) g'(y_k) g'(y_l)] e_kl. A constant solution is e^k ∝ φ_k X
    with Φ X + X Φ = (η/M) Σ_k φ_k λ_k Ω[X], so ρ is the largest eigenvalue of a positive map,
    (Φ· + ·Φ)⁻¹ Ω. Its leading X is positive semidefinite and, by permutation symmetry, equals x on
    the diagonal and y off it, which leaves 2 × 2 matrices. Not in the paper.
    """
    drift, noise = symmetric_maps(M, T)
    return float(np.linalg.eigvals(np.linalg.solve(drift, noise)).real.max())


def symmetric_maps(M: Int, T: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """e ↦ Φ e + e Φ and e ↦ Ω[e] of `critical_gain` on matrices with x on the diagonal, y off it.

    They act on the coordinates x and √(M−1) y, in which both are symmetric; one unit has no y.
    """
    u1, u2, u3, u4 = (1 / np.sqrt(1 + n * T) for n in range(1, 5))  # (π/2)^(n/2) E[g'^n]
    root, n = np.sqrt(M - 1), min(int(M), 2)
    mixed = root * (2 * u3 * u1 + (M - 2) * u2 * u1**2)
    other = 2 * u2**2 + 4 * (M - 2) * u2 * u1**2 + (M - 2) * (M - 3) * u1**4
    drift = 2 * np.array([[u2, root * u1**2], [root * u1**2, u2 + (M - 2) * u1**2]])
    noise = np.array([[u4 + (M - 1) * u2**2, mixed], [mixed, other]])
    return 2 / np.pi * drift[:n, :n], (2 / np.pi) ** 2 * noise[:n, :n]
