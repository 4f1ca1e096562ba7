"""The late stage of an erf committee: linearised around the teacher (worschech2024scaling).

Scales of the paper with K = M: student (1/√M) Σ g(x_i), teacher (1/√M) Σ g(y_n), loss
(1/2)(ζ − σ)². All is kept by level, where nothing grows: the paper's moments span so many orders
of magnitude that it needs arbitrary precision beyond L = 12 or so.

Exact to first order in the overlaps, for any T: with e^k = q^k − r^k − r^kᵀ + t^k, those of J − B,

    ė^k = −(η/M) λ_k (Φ e^k + e^k Φ),   ε_g = (1/2M) Σ_k λ_k tr(Φ e^k),
    Φ_ij = E[g'(y_i) g'(y_j)] = (2/π) [(1 + T_ii)(1 + T_jj) − T_ij²]^(-1/2).

First order in the overlaps is not leading order in J − B: (r^k − t^k)² is of the order of e^k
unless J − B lies mostly outside the span of the teachers. `erf_hessian` keeps both.

The paper's case is T^(1) = I with all diagonal and all off-diagonal deviations alike: R = T + r,
Q = T + q on the diagonals, s and c off them (C.5 prints S = T + s, C = T + c). Its matrices are
here for every M; Eqs. 119 and 17/122 are printed for M = 2.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from learndyn.numerics.types import Array, Int
from learndyn.theory.committee.state import Overlaps

ROOT3 = np.sqrt(3.0)


def deviation(state: Overlaps) -> np.ndarray:
    """e^k = q^k − r^k − r^kᵀ + t^k, (L, M, M): overlaps of the differences J_i − B_i."""
    R = np.asarray(state.R)
    if R.shape[1] != R.shape[2]:
        raise ValueError(f"state: got R of shape {R.shape}; allowed is K = M")
    return np.asarray(state.Q) - R - R.swapaxes(1, 2) + np.asarray(state.T)


def in_teachers_order(state: Overlaps, lam: ArrayLike) -> Overlaps:
    """The same state with students renumbered so that Σ_i R^(1)_ii is largest, K = M."""
    R1 = np.einsum("k,kij->ij", np.asarray(lam, dtype=np.float64), state.R)
    student = linear_sum_assignment(-R1.T)[1]
    Q = np.asarray(state.Q)[:, student[:, None], student]
    return Overlaps(Q, np.asarray(state.R)[:, student], state.T)


def mean_deviations(
    state: Overlaps,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(r, s, q, c) by level, (L,) each: deviations from t^k, averaged over the entries of a kind.

    r and q are those of the diagonals of r^k and q^k, s and c those off them (M > 1).
    """
    M, T = state.T.shape[1], np.asarray(state.T)
    mean_on = lambda X: np.trace(X, axis1=1, axis2=2) / M
    mean_off = lambda X: (X.sum(axis=(1, 2)) - M * mean_on(X)) / (M * (M - 1))
    r, q = np.asarray(state.R) - T, np.asarray(state.Q) - T
    return mean_on(r), mean_off(r), mean_on(q), mean_off(q)


def distance(state: Overlaps, lam: ArrayLike) -> float:
    """|J − B|/|B| in the metric of the inputs: √(Σ_k λ_k tr e^k / Σ_k λ_k tr t^k)."""
    lam = np.asarray(lam, dtype=np.float64)
    size = lambda X: lam @ np.trace(X, axis1=1, axis2=2)
    return float(np.sqrt(size(deviation(state)) / size(np.asarray(state.T))))


def alignments(state: Overlaps, lam: ArrayLike) -> np.ndarray:
    """R_nn/√(Q_nn T_nn) of the level sums, (M,): 1 where a student points to its teacher."""
    sums = (np.einsum("k,kii->i", np.asarray(lam), X) for X in (state.Q, state.R, state.T))
    Q, R, T = sums
    return R / np.sqrt(Q * T)


def slope_matrix(T: ArrayLike) -> np.ndarray:
    """Φ_ij = E[g'(y_i) g'(y_j)] for pre-activations of covariance T, (M, M)."""
    T = np.asarray(T, dtype=np.float64)
    edge = 1 + np.diag(T)
    return 2 / np.pi / np.sqrt(np.outer(edge, edge) - T**2)


