"""The Jacobian of the committee's drift, solved through its level structure.

At fixed Σ the drift is linear in the overlaps, and the same in every level except for the factor
λ_l. The levels act on each other only through Σ. Solving with w − J therefore takes one K × K
eigenproblem for all levels and a correction of rank m = K (K + M) (Woodbury), and the cost is
linear in the number of levels.
"""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics import dense
from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics.overlaps import (
    LevelRates,
    covariance,
    drift_at,
    drift_matrix,
)
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Factors, Overlaps

Scheme = Literal["explicit", "implicit", "stabilised"]
LIMIT = 2 * 10**7  # the most numbers that `linearise` may store, 160 MB
WORTH = 2000  # number of explicit steps forced by stability above which stiff schemes pay off


def scheme(setting: CommitteeSetting, state: Overlaps, end: float) -> Scheme:
    """How to integrate until time `end`: explicitly, unless stability would limit the steps.

    Otherwise implicitly if the Jacobian is small enough, and else by a stabilised explicit scheme.
    """
    L, K, M = state.R.shape
    # The stability region of Dopri8 extends to about −6 on the real axis.
    if L == 1 or float(eqx.filter_jit(radius)(setting, state)) * end / 6 < WORTH:
        return "explicit"
    return "implicit" if L * (K * (K + M)) ** 2 <= LIMIT else "stabilised"


def radius(setting: CommitteeSetting, state: Overlaps | Factors) -> Array:
    """A bound on the spectral radius of the drift's Jacobian: 2 max_l (h λ_l) |D|₂.

    The factor 2 is for Q, which decays twice as fast as R, and for factors for the change of Σ.
    """
    D = drift_matrix(setting, covariance(setting, state))
    return 2 * jnp.max(LevelRates.of(setting).first) * dense.spectral_norm(D)


def linearise(
    setting: CommitteeSetting, state: Overlaps, order: str, w: Array
) -> Callable[[Overlaps], Overlaps]:
    """The solver of (w − J) x = b, J the Jacobian of `drift` at `state`.

    Args:
        setting: the system's parts.
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
        """The response of the overlaps to a change of the students' rows of Σ, (K, K + M)."""
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
    setting: CommitteeSetting, state: Overlaps, w: Array
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """The solver of (w − J₀) x = b, with J₀ the Jacobian at fixed Σ: one eigenbasis for all levels.

    J₀ x has x_R ↦ h λ_l 𝒜 x_R and x_Q ↦ h λ_l (𝒜 x_Q + x_Q 𝒜ᵀ + ℬ x_Rᵀ + x_R ℬᵀ), with 𝒜 and ℬ the
    two blocks of D. The columns of 𝒜 carry the output weights c, which have one sign, so that
    C^½ 𝒜 C^(-½) with C = diag |c| is symmetric, and 𝒜 = V Λ V⁻¹ has real eigenvalues.
    """
    K, first = setting.student.units, LevelRates.of(setting).first
    D = drift_matrix(setting, covariance(setting, state))
    root = jnp.sqrt(jnp.abs(setting.problem.output_weights(setting.student)[:K]))
    values, U = dense.eigh(root[:, None] * D[:, :K] / root)
    V, inverse, B = U / root[:, None], U.T * root, D[:, K:]

    def solve(Q: Array, R: Array) -> tuple[Array, Array]:
        # R first: it does not depend on Q, but drives it.
        R = V @ ((inverse @ R) / (w - first * values[:, None]))
        mixed = first * (B @ R.swapaxes(1, 2))
        Q = inverse @ (Q + mixed + mixed.swapaxes(1, 2)) @ inverse.T
        return V @ (Q / (w - first * (values[:, None] + values))) @ V.T, R

    return solve
