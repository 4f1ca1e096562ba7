"""The drift of a committee's order parameters on a mixture, with one or several outputs.

Inputs are μ_c + noise with probability p_c, in level l with variance λ_lc. The rows of the state
are students, teachers and √N μ_c; their Gram matrices are C_l. In cluster c pre-activations have
the covariance Σ_c = Σ_l λ_lc C_l and the means m_c, which the overlaps with √N μ_c are. With output
weights c_ko (students −a v, teachers b t), Δ_o = Σ_k c_ko f_k and G_ik = Σ_o v_io c_ko,

    δ_i = g'_i Σ_o v_io Δ_o = g'_i Σ_k G_ik f_k
    D^c_ij = G_ij E_c[g'_i f'_j] + δ_ij Σ_k G_ik E_c[g''_i f_k]
    d(w_i · x_r)_l = h a Σ_c p_c {λ_lc (D^c C_l)_ir + E_c[δ_i] (μ_c · x_r)_l},   x_r any row
    dQ_l += (h a)² φ_l Σ_c p_c λ_lc Ω^c / batch,
    Ω^c_ij = Σ_oo' v_io v_jo' E_c[g'_i g'_j Δ_o Δ_o'] + label_noise² (v vᵀ)_ij E_c[g'_i g'_j]
    dv_io = h_v a Σ_c p_c Σ_k c_ko E_c[g_i f_k],    db_i = h_b a Σ_c p_c E_c[δ_i]

The rest is as in `dynamics.terms`, of which these are the case of one cluster without a mean and
one output. Means have |μ_c|² of order 1, so that they do not add to the noise.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics.terms import level_decay
from learndyn.theory.committee.general.setting import GeneralSetting
from learndyn.theory.committee.state import PARTS, Overlaps


class Averages(NamedTuple):
    """What the drift needs of every cluster.

    Attributes:
        drift: D, (clusters, K, n).
        pull: E[δ_i], (clusters, K).
        readout: Σ_k c_ko E[g_i f_k], (clusters, K, outputs).
    """

    drift: Array
    pull: Array
    readout: Array


def each(setting: GeneralSetting, state: Overlaps, average: Callable[..., Any]) -> Any:
    """An average (sigma, means) → array of every cluster, along a new first axis."""
    sigmas, means = setting.covariances(state), setting.means(state)
    if means is None:
        return jax.vmap(lambda sigma: average(sigma, None))(sigmas)
    return jax.vmap(average)(sigmas, means)


def averages(setting: GeneralSetting, state: Overlaps) -> Averages:
    """The averages of the drift in every cluster."""
    units, c = setting.units, setting.c(state)
    K, G = units.K, setting.v(state) @ c.T

    def of(sigma: Array, means: Array | None) -> Averages:
        D = G * units.slopes(sigma, means)
        D = D.at[:, :K].add(jnp.diag(jnp.sum(G * units.curvatures(sigma, means), axis=1)))
        # Without means or biases nothing asks for E[δ].
        zero = jnp.zeros((K, len(c)))
        values = zero if means is None else units.slope_values(sigma, means)
        learns = "outputs" in setting.student.train
        readout = units.values(sigma, means)[:K] @ c if learns else jnp.zeros((K, c.shape[1]))
        return Averages(D, jnp.sum(G * values, axis=1), readout)

    return each(setting, state, of)


def pulls(setting: GeneralSetting, averages: Averages) -> Array:
    """The matrices whose products with C_l are Σ_c p_c {…} of the drift, (levels, K, rows)."""
    clusters, K = setting.clusters, setting.units.K
    p, lam = jnp.asarray(clusters.probabilities), jnp.asarray(clusters.values)
    D = jnp.einsum("c,cl,cij->lij", p, lam, averages.drift)[:, :, : K + setting.teachers]
    if not clusters.means:
        return D
    along_means = jnp.broadcast_to((p[:, None] * averages.pull).T, (len(D), K, len(p)))
    return jnp.concatenate([D, along_means], axis=2)


def omega(setting: GeneralSetting, state: Overlaps) -> Array:
    """Ω of every cluster, (clusters, K, K)."""
    units, v, c = setting.units, setting.v(state), setting.c(state)
    weighted = lambda a, b, matrix: jnp.outer(v[:, a], v[:, b]) * matrix
    first, second = np.triu_indices(c.shape[1], 1)
    sums = c[:, first] + c[:, second]

    def of(sigma: Array, means: Array | None) -> Array:
        noise = jax.vmap(lambda each: units.noise(sigma, each, means))
        alone = noise(c.T)
        slopes = setting.problem.label_noise**2 * units.slopes(sigma, means)[:, : units.K]
        total = sum(weighted(o, o, alone[o] + slopes) for o in range(c.shape[1]))
        if not len(first):
            return jnp.asarray(total)
        # E[g' g' Δ_o Δ_o'] by that of sums: (x + y)² − x² − y² = 2 x y.
        for a, b, both in zip(first, second, noise(sums.T), strict=True):
            mixed = (both - alone[a] - alone[b]) / 2
            total += weighted(a, b, mixed) + weighted(b, a, mixed)
        return jnp.asarray(total)

    return each(setting, state, of)


def errors(setting: GeneralSetting, state: Overlaps) -> Array:
    """Loss_scale · E|Δ|² of every cluster, (clusters,)."""
    c = setting.c(state)
    square = lambda sigma, means: jnp.sum(c * (setting.units.values(sigma, means) @ c))
    return setting.problem.loss_scale * each(setting, state, square)


def drift(setting: GeneralSetting, state: Overlaps, order: str) -> Overlaps:
    """D state / dα; order "flow" leaves out the noise."""
    K, clusters, rule = setting.units.K, setting.clusters, setting.rule
    p, of = jnp.asarray(clusters.probabilities), averages(setting, state)
    h = setting.h * setting.student.scale * jnp.asarray(setting.learning)[:, None, None]
    half = h * (pulls(setting, of) @ jnp.asarray(state.gram))
    dQ, dR = half[:, :, :K] + half[:, :, :K].swapaxes(1, 2), half[:, :, K:]
    if order == "full" and rule.noise:
        share = jnp.asarray(clusters.counts) / jnp.sum(jnp.asarray(clusters.counts))
        weights = p[:, None] * jnp.asarray(clusters.values) * share
        dQ += h**2 * rule.noise * jnp.einsum("cl,cij->lij", weights, omega(setting, state))
    if rule.decay is not None:
        d = level_decay(setting)
        dQ, dR = dQ - 2 * d * jnp.asarray(state.Q), dR - d * jnp.asarray(state.R)
    moved = {"Q": dQ, "R": dR, "T": jnp.zeros_like(state.T)} | _parts(setting, state, of, p)
    return dataclasses.replace(state, time=jax.tree.map(jnp.ones_like, state.time), **moved)


def _parts(
    setting: GeneralSetting, state: Overlaps, of: Averages, p: Array
) -> dict[str, Array | None]:
    """The drift of outputs and biases: zero for those that do not learn."""
    moved = {name: None if part is None else jnp.zeros_like(part) for name, part in
             ((name, getattr(state, name)) for name in PARTS)}  # fmt: skip
    trained, law = setting.student.train, setting.rule
    outputs, biases = (rate * setting.student.scale for rate in setting.part_rates)
    if "outputs" in trained:
        own = jnp.asarray(state.outputs)
        moved["outputs"] = outputs * jnp.einsum("c,cio->io", p, of.readout).reshape(own.shape)
        if law.output_decay is not None:
            moved["outputs"] -= jnp.asarray(law.output_decay) * own
    if "biases" in trained:
        moved["biases"] = biases * (p @ of.pull)
    return moved
