"""N_l weights trained outside the eigenbasis (worschech2024scaling, Eqs. 82 to 88).

The first N_l coordinates are trained, and Σ falls into the blocks Σ̃ (trained), Σ_c (crossed) and
Σ̂ (fixed). Units are those of `features`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.power_law.features import checked_trainable
from learndyn.theory.committee.power_law.learning_curve import Real, Reals


def weights_error(Sigma: ArrayLike, J: ArrayLike, B: ArrayLike) -> Array:
    """ε = (B − J)ᵀ Σ (B − J)/(2N), for J (..., N)."""
    Sigma = _covariance(Sigma)
    E = np.asarray(B, dtype=np.float64) - np.asarray(J, dtype=np.float64)
    return np.einsum("...i,ij,...j->...", E, Sigma, E) / (2 * len(Sigma))


def trajectory(
    alpha: Reals, Sigma: ArrayLike, n_trainable: Int, J0: ArrayLike, B: ArrayLike, eta: Real
) -> np.ndarray:
    """The weights when the first N_l coordinates are trained (Eqs. 83, 84).

    J̃(α) = e^(−ηΣ̃α) J̃_0 + (I − e^(−ηΣ̃α)) [B̃ + Σ̃⁻¹ Σ_c (B̂ − Ĵ)]; Eq. 84 prints the factors in
    an order in which the products do not exist.

    Args:
        alpha: steps / N, a number or an array.
        Sigma: covariance of the inputs, (N, N).
        n_trainable: N_l, in 1 … N.
        J0: student weights at the start, (N,).
        B: teacher weights, (N,).
        eta: learning rate.

    Returns:
        J, in the shape of `alpha` with an axis of length N behind.
    """
    n = checked_trainable(n_trainable, len(_covariance(Sigma)))
    J0, end = np.asarray(J0, dtype=np.float64), final_weights(Sigma, n_trainable, J0, B)
    d, V = np.linalg.eigh(_blocks(Sigma, n_trainable).trained)
    decay = np.exp(-eta * np.multiply.outer(np.asarray(alpha, dtype=np.float64), d))
    J = np.broadcast_to(end, (*decay.shape[:-1], len(end))).copy()
    J[..., :n] += (decay * (V.T @ (J0 - end)[:n])) @ V.T
    return J


def final_weights(Sigma: ArrayLike, n_trainable: Int, J0: ArrayLike, B: ArrayLike) -> np.ndarray:
    """The weights as α → ∞: J̃ = B̃ + Σ̃⁻¹ Σ_c (B̂ − Ĵ) (Eq. 85)."""
    blocks, n = _blocks(Sigma, n_trainable), int(n_trainable)
    J, B = np.array(J0, dtype=np.float64), np.asarray(B, dtype=np.float64)
    J[:n] = B[:n] + np.linalg.solve(blocks.trained, blocks.crossed @ (B - J)[n:])
    return J


def mean_error(
    alpha: Reals, Sigma: ArrayLike, n_trainable: Int, *, eta: Real, sigma_J: Real
) -> Array:
    """⟨ε⟩ along Eq. 84, averaged over teacher and student.

    With Σ̃ v_i = d_i v_i: (1+σ_J²)/(2N) Σ_i d_i e^(−2ηd_iα) (1 + |Σ_cᵀ v_i|²/d_i²) plus Eq. 88.

    Args:
        alpha: steps / N, a number or an array.
        Sigma: covariance of the inputs, (N, N), positive definite.
        n_trainable: N_l, in 1 … N.
        eta: learning rate.
        sigma_J: standard deviation of the student's entries at the start.

    Returns:
        The error, in the shape of `alpha`.
    """
    blocks = _blocks(Sigma, n_trainable)
    d, V = np.linalg.eigh(blocks.trained)
    weights = d + np.sum((V.T @ blocks.crossed) ** 2, axis=1) / d
    decay = np.exp(-2 * eta * np.multiply.outer(np.asarray(alpha, dtype=np.float64), d))
    factor = (1 + sigma_J**2) / (2 * len(_covariance(Sigma)))
    return factor * (decay @ weights) + mean_asymptote(Sigma, n_trainable, sigma_J=sigma_J)


def mean_asymptote(Sigma: ArrayLike, n_trainable: Reals, *, sigma_J: Real) -> Array:
    """⟨ε⟩ as α → ∞ outside the eigenbasis: (1+σ_J²)/(2N) tr(Σ̂ − Σ_cᵀ Σ̃⁻¹ Σ_c) (Eqs. 86 to 88).

    Eq. 88 is this for tr Σ = N. With Σ = G Gᵀ, G lower triangular, the matrix in the trace is
    the product of G's last block with its transpose: one factorisation serves every N_l.

    Args:
        Sigma: covariance of the inputs, (N, N), positive definite.
        n_trainable: N_l in 1 … N, one or an array of them.
        sigma_J: standard deviation of the student's entries at the start.

    Returns:
        The error, in the shape of `n_trainable`.
    """
    Sigma = _covariance(Sigma)
    n = np.vectorize(lambda n: checked_trainable(n, len(Sigma)), otypes=[int])(n_trainable)
    try:
        G = np.linalg.cholesky(Sigma)
    except np.linalg.LinAlgError:
        raise ValueError(
            "Sigma: got a matrix that is not positive definite; allowed is a positive definite one"
        ) from None
    columns = np.sum(G**2, axis=0)  # zero above the diagonal, so the last block is all of them
    tail = np.append(np.cumsum(columns[::-1])[::-1], 0.0)
    return (1 + sigma_J**2) / (2 * len(Sigma)) * tail[n]


class _Blocks(NamedTuple):
    trained: np.ndarray
    crossed: np.ndarray


def _blocks(Sigma: ArrayLike, n_trainable: Int) -> _Blocks:
    """Σ̃ and Σ_c of Eq. 82."""
    Sigma = _covariance(Sigma)
    n = checked_trainable(n_trainable, len(Sigma))
    return _Blocks(Sigma[:n, :n], Sigma[:n, n:])


def _covariance(Sigma: ArrayLike) -> np.ndarray:
    Sigma = np.asarray(Sigma, dtype=np.float64)
    if Sigma.ndim != 2 or Sigma.shape[0] != Sigma.shape[1]:
        raise ValueError(f"Sigma: got shape {Sigma.shape}; allowed is square, (N, N)")
    return Sigma
