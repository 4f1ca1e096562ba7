"""The exact mean change of the traces in one step, to second order in the learning rate.

Averages over x, z, ξ_1 and ξ_2 at a fixed Gram matrix. Eqs. 51-67 keep only the part of them that
can be expressed by traces. With e = E x + σ_t z,

    C_1 = ⟨|x|² e eᵀ⟩ = (L_x + 2) E Eᵀ + L_x σ_t²
    C_Q = ⟨xᵀQx e eᵀ⟩ = tr Q (E Eᵀ + σ_t²) + 2 E Q Eᵀ
    X_B = ⟨xᵀBᵀe xᵀPᵀe⟩ = tr BᵀE tr PᵀE + tr BᵀE PᵀE + tr BᵀE EᵀP + σ_t² tr BᵀP

⟨δα⟩ and ⟨δβ⟩ have no higher orders. In the other averages, higher orders are 10⁻³ of the η² terms
at the critical rate of a 100-1000-10 network.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array, Scalar
from learndyn.theory.perturbation.state import Gram, Traces


class _Moments(NamedTuple):
    """The building blocks of the averages."""

    state: Gram
    noise: Scalar  # σ_t²

    def C_1(self) -> Array:
        E, L_x = self.state.E, self.state.P.shape[1]
        return (L_x + 2) * E @ E.T + L_x * self.noise * np.eye(len(E))

    def C(self, Q: Array) -> Array:
        E = self.state.E
        return jnp.trace(Q) * (E @ E.T + self.noise * np.eye(len(E))) + 2 * E @ Q @ E.T

    def X(self, B: Array) -> Array:
        E, P = self.state.E, self.state.P
        along = jnp.sum(B * E) * jnp.sum(P * E) + jnp.sum((B.T @ E) * (E.T @ P))
        return along + jnp.sum((E.T @ B) * (E.T @ P)) + self.noise * jnp.sum(B * P)


def node_perturbation(state: Gram, eta: Scalar, sigma_t2: Scalar, L_h: Scalar) -> Traces:
    """The mean change of the traces in a step of node perturbation.

    Args:
        state: the Gram matrix.
        eta: η of the loss ½ |y − y*|².
        sigma_t2: variance of the label noise.
        L_h: hidden units.

    Returns:
        The changes of α, β, ε, φ and α₂.
    """
    M, N, P, E = state.M, state.N, state.P, state.E
    (L_y, L_x), of, I = P.shape, _Moments(state, sigma_t2), np.eye(len(M))
    n, C_1, C_N = L_x * L_y, of.C_1(), of.C(N)
    hidden, outputs = (L_h + 2) * M + L_h * I, (L_y + 2) * I + L_y * M
    theta = _dot(outputs, of.C(N @ N)) + 4 * _dot(M, C_N)  # Eqs. 60a, c
    theta = eta**2 / n * (theta + _dot(jnp.trace(M) * (I + M) + 2 * M @ M, C_1))  # Eq. 60b
    force = M @ E + E @ N
    alpha2 = _dot(hidden, C_N) + jnp.trace(N) * _dot(I + M, C_1) + 2 * _dot(P @ P.T, C_1)
    alpha2 = alpha2 + _dot(I + M, C_N) + 2 * of.X(P)
    signal = -jnp.sum(P * E)
    return Traces(
        alpha=2 * eta / L_x * signal + eta**2 / L_x * _dot(hidden, C_1),
        beta=2 * eta / L_y * signal + eta**2 / L_y * _dot(outputs, C_N),
        epsilon=-2 * eta / n * jnp.sum(E * force) + 4 * eta**2 / n * of.X(E) + theta,
        phi=eta / n * jnp.sum((E + P) * force) - 2 * eta**2 / n * of.X(E + P) - theta,
        alpha2=-4 * eta / L_x * jnp.trace(N @ P.T @ E) + 2 * eta**2 / L_x * alpha2,
        target=0.0,
    )


def sgd(state: Gram, eta: Scalar, sigma_t2: Scalar) -> Traces:
    """The mean change of the traces in a step of SGD; arguments as in `node_perturbation`."""
    M, N, P, E = state.M, state.N, state.P, state.E
    (L_y, L_x), of = P.shape, _Moments(state, sigma_t2)
    n, C_1, C_N = L_x * L_y, of.C_1(), of.C(N)
    theta = jnp.trace(of.C(N @ N)) + _dot(M @ M, C_1) + 2 * _dot(M, C_N)  # Eqs. 91c-e
    theta = eta**2 / n * theta
    force, signal = M @ E + E @ N, -jnp.sum(P * E)
    alpha2 = _dot(M, C_N) + of.X(P) + _dot(P @ P.T, C_1)
    return Traces(
        alpha=2 * eta / L_x * signal + eta**2 / L_x * _dot(M, C_1),
        beta=2 * eta / L_y * signal + eta**2 / L_y * jnp.trace(C_N),
        epsilon=-2 * eta / n * jnp.sum(E * force) + 2 * eta**2 / n * of.X(E) + theta,
        phi=eta / n * jnp.sum((E + P) * force) - eta**2 / n * of.X(E + P) - theta,
        alpha2=-4 * eta / L_x * jnp.trace(N @ P.T @ E) + 2 * eta**2 / L_x * alpha2,
        target=0.0,
    )


def _dot(A: Array, B: Array) -> Array:
    """tr AB of symmetric matrices."""
    return jnp.sum(A * B)
