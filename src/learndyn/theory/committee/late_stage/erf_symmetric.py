"""The late stage of an erf committee with equal deviations of all units (worschech2024scaling).

The paper's case is T^(1) = I with equal diagonal and equal off-diagonal deviations: R = T + r and
Q = T + q on the diagonals, s and c off them (C.5 prints S = T + s, C = T + c). The matrices here
hold for every M; Eqs. 119 and 17/122 are printed for M = 2. Scales are those of `erf`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.late_stage.deviations import mean_deviations
from learndyn.theory.committee.state import Overlaps

ROOT3 = np.sqrt(3.0)


def rate_unit(M: Int, eta: float) -> float:
    """a = 2√3 η/(3πM) of dx/dα = a A x (Eqs. 16 and 118; the published Eq. 16 lacks η)."""
    return float(2 * ROOT3 * eta / (3 * np.pi * M))


def late_exponents(M: Int) -> tuple[float, float]:
    """(2 − √3, 2 + (M−1)√3): the error's decay rates are a λ_k times these (Eqs. 17 and 122).

    The published second exponent is 2 + √3, its value for M = 2; Eqs. 17 and 122 swap the labels.
    """
    return float(2 - ROOT3), float(2 + (M - 1) * ROOT3)


def linear_error(r: ArrayLike, s: ArrayLike, q: ArrayLike, c: ArrayLike, M: Int) -> Array:
    """ε_g to first order in the level-summed deviations, T^(1) = I (Eq. 121)."""
    r, s, q, c = (np.asarray(x, dtype=np.float64) for x in (r, s, q, c))
    return (2 * ROOT3 * (q - 2 * r) + 3 * (M - 1) * (c - 2 * s)) / (6 * np.pi)


def state_error(state: Overlaps, lam: ArrayLike) -> float:
    """ε_g of a state, K = M, to first order in its deviations from the teacher (Eq. 121).

    Deviations of each kind are averaged, and T^(1) is taken to be I.
    """
    lam = np.asarray(lam, dtype=np.float64)
    r, s, q, c = (lam @ part for part in mean_deviations(state))
    return float(linear_error(r, s, q, c, state.T.shape[1]))


class LateGroups(NamedTuple):
    """The error of the late stage by its two groups of eigenvalues.

    Attributes:
        slow: Σ_k … e^(−a (2−√3) λ_k α), (n,).
        fast: Σ_k … e^(−a (2+(M−1)√3) λ_k α), (n,).
    """

    slow: np.ndarray
    fast: np.ndarray


def late_groups(
    alphas: ArrayLike,
    r: ArrayLike,
    s: ArrayLike,
    q: ArrayLike,
    c: ArrayLike,
    lam: ArrayLike,
    M: Int,
    eta: float,
) -> LateGroups:
    """Eqs. 17 and 122 (corrected exponents) from given deviations, T^(1) = I.

    The error depends only on x_k = q_k − 2 r_k and y_k = c_k − 2 s_k, not on the directions q = 2r,
    c = 2s. They mix only within their level: x − y is slow, x + (M−1) y is fast.

    Args:
        alphas: times since the deviations were taken, (n,).
        r: diagonal deviations of the blocks r^k from t^k, (L,).
        s: off-diagonal ones, (L,).
        q: diagonal deviations of the blocks q^k from t^k, (L,).
        c: off-diagonal ones, (L,).
        lam: eigenvalues λ_k, (L,).
        M: number of units.
        eta: learning rate.

    Returns:
        The two parts of ε_g.
    """
    r, s, q, c, lam = (np.asarray(v, dtype=np.float64) for v in (r, s, q, c, lam))
    x, y, (slow, fast) = q - 2 * r, c - 2 * s, late_exponents(M)
    times = rate_unit(M, eta) * np.multiply.outer(np.asarray(alphas, dtype=np.float64), lam)
    unit = lam / (2 * ROOT3 * np.pi * M)
    return LateGroups(
        np.exp(-slow * times) @ (unit * (M - 1) * slow * (x - y)),
        np.exp(-fast * times) @ (unit * fast * (x + (M - 1) * y)),
    )


def late_curve(alphas: ArrayLike, state: Overlaps, lam: ArrayLike, eta: float) -> np.ndarray:
    """ε_g(α) by Eqs. 17 and 122 (corrected) from a state with K = M, in the mean of each kind.

    Args:
        alphas: times since the state, (n,).
        state: overlaps near the teacher, students in the teachers' order.
        lam: eigenvalues λ_k, (L,).
        eta: learning rate.

    Returns:
        The error, (n,).
    """
    M, parts = state.T.shape[1], mean_deviations(state)
    groups = late_groups(alphas, *parts, lam, M, eta)
    return groups.slow + groups.fast


def late_matrix(lam: ArrayLike, phi: ArrayLike, M: Int, eta: float = 0.0) -> np.ndarray:
    """A of dx/dα = a A x with x = (r, s, q, c), each of L levels (Eqs. 118 to 120).

    A = −G ⊗ Λ + H ⊗ U + g̃ F ⊗ U in the level basis, where the paper's A₁ is −Λ and its
    U = u e₂ᵀ is U_kj = φ_k λ_k λ_j (typical T: t^k = φ_k I, and T^(1) = Σ φ_k λ_k = 1).

    Args:
        lam: eigenvalues λ_k, (L,).
        phi: fractions N_k/N, (L,).
        M: number of units.
        eta: learning rate in g̃; 0 is the flow.

    Returns:
        A, (4L, 4L).
    """
    lam, phi = np.asarray(lam, dtype=np.float64), np.asarray(phi, dtype=np.float64)
    U = np.outer(phi * lam, lam)
    noise = noise_unit(M, eta) * np.kron(noise_matrix(M), U)
    return -np.kron(decay_matrix(M), np.diag(lam)) + np.kron(coupling_matrix(M), U) + noise


def decay_matrix(M: Int) -> np.ndarray:
    """G for every M, in the order (r, s, q, c) (Eq. 119 is M = 2).

    Its eigenvalues are 1 − √3/2, 2 − √3, 1 + (M−1)√3/2 and 2 + (M−1)√3.
    """
    own = np.array([[2, (M - 1) * ROOT3], [ROOT3, 2 + (M - 2) * ROOT3]])
    return np.block([[own / 2, np.zeros((2, 2))], [-own, own]])


def coupling_matrix(M: Int) -> np.ndarray:
    """H for every M (Eq. 119 is M = 2); eigenvalues 1/3 ± √(27M−11)/12, 0 and 0."""
    m = (M - 1) * ROOT3
    top = np.array([[-1 / 3, -m / 4, 1 / 2, m / 4], [0, 0, ROOT3 / 8, 0]])
    return np.concatenate([top, 2 * top])


def noise_coefficients(M: Int) -> tuple[float, ...]:
    """f₁ … f₆ (Eq. 120, f₅ corrected: 8√3(M−2) + 3M² − 15M + 26).

    The published f₅ has 4√6(M−2) (`errata.printed_f5`), which agrees for M = 2.
    """
    b = np.sqrt(45.0) + 5 * (M - 1)
    f1, f5 = np.sqrt(6.0) + M - 2, 8 * ROOT3 * (M - 2) + 3 * M**2 - 15 * M + 26
    return tuple(float(f) for f in (f1, b, 15 * (M - 1) / b, 15 / b, f5, 5 / b))


def noise_matrix(M: Int) -> np.ndarray:
    """F (Eq. 120): the η² terms to first order; they act only on q and c."""
    f1, _, f3, f4, f5, f6 = noise_coefficients(M)
    x, y = np.array([1, f1 * f4 / (2 * ROOT3)]), np.array([f1 * f3 / (2 * ROOT3), f5 * f6 / 4])
    low = np.stack([-2 * x, -2 * y, x, y], axis=1)
    return np.concatenate([np.zeros((2, 4)), low])


def noise_unit(M: Int, eta: float) -> float:
    """g̃ = 2√3 η (√45 + 5(M−1))/(15πM) (text above Eq. 119)."""
    return float(2 * ROOT3 * eta * noise_coefficients(M)[1] / (15 * np.pi * M))
