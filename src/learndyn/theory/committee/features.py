"""A linear student of which only N_l directions are trained (worschech2024scaling, Sec. 4.3).

Units of the paper: K = M = 1, N = L, the flow limit η → 0, α = steps/N, teacher entries of
variance 1 and student entries of variance σ_J². The other N − N_l weights stay where they were
drawn, which leaves an error that falls as N_l^-β on a power-law spectrum. In the eigenbasis of
the covariance (Eqs. 10, 11 and 71 to 79) the directions trained are those of the largest
eigenvalues; outside of it (Eqs. 82 to 88) they are the first N_l coordinates, and Σ falls into
the blocks Σ̃ (trained), Σ_c (crossed) and Σ̂ (fixed).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from learndyn.numerics.types import Array, Int
from learndyn.theory.committee import power_law
from learndyn.theory.committee.power_law import Real, Reals


def exponent(beta: Real) -> float:
    """−β: the asymptotic error goes as N_l to this, for N_l ≪ L."""
    return -float(beta)


def local_exponent(n_trainable: Int, *, L: Int, beta: Real) -> float:
    """d ln ε/d ln N_l of Eq. 74, with its finite-L correction: −β/(1 − (N_l/L)^β), N_l < L."""
    n = _checked(n_trainable, int(L))
    return -np.inf if n == L else float(-beta / (1 - (n / L) ** beta))


def error(alpha: Reals, lam: ArrayLike, n_trainable: Int, *, eta: Real, sigma_J: Real) -> Array:
    """⟨ε⟩ with the first N_l directions of the eigenbasis trained (Eqs. 10 and 78).

    (1+σ_J²)/(2L) [Σ_{k≤N_l} λ_k exp(−2 η λ_k α) + Σ_{k>N_l} λ_k]. The second sum of Eq. 78 is
    printed from k = N_l; it starts at N_l + 1.

    Args:
        alpha: steps / N, a number or an array.
        lam: all eigenvalues of the covariance, with repetitions, largest first, (N,).
        n_trainable: N_l, in 1 … N.
        eta: learning rate.
        sigma_J: standard deviation of the student's entries at the start.

    Returns:
        The error, in the shape of `alpha`.
    """
    lam = np.asarray(lam, dtype=np.float64)
    trained = lam[: _checked(n_trainable, len(lam))]
    decay = np.exp(-2 * eta * np.multiply.outer(np.asarray(alpha, dtype=np.float64), trained))
    factor = (1 + sigma_J**2) / (2 * len(lam))
    return factor * (decay @ trained) + asymptote(lam, n_trainable, sigma_J=sigma_J)


def asymptote(lam: ArrayLike, n_trainable: Int, *, sigma_J: Real) -> float:
    """⟨ε⟩ as α → ∞: (1+σ_J²)/(2L) Σ_{k>N_l} λ_k (Eq. 71, printed from k = N_l)."""
    lam = np.asarray(lam, dtype=np.float64)
    fixed = lam[_checked(n_trainable, len(lam)) :]
    return float((1 + sigma_J**2) / (2 * len(lam)) * np.sum(fixed))


class Excess(NamedTuple):
    """ε/Eq. 71 − 1 as α → ∞: its first order in η, and a bound from above."""

    first_order: float
    bound: float


def sampling_excess(x: ArrayLike, n_trainable: Int, *, eta: Real) -> Excess:
    """By how much steps of finite size lift the asymptote, on examples of any distribution.

    The error of the fixed directions keeps the trained ones moving. Stationarity of their
    squared weights gives the first order η ⟨|x̃|² |x̂|²⟩/(2N ⟨|x̂|²⟩), averaged over teacher and
    student, with x̃ the trained and x̂ the fixed coordinates of an example. The whole of it lies
    between that and that over 1 − η max|x̃|²/(2N). For Gaussian x the first order is
    η Σ_{k≤N_l} λ_k/(2N).

    Args:
        x: centred examples in the eigenbasis of their covariance, (examples, N).
        n_trainable: N_l, in 1 … N − 1.
        eta: learning rate.

    Returns:
        The relative excess; the bound is infinite where η max|x̃|² ≥ 2N.
    """
    squares = np.asarray(x, dtype=np.float64) ** 2
    n, N = _checked(n_trainable, squares.shape[1] - 1), squares.shape[1]
    trained, fixed = squares[:, :n].sum(axis=1), squares[:, n:].sum(axis=1)
    first = float(eta * np.mean(trained * fixed) / (2 * N * np.mean(fixed)))
    rest = float(1 - eta * trained.max() / (2 * N))
    return Excess(first, first / rest if rest > 0 else np.inf)


def asymptote_integral(
    n_trainable: Int,
    *,
    lam_plus: Real,
    L: Int,
    beta: Real,
    sigma_J: Real,
    shift: Real = 0.0,
) -> float:
    """The asymptote with the sum as an integral (Eqs. 73, 74).

    (1+σ_J²) λ₊/(2βL) [(N_l + shift)^-β − (L + shift)^-β]. `shift` 0 is the paper's; 1/2, the
    midpoint rule, is more accurate by two orders in 1/N_l.
    """
    n = _checked(n_trainable, int(L)) + float(shift)
    tail = (n**-beta - (float(L) + shift) ** -beta) / beta
    return float((1 + sigma_J**2) * lam_plus / (2 * L) * tail)


def error_integral(
    alpha: Reals,
    n_trainable: Int,
    *,
    lam_plus: Real,
    L: Int,
    beta: Real,
    eta: Real,
    sigma_J: Real,
    shift: Real = 0.0,
) -> Array:
    """⟨ε⟩ with both sums as integrals (Eqs. 11 and 79, corrected).

    The first gamma function has the argument 2 η λ₊ α/N_l^(1+β); L^(1+β), as printed, counts
    the modes above N_l twice.

    Args:
        alpha: steps / N.
        n_trainable: N_l, in 1 … L.
        lam_plus: λ₊ of λ_k = λ₊ k^-(1+β).
        L: number of eigenvalues.
        beta: β.
        eta: learning rate.
        sigma_J: standard deviation of the student's entries at the start.
        shift: added to the ends of the integrals, N_l and L; 1/2 is the midpoint rule there.

    Returns:
        The error, in the shape of `alpha`.
    """
    rest = asymptote_integral(
        n_trainable, lam_plus=lam_plus, L=L, beta=beta, sigma_J=sigma_J, shift=shift
    )
    last = int(n_trainable) + float(shift)
    learning = power_law.integral(alpha, 1, last, lam_plus, beta, eta)
    return (1 + sigma_J**2) * lam_plus / (2 * L) * learning + rest


def printed_error_integral(
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
    rest = asymptote_integral(n_trainable, **spectrum)
    return power_law.error_integral(alpha, eta=eta, **spectrum) + rest


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
    n = _checked(n_trainable, len(_covariance(Sigma)))
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
    n = np.vectorize(lambda n: _checked(n, len(Sigma)), otypes=[int])(n_trainable)
    try:
        G = np.linalg.cholesky(Sigma)
    except np.linalg.LinAlgError:
        raise ValueError(
            "Sigma: got a matrix that is not positive definite; allowed is one"
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
    n = _checked(n_trainable, len(Sigma))
    return _Blocks(Sigma[:n, :n], Sigma[:n, n:])


def _covariance(Sigma: ArrayLike) -> np.ndarray:
    Sigma = np.asarray(Sigma, dtype=np.float64)
    if Sigma.ndim != 2 or Sigma.shape[0] != Sigma.shape[1]:
        raise ValueError(f"Sigma: got shape {Sigma.shape}; allowed is square, (N, N)")
    return Sigma


def _checked(n_trainable: Int, N: int) -> int:
    whole = isinstance(n_trainable, int | np.integer) and not isinstance(n_trainable, bool)
    if not whole or not 1 <= n_trainable <= N:
        raise ValueError(f"n_trainable: got {n_trainable!r}; allowed is an integer in 1 to {N}")
    return int(n_trainable)
