"""The drift of a committee's order parameters, its form in factors, and the exact mean of a step.

`terms` has the equations. The same K × (K + M) matrix D acts on every level, scaled by λ_l.
"""

from typing import Any

import jax
import jax.numpy as jnp

from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.dynamics.terms import (
    Change,
    LevelRates,
    decay,
    drift_matrix,
    gradient,
    level_decay,
    level_values,
    omega,
    terms,
)
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import PARTS, Factors, Overlaps


def covariance(setting: CommitteeSetting, state: Overlaps | Factors) -> Array:
    """Σ of the pre-activations, (K + M, K + M)."""
    if isinstance(state, Factors):
        rows = jnp.asarray(state.rows)
        return jnp.einsum("l,lir,ljr->ij", jnp.asarray(setting.spectrum.values), rows, rows)
    return jnp.sum(level_values(setting) * jnp.asarray(state.gram), axis=0)


def error(setting: CommitteeSetting, state: Any, sigma: Array) -> Array:
    """⟨loss⟩ without label noise: loss_scale · E[Δ²]."""
    c = setting.c(state)
    return setting.problem.loss_scale * (c @ setting.units.values(sigma, setting.biases(state)) @ c)


def drift(setting: CommitteeSetting, state: Overlaps, order: str) -> Overlaps:
    """D state / dα: the sum of `terms`; "flow" leaves out the noise."""
    return drift_at(setting, state, covariance(setting, state), order)


def drift_at(setting: CommitteeSetting, state: Overlaps, sigma: Array, order: str) -> Overlaps:
    """The drift with the covariance of the pre-activations as a separate argument.

    Through it, the outputs and the biases alone the levels act on each other, which `stiff` uses.
    """
    change = sum_of(term(setting, state, sigma) for term in terms(setting, order))
    return Overlaps(change["Q"], change["R"], jnp.zeros_like(state.T), **_parts(state, change))


def drift_of_factors(setting: CommitteeSetting, state: Factors) -> Factors:
    """D factors / dα at order "flow": dJ_l/dα = h a λ_l D (J_l; B_l) − d J_l.

    The noise has no such form: it adds a component outside the rows.
    """
    sigma, rows = covariance(setting, state), jnp.asarray(state.rows)
    dJ = LevelRates.of(setting).first * (drift_matrix(setting, state, sigma) @ rows)
    if setting.rule.decay is not None:
        dJ -= level_decay(setting) * jnp.asarray(state.J)
    # The other terms act on what factors have too: outputs and biases.
    rest = [term for term in terms(setting, "flow") if term not in (gradient, decay)]
    change = sum_of(term(setting, state, sigma) for term in rest)  # pyright: ignore
    return Factors(dJ, jnp.zeros_like(state.B), **_parts(state, change))


def sum_of(changes: Any) -> Change:
    """The sum of what terms change, field by field."""
    total: Change = {}
    for change in changes:
        total |= {name: total[name] + d if name in total else d for name, d in change.items()}
    return total


def _parts(state: Overlaps | Factors, change: Change) -> dict[str, Any]:
    """The drift of outputs, biases and time, zero for what does not learn; None for none."""
    still = lambda part: None if part is None else jnp.zeros_like(part)
    parts = {name: change.get(name, still(getattr(state, name))) for name in PARTS}
    return parts | {"time": jax.tree.map(jnp.ones_like, state.time)}


def mean_step(setting: CommitteeSetting, state: Overlaps) -> Overlaps:
    """The exact mean of the state after one step, given the state before it.

    Besides the drift / N it has terms of order 1/N². By Price's theorem the correlation of the
    input's length in a level with δ δᵀ is 2 λ_l² dΩ/dΣ[C_l] (a factor 1 + 6/N for squares, where
    Ω is cubic in Σ). Different examples of a batch contribute the product of their means. With
    decay the step is added to (1 − d/N) w, which replaces Q by (1 − d/N)² Q and the term that is
    linear in the step by 1 − d/N times itself. Outputs and biases have no term of order 1/N².
    """
    rates = LevelRates.of(setting)
    C, N = jnp.asarray(state.gram), jnp.sum(jnp.asarray(setting.spectrum.counts))
    sigma = covariance(setting, state)
    flow = drift(setting, state, "full")
    second = _second(setting, state, sigma, rates, C, N)
    if setting.rule.decay is not None:
        d, linear = level_decay(setting), gradient(setting, state, sigma)
        second += (d**2 * jnp.asarray(state.Q) - d * linear["Q"]) / N
        # R is linear in w, so its drift is exact.
    moved = lambda part, rate: None if part is None else part + rate / N
    parts = {name: moved(getattr(state, name), getattr(flow, name)) for name in PARTS}
    parts["time"] = jax.tree.map(moved, state.time, flow.time)
    return Overlaps(state.Q + (flow.Q + second) / N, state.R + flow.R / N, state.T, **parts)


def _second(
    setting: CommitteeSetting, state: Overlaps, sigma: Array, rates: LevelRates, C: Array, N: Array
) -> Array:
    """N times the terms of order 1/N² that a step without decay adds to Q."""
    D = drift_matrix(setting, state, sigma)
    mean = rates.first**2 * (D @ C @ D.T) / N
    # `share` is 1/batch: of the batch² pairs of examples, `batch` are of an example with itself.
    share = setting.rule.noise
    if not share:
        return mean
    derivative = jax.vmap(
        lambda tangent: jax.jvp(lambda s: omega(setting, state, s), (sigma,), (tangent,))
    )
    correlated = 2 * rates.first**2 * derivative(C)[1] / N
    return correlated * share + mean * (1 - share)


def finite_size_noise(N: Int) -> float:
    """1 + 6/N, the factor by which Ω of `mean_step` exceeds its limit N → ∞, for squares."""
    return float(1 + 6 / N)
