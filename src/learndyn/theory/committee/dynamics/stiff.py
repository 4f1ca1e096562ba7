"""The Jacobian of the committee's drift, solved through its level structure.

At fixed Σ, outputs and biases the drift is linear in the overlaps, and the same in every level
except for the factor λ_l. The levels act on each other only through these. Solving with w − J
therefore takes one K × K eigenproblem for all levels and a correction of rank m = K (K + M), plus K
each for outputs and biases that are part of the state (Woodbury). The cost is linear in the number
of levels.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from learndyn.numerics import dense
from learndyn.numerics.rosenbrock import Solve
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics.overlaps import covariance, drift_at
from learndyn.theory.committee.dynamics.terms import LevelRates, drift_matrix, level_decay
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
    fastest = setting.at_most(end)
    if L == 1 or is_easy(float(eqx.filter_jit(radius)(fastest, state)), end):
        return "explicit"
    return "implicit" if L * (K * (K + M)) ** 2 <= LIMIT else "stabilised"


def is_easy(radius: float, end: float) -> bool:
    """Whether stability forces few steps until `end` on an explicit scheme."""
    # The stability region of Dopri8 extends to about −6 on the real axis.
    return radius * end / 6 < WORTH


def radius(setting: CommitteeSetting, state: Overlaps | Factors) -> Array:
    """A bound on the spectral radius of the drift's Jacobian: 2 max_l (h a λ_l) |D|₂ and decay.

    The factor 2 is for Q, which decays twice as fast as R, and for factors for the change of Σ.
    Outputs add h_v a² Σ_i E[g_i²] and their decay; biases have the matrix D with their own rate.
    """
    sigma, trained, law = covariance(setting, state), setting.student.train, setting.rule
    size = dense.spectral_norm(drift_matrix(setting, state, sigma))
    bound = 2 * jnp.max(LevelRates.of(setting).first) * size
    outputs, biases = setting.part_rates
    if law.decay is not None:
        bound += 2 * jnp.asarray(law.decay)
    if "outputs" in trained:
        K = setting.student.units
        values = jnp.diag(setting.units.values(sigma, setting.biases(state)))[:K]
        bound += outputs * setting.student.scale**2 * jnp.sum(values)
        bound += 0.0 if law.output_decay is None else jnp.asarray(law.output_decay)
    if "biases" in trained:
        bound += biases * setting.student.scale * size
    return bound


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
    K = state.R.shape[1]
    lam = LevelRates.of(setting).lam
    alone = _without_coupling(setting, state, w)
    sigma = covariance(setting, state)

    def coupling(Q: Array, R: Array, *parts: Array | None) -> Array:
        """What levels act on each other through: students' rows of Σ, outputs and biases."""
        rows = jnp.concatenate([(lam * Q).sum(0), (lam * R).sum(0)], axis=-1)
        return ravel_pytree((rows, parts))[0]

    def response(change: Array) -> tuple[Array | None, ...]:
        """The response of `_moving` to a change of `coupling`."""
        rows, (outputs, biases) = unravel(change)
        tangent = jnp.zeros_like(sigma).at[:K].set(rows)
        tangent = tangent.at[K:, :K].set(rows[:, K:].T)

        def move(s: Array, outputs: Array | None, biases: Array | None) -> Overlaps:
            at = dataclasses.replace(state, outputs=outputs, biases=biases)
            return drift_at(setting, at, s, order)

        parts = (state.outputs, state.biases)
        return _moving(alone(jax.jvp(move, (sigma, *parts), (tangent, outputs, biases))[1]))

    like, unravel = ravel_pytree((sigma[:K], (state.outputs, state.biases)))
    basis = jnp.eye(len(like))
    W = jax.vmap(response)(basis)
    small = jnp.eye(len(basis)) - jax.vmap(coupling)(*W).T

    def solve(b: Overlaps) -> Overlaps:
        x = alone(b)
        s = dense.solve(small, coupling(*_moving(x)))
        corrected = lambda own, each: own + jnp.tensordot(s, each, 1)
        Q, R, outputs, biases = jax.tree.map(corrected, _moving(x), W)
        return dataclasses.replace(x, Q=Q, R=R, outputs=outputs, biases=biases)

    return solve


def with_time(solve: Solve, drift: Callable[[Any], Any], state: Overlaps, w: Array) -> Solve:
    """The solver of (w − J) x = b with the time as a variable, which nothing but itself moves.

    Args:
        solve: the solver at a fixed time.
        drift: the drift, which depends on the time.
        state: where to linearise.
        w: a positive number.

    Returns:
        The function b ↦ x.
    """
    assert state.time is not None
    at = lambda time: drift(dataclasses.replace(state, time=Elapsed(time)))
    now = state.time.value
    slope = jax.jvp(at, (now,), (jnp.ones_like(now),))[1]

    def solve_all(b: Overlaps) -> Overlaps:
        assert b.time is not None
        elapsed = b.time.value / w
        x = solve(jax.tree.map(lambda own, s: own + elapsed * s, b, slope))
        return dataclasses.replace(x, time=Elapsed(elapsed))

    return solve_all


def _moving(state: Overlaps) -> tuple[Array | None, ...]:
    """All but the teacher's part of a state."""
    return state.Q, state.R, state.outputs, state.biases


def _without_coupling(
    setting: CommitteeSetting, state: Overlaps, w: Array
) -> Callable[[Overlaps], Overlaps]:
    """The solver of (w − J₀) x = b, with J₀ the Jacobian at fixed Σ, outputs and biases.

    J₀ x has x_R ↦ (r_l 𝒜 − d_l) x_R and
    x_Q ↦ r_l (𝒜 x_Q + x_Q 𝒜ᵀ + ℬ x_Rᵀ + x_R ℬᵀ) − 2 d_l x_Q, with 𝒜 and ℬ the two blocks of D,
    r_l = h a λ_l and the decay d_l. 𝒜 is symmetric: one eigenbasis serves all levels. Nothing else
    moves.
    """
    K, first = setting.student.units, LevelRates.of(setting).first
    d = 0.0 if setting.rule.decay is None else level_decay(setting)
    D = drift_matrix(setting, state, covariance(setting, state))
    values, V = dense.eigh(D[:, :K])
    B = D[:, K:]

    def solve(b: Overlaps) -> Overlaps:
        # R first: it does not depend on Q, but drives it.
        R = V @ ((V.T @ b.R) / (w + d - first * values[:, None]))
        mixed = first * (B @ R.swapaxes(1, 2))
        Q = V.T @ (b.Q + mixed + mixed.swapaxes(1, 2)) @ V
        Q = V @ (Q / (w + 2 * d - first * (values[:, None] + values))) @ V.T
        still = {name: None if x is None else x / w for name, x in b.parts.items()}
        return Overlaps(Q, R, b.T / w, **still)

    return solve
