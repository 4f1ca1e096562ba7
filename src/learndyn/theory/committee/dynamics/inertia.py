"""Overlaps of weights and of their velocities, under SGD with momentum near 1.

With the velocity u of a step, u ← β u − η ∇, w ← w + u, and π = N u, in the limit N → ∞ at fixed
γ = N (1 − β) and η/(1 − β): where SGD without momentum at the rate η/(1 − β) has dw = f dα + noise,
here

    dw = π dα,    dπ = γ (f − π) dα + γ noise,

and likewise for outputs and biases. With E_ij = w_i·π_j / N, γ F_ij = π_i·π_j / N and
P_in = π_i·teacher_n / N of every level, in the notation of `terms`,

    dQ = E + Eᵀ,  dR = P,  dP = γ (f·teacher − P),  dE = γ (F + (f·w)ᵀ − E),
    dF = f·π + (f·π)ᵀ − 2 γ F + γ (h a)² λ_l φ_l Ω / batch.

f = h a λ_l D (w; teacher) − d w is linear in the rows. For γ → ∞ velocities follow f, and the
overlaps those of SGD at η/(1 − β). Nesterov's form has the same limit.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics import stiff
from learndyn.theory.committee.dynamics.overlaps import covariance, sum_of
from learndyn.theory.committee.dynamics.terms import (
    LevelRates,
    decay,
    drift_matrix,
    gradient,
    level_decay,
    omega,
    terms,
)
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps


class Moving(eqx.Module):
    """Overlaps with those of velocities, per level.

    Args:
        overlaps: of the weights.
        E: w·π / N, (levels, K, K).
        F: π·π / (N γ), (levels, K, K).
        P: π·teacher / N, (levels, K, M).
        outputs: velocities of the outputs, (K,), where they are part of the state.
        biases: of the biases, likewise.
    """

    overlaps: Overlaps
    E: Array
    F: Array
    P: Array
    outputs: Array | None
    biases: Array | None


def at_rest(state: Overlaps) -> Moving:
    """The state with velocities 0, as training begins."""
    nothing = lambda part: None if part is None else 0.0 * part
    still = nothing(state.outputs), nothing(state.biases)
    return Moving(state, 0.0 * state.Q, 0.0 * state.Q, 0.0 * state.R, *still)


def drift(setting: CommitteeSetting, moving: Moving) -> Moving:
    """d moving / dα."""
    state, K, gamma = moving.overlaps, setting.student.units, friction(setting)
    setting = setting.at(state.time)
    sigma, rates = covariance(setting, state), LevelRates.of(setting)
    E, P = jnp.asarray(moving.E), jnp.asarray(moving.P)
    # Products of every row, students first, with students and teachers, and with velocities.
    gram = jnp.concatenate([state.gram, jnp.concatenate([E, P.swapaxes(1, 2)], axis=1)], axis=2)
    pull = rates.first * (drift_matrix(setting, state, sigma) @ gram)
    if setting.rule.decay is not None:
        pull -= level_decay(setting) * gram[:, :K]
    along_w, along_teacher, along_velocity = jnp.split(pull, [K, gram.shape[1]], axis=2)
    noise = rates.second * omega(setting, state, sigma) * setting.rule.noise
    rest = [term for term in terms(setting, "flow") if term not in (gradient, decay)]
    change = sum_of(term(setting, state, sigma) for term in rest)
    follows = lambda name, v: None if v is None else gamma * (change.get(name, 0.0) - v)
    moved = dataclasses.replace(
        state,
        Q=E + E.swapaxes(1, 2),
        R=P,
        T=jnp.zeros_like(state.T),
        outputs=moving.outputs,
        biases=moving.biases,
        teacher_outputs=_still(state.teacher_outputs),
        teacher_biases=_still(state.teacher_biases),
    )
    return Moving(
        moved,
        gamma * (moving.F + along_w.swapaxes(1, 2) - E),
        along_velocity + along_velocity.swapaxes(1, 2) - gamma * (2 * moving.F - noise),
        gamma * (along_teacher - P),
        follows("outputs", moving.outputs),
        follows("biases", moving.biases),
    )


def radius(setting: CommitteeSetting, moving: Moving) -> Array:
    """A bound on the spectral radius of the Jacobian of `drift`: that of SGD, and 2 γ."""
    state = moving.overlaps
    return stiff.radius(setting.at(state.time), state) + 2 * friction(setting)


def friction(setting: CommitteeSetting) -> Array:
    """γ = N (1 − β)."""
    assert setting.rule.inertia is not None
    return (1 - jnp.asarray(setting.rule.inertia.momentum)) * setting.spectrum.counts.sum()


def _still(part: Array | None) -> Array | None:
    return None if part is None else jnp.zeros_like(part)
