"""A linear student with only N_l trained directions (worschech2024scaling, Sec. 4.3).

Units of the paper: K = M = 1, N = L, the flow limit η → 0, α = steps/N, teacher entries of
variance 1 and student entries of variance σ_J². The other N − N_l weights keep their initial
values, which leaves an error that falls as N_l^-β on a power-law spectrum. Here the trained
directions are those of the largest eigenvalues of the covariance (Eqs. 10, 11 and 71 to 79);
`given_frame` and `random_frame` treat directions outside the eigenbasis.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.power_law import learning_curve
from learndyn.theory.committee.power_law.learning_curve import Real, Reals


def exponent(beta: Real) -> float:
    """−β, the exponent of the asymptotic error in N_l, for N_l ≪ L."""
    return -float(beta)


def local_exponent(n_trainable: Int, *, L: Int, beta: Real) -> float:
    """d ln ε/d ln N_l of Eq. 74, with its finite-L correction: −β/(1 − (N_l/L)^β), N_l < L."""
    n = checked_trainable(n_trainable, int(L))
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
    trained = lam[: checked_trainable(n_trainable, len(lam))]
    decay = np.exp(-2 * eta * np.multiply.outer(np.asarray(alpha, dtype=np.float64), trained))
    factor = (1 + sigma_J**2) / (2 * len(lam))
    return factor * (decay @ trained) + asymptote(lam, n_trainable, sigma_J=sigma_J)


def asymptote(lam: ArrayLike, n_trainable: Int, *, sigma_J: Real) -> float:
    """⟨ε⟩ as α → ∞: (1+σ_J²)/(2L) Σ_{k>N_l} λ_k (Eq. 71, printed from k = N_l)."""
    lam = np.asarray(lam, dtype=np.float64)
    fixed = lam[checked_trainable(n_trainable, len(lam)) :]
    return float((1 + sigma_J**2) / (2 * len(lam)) * np.sum(fixed))


class Excess(NamedTuple):
    """ε/Eq. 71 − 1 as α → ∞: its first order in η, its exact value, and an upper bound."""

    first_order: float
    exact: float
    bound: float


def sampling_excess(x: ArrayLike, n_trainable: Int, *, eta: Real) -> Excess:
    """The relative increase of the asymptote by a finite learning rate, for any examples.

    The error of the fixed directions keeps the trained ones moving. Stationarity of their
    squared weights gives the first order η ⟨|x̃|² |x̂|²⟩/(2N ⟨|x̂|²⟩), averaged over teacher and
    student, with x̃ the trained and x̂ the fixed coordinates of an example. The exact value lies
    between this and this divided by 1 − η max|x̃|²/(2N). For Gaussian x the first order is
    η Σ_{k≤N_l} λ_k/(2N). The exact value is Σ_{k≤N_l} λ_k V_kk/Σ_{k>N_l} λ_k, where the mean V of
    ṽṽᵀ, with ṽ the trained weights minus the teacher's, solves
    λ_i V_ij + V_ij λ_j = (η/N) ⟨x̃_i x̃_j (x̃ᵀVx̃ + |x̂|²)⟩.

    Args:
        x: centred examples in the eigenbasis of their covariance, (examples, N).
        n_trainable: N_l, in 1 … N − 1.
        eta: learning rate.

    Returns:
        The relative excess; the bound is infinite, and the exact value NaN, if η max|x̃|² ≥ 2N.
    """
    x = np.asarray(x, dtype=np.float64)
    n, N = checked_trainable(n_trainable, x.shape[1] - 1), x.shape[1]
    trained, fixed = np.sum(x[:, :n] ** 2, axis=1), np.sum(x[:, n:] ** 2, axis=1)
    first = float(eta * np.mean(trained * fixed) / (2 * N * np.mean(fixed)))
    rest = float(1 - eta * trained.max() / (2 * N))
    if rest <= 0:
        return Excess(first, np.nan, np.inf)
    return Excess(first, _whole_excess(x[:, :n], fixed, eta / N), first / rest)


def _whole_excess(x: np.ndarray, fixed: np.ndarray, rate: float) -> float:
    """Σ λ_k V_kk/⟨|x̂|²⟩ by iteration, which contracts at least by the factor η max|x̃|²/(2N)."""
    lam = np.mean(x**2, axis=0)
    scale, kicked, last = rate / len(x) / np.add.outer(lam, lam), fixed, np.inf
    while True:
        V = scale * (x.T @ (x * kicked[:, None]))
        now = float(lam @ np.diag(V) / np.mean(fixed))
        if abs(now - last) <= 1e-12 * now:
            return now
        kicked, last = fixed + np.sum(x @ V * x, axis=1), now


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
    n = checked_trainable(n_trainable, int(L)) + float(shift)
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
    learning = learning_curve.integral(alpha, 1, last, lam_plus, beta, eta)
    return (1 + sigma_J**2) * lam_plus / (2 * L) * learning + rest


def checked_trainable(n_trainable: Int, N: int) -> int:
    """N_l; a ValueError if it is not an integer in 1 … N."""
    whole = isinstance(n_trainable, int | np.integer) and not isinstance(n_trainable, bool)
    if not whole or not 1 <= n_trainable <= N:
        raise ValueError(f"n_trainable: got {n_trainable!r}; allowed is an integer in 1 to {N}")
    return int(n_trainable)
