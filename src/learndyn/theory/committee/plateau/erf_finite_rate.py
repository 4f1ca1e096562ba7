"""The symmetric plateau of an erf committee at a finite learning rate, and the escape from it.

`erf` treats the limit η → 0, where all students are equal. At finite η noise drives them apart
(the symmetric phase of saad1995online): each has the overlap r with every teacher, q with itself
and c < q with every other student. For typical teachers, t^l = φ_l τ I, the drift of a state
C_l = φ_l G is (see `dynamics.overlaps`)

    h λ_l φ_l [D G + (D G)ᵀ + h Ω / batch],

where D and Ω are functions of Σ = (Σ_l φ_l λ_l) G alone: all levels rest at the same G = (r, q, c).

Deviations δR^l_in = ρ_l x_i e_n, with x and e of zero sum, leave everything else unchanged to
first order. With d = D_11 − D_12 and κ = b τ ∂E[g'g']/∂R they obey

    dρ_l/dα = h λ_l (d ρ_l + κ φ_l Σ_k λ_k ρ_k),

so that their largest growth rate h μ solves 1 = κ Σ_l φ_l λ_l² / (μ − d λ_l).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics import terms
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import from_gram

SMALL = 1e-2  # initial norm of the students, relative to the teachers
FIRST, GROWTH = 0.1, 1.3  # the first step in h α, and the ratio of successive steps
MOST = 400  # largest number of steps; the last is far longer than all time scales
GONE = 1e6  # overlaps, relative to the teachers, above which norms grow without bound
ROUNDING = 1e-13  # rounding error of the drift, relative to |Jacobian| · |overlaps|


class Plateau(NamedTuple):
    """The plateau, in pre-activations.

    Attributes:
        covariance: Σ of (student, teacher) pre-activations, (K + M, K + M).
        growth_rate: growth rate of specialising deviations per t = η α; negative if none grows.
    """

    covariance: np.ndarray
    growth_rate: float


def plateau(setting: CommitteeSetting) -> Plateau | None:
    """The symmetric fixed point at order "full" that small students approach.

    It is found by following the flow from there with growing implicit steps, so it is stable.

    Args:
        setting: an erf committee of several units, with several teachers, under SGD.

    Returns:
        The plateau; None if there is none because norms grow without bound.
    """
    tau = np.asarray(setting.teacher.init.variance)
    y, step = np.array([0.0, SMALL * tau, 0.0]), FIRST
    for _ in range(MOST):
        J, f = _linearised(setting, tau, y)
        rounding = ROUNDING * np.linalg.norm(J)
        if np.abs(f).max() < rounding * np.linalg.norm(y):
            r, q, c = y
            stable = np.linalg.eigvals(J).real.max() < rounding and r > 0 and c < q * (1 + 1e-9)
            return _plateau_at(setting, tau, y) if stable else None
        # Implicit Euler at first; as the step grows this becomes Newton's method.
        y, step = y + np.linalg.solve(np.eye(3) / step - J, f), step * GROWTH
        if not np.abs(y).max() < GONE * tau:
            break
    return None


def _plateau_at(setting: CommitteeSetting, tau: Array, y: Array) -> Plateau:
    sigma, d, kappa = _escape(setting, tau, y)
    clock = 2 * setting.problem.loss_scale * setting.student.scale
    return Plateau(sigma, float(clock * _growth(setting, float(d), float(kappa))))


def _growth(setting: CommitteeSetting, d: float, kappa: float) -> float:
    """The largest μ with 1 = κ Σ_l φ_l λ_l² / (μ − d λ_l)."""
    lam, counts = setting.spectrum.values, setting.spectrum.counts
    weights = kappa * counts / counts.sum() * lam**2
    pole, top = float(np.max(d * lam)), int(np.argmax(d * lam))
    # The root lies between that of the level with the highest pole alone and that of all levels
    # at this pole; the margins keep rounding from closing the bracket.
    low, high = pole + weights[top] * (1 - 1e-9), pole + weights.sum() * (1 + 1e-9)
    above = lambda mu: np.sum(weights / (mu - d * lam)) - 1
    return float(
        scipy.optimize.root_scalar(above, bracket=(low, high), xtol=1e-15, rtol=1e-13).root
    )


def _gram(setting: CommitteeSetting, tau: Array, y: Array) -> Array:
    """G of (r, q, c), (K + M, K + M)."""
    r, q, c = y
    K, M = setting.student.units, setting.teacher.units
    R = jnp.full((K, M), r)
    return jnp.block([[(q - c) * jnp.eye(K) + c, R], [R.T, tau * jnp.eye(M)]])


def _covariance(setting: CommitteeSetting, tau: Array, y: Array) -> Array:
    counts = jnp.asarray(setting.spectrum.counts)
    mean = jnp.sum(counts * jnp.asarray(setting.spectrum.values)) / jnp.sum(counts)
    return mean * _gram(setting, tau, y)


@compiled_in_float64
def _linearised(setting: CommitteeSetting, tau: Array, y: Array) -> tuple[Array, Array]:
    """The Jacobian of the drift d(r, q, c) / d(h α) in one level with λ = 1, and the drift."""

    def drift(y: Array) -> tuple[Array, Array]:
        G, sigma, K = _gram(setting, tau, y), _covariance(setting, tau, y), setting.student.units
        state, h = from_gram(G[None], K), setting.h * setting.student.scale
        half = terms.drift_matrix(setting, state, sigma) @ G
        noise = h * setting.rule.noise * terms.omega(setting, state, sigma)
        dQ = half[:, :K] + half[:, :K].T + noise
        moved = jnp.stack([half[0, K], dQ[0, 0], dQ[0, 1]])
        return moved, moved

    return jax.jacfwd(drift, has_aux=True)(jnp.asarray(y))


@compiled_in_float64
def _escape(setting: CommitteeSetting, tau: Array, y: Array) -> tuple[Array, Array, Array]:
    """Σ, d and κ of the module's docstring; ∂/∂R of 1/√E, E = (1+Q)(1+T) − R², is R E^(-3/2)."""
    sigma, K = _covariance(setting, tau, y), setting.student.units
    state = from_gram(_gram(setting, tau, y)[None], K)
    D = terms.drift_matrix(setting, state, sigma)
    Q, R, T = sigma[0, 0], sigma[0, K], sigma[K, K]
    slope = D[0, K] * R / ((1 + Q) * (1 + T) - R**2)
    return sigma, D[0, 0] - D[0, 1], tau * slope
