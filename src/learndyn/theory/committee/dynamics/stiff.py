"""The Jacobian of the committee's drift, solved through its level structure.

Given Σ the drift is linear in the overlaps and the same in every level but for λ_l; levels
feel each other through Σ alone. So w − J is one K × K eigenproblem for all levels, plus a
matrix of rank m = K (K + M) (Woodbury): the cost is linear in the number of levels.
"""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics import dense
from learndyn.numerics.types import Array
from learndyn.theory.committee.dynamics.overlaps import (
    LevelRates,
    covariance,
    drift_at,
    drift_matrix,
)
from learndyn.theory.committee.setting import Setting
from learndyn.theory.committee.state import Factors, Overlaps

Scheme = Literal["explicit", "implicit", "stabilised"]
LIMIT = 2 * 10**7  # numbers that `linearise` may hold
WORTH = 2000  # explicit steps that stability would force, from which on stiff schemes pay


def scheme(setting: Setting, state: Overlaps, end: float) -> Scheme:
    """How to integrate until time `end`: explicitly unless stability would dictate the steps.

    Then implicitly where the Jacobian is small enough, else by a stabilised explicit scheme.
    """
    L, K, M = state.R.shape
    # Dopri8 is stable to about 6 down the negative axis.
    if L == 1 or float(eqx.filter_jit(radius)(setting, state)) * end / 6 < WORTH:
        return "explicit"
    return "implicit" if L * (K * (K + M)) ** 2 <= LIMIT else "stabilised"


def radius(setting: Setting, state: Overlaps | Factors) -> Array:
    """A bound on the spectral radius of the drift's Jacobian: 2 max_l (h λ_l) |D|₂.

    The 2 is for Q, which decays twice as fast as R, and in factors for the change of Σ.
    """
    D = drift_matrix(setting, covariance(setting, state))
    return 2 * jnp.max(LevelRates.of(setting).first) * dense.spectral_norm(D)


def linearise(
    setting: Setting, state: Overlaps, order: str, w: Array
) -> Callable[[Overlaps], Overlaps]:
    """The solver of (w − J) x = b, J the Jacobian of `drift` at `state`.

    Args:
        setting: of the system.
        state: where to linearise.
        order: "full" or "flow".
        w: a positive number.

    Returns:
        The function b ↦ x.
    """
    K, M = state.R.shape[1:]
    lam = LevelRates.of(setting).lam
    alone = _without_coupling(setting, state, w)
    sigma = covariance(setting, state)

    def response(change: Array) -> tuple[Array, Array]:
        """How the overlaps answer to a change of Σ's rows of students, (K, K + M)."""
        tangent = jnp.zeros_like(sigma).at[:K].set(change)
        tangent = tangent.at[K:, :K].set(change[:, K:].T)
        move = lambda s: drift_at(setting, state, s, order)
        push = jax.jvp(move, (sigma,), (tangent,))[1]
        return alone(push.Q, push.R)

    rows = lambda Q, R: jnp.concatenate([(lam * Q).sum(-3), (lam * R).sum(-3)], axis=-1)
    basis = jnp.eye(K * (K + M)).reshape(-1, K, K + M)
    W_Q, W_R = jax.vmap(response)(basis)  # (m, L, K, K), (m, L, K, M)
    small = jnp.eye(len(basis)) - rows(W_Q, W_R).reshape(len(basis), -1).T

    def solve(b: Overlaps) -> Overlaps:
        Q, R = alone(b.Q, b.R)
        s = dense.solve(small, rows(Q, R).ravel())
        return Overlaps(Q + jnp.tensordot(s, W_Q, 1), R + jnp.tensordot(s, W_R, 1), b.T / w)

    return solve


def _without_coupling(
    setting: Setting, state: Overlaps, w: Array
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """The solver of (w − J₀) x = b, J₀ the Jacobian at fixed Σ: all levels in one eigenbasis.

    x_R = h λ_l 𝒜 x_R + …, x_Q = h λ_l (𝒜 x_Q + x_Q 𝒜ᵀ + ℬ x_Rᵀ + x_R ℬᵀ) + …, with 𝒜 and ℬ the
    two blocks of D. Columns of 𝒜 carry the output weights c, of one sign, so that C^½ 𝒜 C^(-½)
    with C = diag |c| is symmetric, and 𝒜 = V Λ V⁻¹ has real rates.
    """
    K, first = setting.student.units, LevelRates.of(setting).first
    D = drift_matrix(setting, covariance(setting, state))
    root = jnp.sqrt(jnp.abs(setting.problem.output_weights(setting.student)[:K]))
    values, U = dense.eigh(root[:, None] * D[:, :K] / root)
    V, inverse, B = U / root[:, None], U.T * root, D[:, K:]

    def solve(Q: Array, R: Array) -> tuple[Array, Array]:
        R = V @ ((inverse @ R) / (w - first * values[:, None]))
        mixed = first * (B @ R.swapaxes(1, 2))
        Q = inverse @ (Q + mixed + mixed.swapaxes(1, 2)) @ inverse.T
        return V @ (Q / (w - first * (values[:, None] + values))) @ V.T, R

    return solve
