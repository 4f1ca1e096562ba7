"""The drift of a committee's overlaps, its form in factors, and the exact mean of one step.

With z = (student, teacher) pre-activations of covariance Σ = Σ_l λ_l C_l, output weights c
(student −a, teacher +b) and Δ = Σ_k c_k g(z_k) = target − output, the same K × (K + M)
matrix D acts on every level, scaled by λ_l:

    D_ij = c_j E[g'(z_i) g'(z_j)] + δ_ij E[g''(z_i) Δ]
    dR_l/dα = h λ_l (D C_l)_teacher
    dQ_l/dα = h λ_l (D C_l + (D C_l)ᵀ)_student + h² λ_l φ_l Ω / batch
    Ω_ij    = E[g'(z_i) g'(z_j) Δ²] + label_noise² E[g'(z_i) g'(z_j)]

where α = steps / N, h = 2 · loss_scale · η · a and φ_l = N_l / N. In a level that does not
learn, h is zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from learndyn.numerics.gaussian import tabulate
from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Factors, Overlaps


class LevelRates(NamedTuple):
    """The factors of a level's terms in the drift, (levels, 1, 1) each.

    Attributes:
        lam: λ_l.
        first: h λ_l, of the terms linear in the learning rate.
        second: h² λ_l φ_l, of the quadratic term, before division by the batch size.
    """

    lam: Array
    first: Array
    second: Array

    @staticmethod
    def of(setting: CommitteeSetting) -> "LevelRates":
        """The rates of a system's levels."""
        column = lambda values: jnp.asarray(values)[:, None, None]
        counts = jnp.asarray(setting.spectrum.counts)
        lam, phi = column(setting.spectrum.values), column(counts / jnp.sum(counts))
        h = setting.h * column(setting.learning)
        return LevelRates(lam, h * lam, h**2 * lam * phi)


def covariance(setting: CommitteeSetting, state: Overlaps | Factors) -> Array:
    """Σ of the pre-activations, (K + M, K + M)."""
    if isinstance(state, Factors):
        rows = jnp.asarray(state.rows)
        return jnp.einsum("l,lir,ljr->ij", jnp.asarray(setting.spectrum.values), rows, rows)
    return jnp.sum(LevelRates.of(setting).lam * jnp.asarray(state.gram), axis=0)


def drift(setting: CommitteeSetting, state: Overlaps, order: str) -> Overlaps:
    """D overlaps / dα: the equations of the module's docstring; "flow" leaves out Ω."""
    return drift_at(setting, state, covariance(setting, state), order)


def drift_at(setting: CommitteeSetting, state: Overlaps, sigma: Array, order: str) -> Overlaps:
    """The drift with the covariance of the pre-activations as a separate argument.

    Through it alone the levels act on each other, which `stiff` makes use of.
    """
    rates, K = LevelRates.of(setting), setting.student.units
    half = rates.first * (drift_matrix(setting, sigma) @ jnp.asarray(state.gram))
    dQ = half[:, :, :K] + half[:, :, :K].swapaxes(1, 2)
    if order == "full" and setting.rule.noise:
        dQ += rates.second * noise(setting, sigma) * setting.rule.noise
    return Overlaps(dQ, half[:, :, K:], jnp.zeros_like(state.T))


def drift_of_factors(setting: CommitteeSetting, state: Factors) -> Factors:
    """D factors / dα at order "flow": dJ_l/dα = h λ_l D (J_l; B_l).

    The η² term has no such form: it adds a component outside the rows.
    """
    D, rows = drift_matrix(setting, covariance(setting, state)), jnp.asarray(state.rows)
    return Factors(LevelRates.of(setting).first * (D @ rows), jnp.zeros_like(state.B))


def mean_step(setting: CommitteeSetting, state: Overlaps) -> Overlaps:
    """The exact mean of the overlaps after one step, given those before it.

    Besides the drift / N it has terms of order 1/N². By Price's theorem the correlation of the
    input's length in a level with δ δᵀ is 2 λ_l² dΩ/dΣ[C_l] (a factor 1 + 6/N for squares, where
    Ω is cubic in Σ). Different examples of a batch contribute the product of their means.
    """
    rates = LevelRates.of(setting)
    C, N = jnp.asarray(state.gram), jnp.sum(jnp.asarray(setting.spectrum.counts))
    sigma = covariance(setting, state)
    D, flow = drift_matrix(setting, sigma), drift(setting, state, "full")
    mean = rates.first**2 * (D @ C @ D.T) / N
    # `share` is 1/batch: of the batch² pairs of examples, `batch` are of an example with itself.
    share = setting.rule.noise
    if not share:
        return _stepped(state, flow, mean, N)
    derivative = jax.vmap(
        lambda tangent: jax.jvp(lambda s: noise(setting, s), (sigma,), (tangent,))
    )
    correlated = 2 * rates.first**2 * derivative(C)[1] / N
    second = correlated * share + mean * (1 - share)
    return _stepped(state, flow, second, N)


def _stepped(state: Overlaps, rate: Overlaps, second: Array, N: Array) -> Overlaps:
    return Overlaps(state.Q + (rate.Q + second) / N, state.R + rate.R / N, state.T)


def drift_matrix(setting: CommitteeSetting, sigma: Array) -> Array:
    """D of the module's docstring, (K, K + M)."""
    K, g = setting.student.units, setting.student.g
    c = setting.problem.output_weights(setting.student)
    student, every = range(K), range(len(c))
    D = c * tabulate(g.slopes, sigma, student, every)
    return D.at[:, :K].add(jnp.diag(tabulate(g.curvature_times_value, sigma, student, every) @ c))


def noise(setting: CommitteeSetting, sigma: Array) -> Array:
    """Ω of the module's docstring, (K, K)."""
    K, g = setting.student.units, setting.student.g
    c = setting.problem.output_weights(setting.student)
    slopes = tabulate(g.slopes, sigma, range(K), range(K))
    return g.weighted_noise(sigma, c, K) + setting.problem.label_noise**2 * slopes


def finite_size_noise(N: Int) -> float:
    """1 + 6/N, the factor by which Ω of `mean_step` exceeds its limit N → ∞, for squares."""
    return float(1 + 6 / N)
