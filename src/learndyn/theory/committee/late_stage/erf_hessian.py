"""The end of learning of an erf committee: exact to leading order in J − B, for any T and K = M.

`erf` is linear in the order parameters, like worschech2024scaling. To that order the overlaps
ρ^k = r^k − t^k of J − B with the teacher drop out of the error. But the square of ρ is of the same
order in J − B as e^k, and it matters if one level has much of the variance. To leading order in
J − B the weights obey the Hessian at the teacher,

    E[g'(y_i) g'(y_k) ξ ξᵀ] = Φ_ik Σ + Σ_mn E[∂_m ∂_n g'(y_i) g'(y_k)] Σ B_m B_nᵀ Σ / N.

Outside the span of the teachers' projections P_k B_m only Φ acts, and each level decays by itself.
Inside the span, with t^k = F_k F_kᵀ and J − B = Σ v^k F_k⁺ P_k B,

    v̇^k = −(η/M) [λ_k Φ v^k + λ_k W[P] F_k],   P = Σ_k λ_k v^k F_kᵀ,   W linear,

which is −(η/M) times a symmetric matrix. Scales of the paper; flow limit.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from learndyn.numerics.semidefinite import gram_factor
from learndyn.theory.committee.late_stage.deviations import deviation
from learndyn.theory.committee.late_stage.erf import late_modes, slope_matrix
from learndyn.theory.committee.state import Overlaps

MOST_VARIABLES = 3000  # the dense eigenvectors then take 72 MB


def end_modes(state: Overlaps, lam: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The error as a sum of exponentials, exact to leading order in J − B.

    Args:
        state: overlaps near the teacher, K = M and students in the teachers' order.
        lam: eigenvalues λ_k, (L,).

    Returns:
        Rates per t = η α and amplitudes, (n,) each: ε_g = Σ amplitude · e^(−rate · η α). Directions
        inside the span of the teachers come first.

    Raises:
        ValueError: if K ≠ M, or if the span has more than 3000 variables (dimensions × units).
    """
    lam, e = np.asarray(lam, dtype=np.float64), deviation(state)
    t, rho = np.asarray(state.T), np.asarray(state.R) - np.asarray(state.T)
    factors, T = [gram_factor(block) for block in t], np.einsum("k,kij->ij", lam, t)
    # A pseudo-inverse, since F_k has fewer columns than rows if a level has few dimensions.
    v = [(np.linalg.pinv(F) @ block.T).T for F, block in zip(factors, rho, strict=True)]
    inside = np.stack([block @ block.T for block in v])
    h, modes = np.linalg.eigh(span_hessian(factors, lam))
    amplitudes = h * (modes.T @ np.concatenate([block.ravel() for block in v])) ** 2 / (2 * len(T))
    rates_out, amplitudes_out = late_modes(e - inside, T, lam)
    rates = np.concatenate([2 * h / len(T), rates_out.ravel()])
    return rates, np.concatenate([amplitudes, amplitudes_out.ravel()])


def end_curve(alphas: ArrayLike, state: Overlaps, lam: ArrayLike, eta: float) -> np.ndarray:
    """ε_g(α) from a state near the teacher, exact to leading order in J − B.

    Args:
        alphas: times since the state, (n,).
        state: overlaps near the teacher, K = M.
        lam: eigenvalues λ_k, (L,).
        eta: learning rate.

    Returns:
        The error, (n,).
    """
    rates, amplitudes = end_modes(state, lam)
    alphas = np.asarray(alphas, dtype=np.float64)
    return np.exp(-eta * np.multiply.outer(alphas, rates)) @ amplitudes


def span_hessian(factors: list[np.ndarray], lam: ArrayLike) -> np.ndarray:
    """M times the Hessian of ε_g inside the span of the teachers, symmetric, (n, n).

    Args:
        factors: F_k with t^k = F_k F_kᵀ, (M, rank_k) each.
        lam: eigenvalues λ_k, (L,).

    Returns:
        The matrix on (v^1, …, v^L), each flattened; n = M Σ_k rank_k.
    """
    lam = np.asarray(lam, dtype=np.float64)
    M = len(factors[0])
    n = M * sum(F.shape[1] for F in factors)
    if n > MOST_VARIABLES:
        raise ValueError(f"state: got a span of {n} variables; allowed is at most {MOST_VARIABLES}")
    pairs = list(zip(lam, factors, strict=True))
    T = np.sum([l * F @ F.T for l, F in pairs], axis=0)
    overlap = np.concatenate([l * np.kron(np.eye(M), F) for l, F in pairs], axis=1)  # v ↦ P
    own = [l * np.kron(slope_matrix(T), np.eye(F.shape[1])) for l, F in pairs]
    H = scipy.linalg.block_diag(*own) + overlap.T @ _curvature_map(T) @ overlap
    return (H + H.T) / 2


def _curvature_map(T: np.ndarray) -> np.ndarray:
    """The matrix of P ↦ W[P], W_in = Σ_km E[∂_m ∂_n g'(y_i) g'(y_k)] P_km, (M², M²)."""
    M, edge = len(T), 1 + np.diag(T)
    S = 2 / np.pi * (np.outer(edge, edge) - T**2) ** -1.5
    W = np.zeros((M, M, M, M))  # W[i, n, k, m]
    i, k = np.meshgrid(np.arange(M), np.arange(M), indexing="ij")
    # m and n are each i or k. For k = i the four terms add up to E[(g'²)''], hence `add.at`, which
    # sums over repeated indices.
    np.add.at(W, (i, i, k, i), -edge[k] * S)
    np.add.at(W, (i, k, k, k), -edge[i] * S)
    np.add.at(W, (i, i, k, k), T * S)
    np.add.at(W, (i, k, k, i), T * S)
    return W.reshape(M * M, M * M)