def late_modes(e: ArrayLike, T: ArrayLike, lam: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The error of the late stage as a sum of exponentials, to first order, for any T.

    Args:
        e: deviations at α = 0, (L, M, M), as `deviation` gives them.
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


def rate_unit(M: Int, eta: float) -> float:
    """a = 2√3 η/(3πM) of dx/dα = a A x (Eqs. 16 and 118; 16 lacks η in print)."""
    return float(2 * ROOT3 * eta / (3 * np.pi * M))


def late_exponents(M: Int) -> tuple[float, float]:
    """(2 − √3, 2 + (M−1)√3): the error's decay rates are a λ_k times these (Eqs. 17 and 122).

    The print has 2 + √3 for the second, which is M = 2, and 17 and 122 swap the labels.
    """
    return float(2 - ROOT3), float(2 + (M - 1) * ROOT3)


def linear_error(r: ArrayLike, s: ArrayLike, q: ArrayLike, c: ArrayLike, M: Int) -> Array:
    """ε_g to first order in the level-summed deviations, T^(1) = I (Eq. 121)."""
    r, s, q, c = (np.asarray(x, dtype=np.float64) for x in (r, s, q, c))
    return (2 * ROOT3 * (q - 2 * r) + 3 * (M - 1) * (c - 2 * s)) / (6 * np.pi)


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

    The directions q = 2r, c = 2s do not enter the error. What does is x_k = q_k − 2 r_k and
    y_k = c_k − 2 s_k, which mix within their level only: x − y is slow, x + (M−1) y is fast.

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

    The print has 4√6(M−2) in f₅ (`errata.printed_f5`), which agrees for M = 2.
    """
    b = np.sqrt(45.0) + 5 * (M - 1)
    f1, f5 = np.sqrt(6.0) + M - 2, 8 * ROOT3 * (M - 2) + 3 * M**2 - 15 * M + 26
    return tuple(float(f) for f in (f1, b, 15 * (M - 1) / b, 15 / b, f5, 5 / b))


def noise_matrix(M: Int) -> np.ndarray:
    """F (Eq. 120): the η² terms, to first order; only q and c feel them."""
    f1, _, f3, f4, f5, f6 = noise_coefficients(M)
    x, y = np.array([1, f1 * f4 / (2 * ROOT3)]), np.array([f1 * f3 / (2 * ROOT3), f5 * f6 / 4])
    low = np.stack([-2 * x, -2 * y, x, y], axis=1)
    return np.concatenate([np.zeros((2, 4)), low])


def noise_unit(M: Int, eta: float) -> float:
    """g̃ = 2√3 η (√45 + 5(M−1))/(15πM) (text above Eq. 119)."""
    return float(2 * ROOT3 * eta * noise_coefficients(M)[1] / (15 * np.pi * M))


def critical_gain(M: Int, T: float = 1.0) -> float:
    """ρ such that the late stage is stable for η < M/(ρ Σ_k φ_k λ_k), for T^(1) = T I.

    With the η² term, ė^k = −(η/M) λ_k (Φ e^k + e^k Φ) + (η²/M²) λ_k φ_k Ω[Σ_j λ_j e^j] and
    Ω[e]_ij = Σ_kl E[g'(y_i) g'(y_j) g'(y_k) g'(y_l)] e_kl. A constant solution is e^k ∝ φ_k X
    with Φ X + X Φ = (η/M) Σ_k φ_k λ_k Ω[X], so ρ is the largest eigenvalue of a positive map,
    (Φ· + ·Φ)⁻¹ Ω. Its leading X is positive semidefinite and, by permutation symmetry, x on the
    diagonal and y off it: 2 × 2 matrices remain. Not in the paper.
    """
    u1, u2, u3, u4 = (1 / np.sqrt(1 + n * T) for n in range(1, 5))  # (π/2)^(n/2) E[g'^n]
    drift = 2 * np.array([[u2, (M - 1) * u1**2], [u1**2, u2 + (M - 2) * u1**2]])
    mixed = 2 * u3 * u1 + (M - 2) * u2 * u1**2
    other = 2 * u2**2 + 4 * (M - 2) * u2 * u1**2 + (M - 2) * (M - 3) * u1**4
    noise = np.array([[u4 + (M - 1) * u2**2, (M - 1) * mixed], [mixed, other]])
    n = min(int(M), 2)  # one unit has no y
    ratios = np.linalg.eigvals(np.linalg.solve(drift[:n, :n], noise[:n, :n]))
    return float(2 / np.pi * ratios.real.max())
