"""The terms of the drift of a committee's order parameters, one function each.

z = (student, teacher) pre-activations have covariance Σ = Σ_l λ_l C_l. With output weights c
(student −a v, teacher b t, a and b the scales) and biases b_k,

    Δ = Σ_k c_k f_k(z_k + b_k) = target − output,    f_k = g for students, f for teachers,

and averages are over z. h = 2 · loss_scale · η, α = steps/N, φ_l = N_l/N. In a level that does not
learn, h and the decay are zero. A term returns d/dα of the fields of `Overlaps` that it moves.
Which terms there are follows from what the system has, never from the value of a rate.

All are the limit N → ∞ of the mean of one step; see `overlaps.mean_step` for finite N. For fixed
and equal outputs they are Eqs. 33 and 34 of bocchi2026escape (with one bracket of 34 corrected) and
Eq. 18 of worschech2024scaling (prefactors corrected); trained output weights are those of
goldt2019dynamics.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from learndyn.runtime.types import Array
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps

Change = dict[str, Array]  # a field of `Overlaps` → its rate of change
Term = Callable[[CommitteeSetting, Overlaps, Array], Change]


class LevelRates(NamedTuple):
    """The factors of a level's terms in the drift, (levels, 1, 1) each.

    Attributes:
        lam: λ_l.
        first: h a λ_l, of the terms linear in the learning rate.
        second: (h a)² λ_l φ_l, of the quadratic term, before division by the batch size.
    """

    lam: Array
    first: Array
    second: Array

    @staticmethod
    def of(setting: CommitteeSetting) -> "LevelRates":
        """The rates of a system's levels."""
        counts = jnp.asarray(setting.spectrum.counts)
        lam, phi = level_values(setting), _column(counts / jnp.sum(counts))
        h = setting.h * setting.student.scale * _column(setting.learning)
        return LevelRates(lam, h * lam, h**2 * lam * phi)


def gradient(setting: CommitteeSetting, state: Overlaps, sigma: Array) -> Change:
    """dR_l = h a λ_l (D C_l)_teacher,  dQ_l = h a λ_l (D C_l + (D C_l)ᵀ)_student."""
    K = setting.student.units
    half = LevelRates.of(setting).first * (
        drift_matrix(setting, state, sigma) @ jnp.asarray(state.gram)
    )
    return {"Q": half[:, :, :K] + half[:, :, :K].swapaxes(1, 2), "R": half[:, :, K:]}


def sampling(setting: CommitteeSetting, state: Overlaps, sigma: Array) -> Change:
    """dQ_l = (h a)² λ_l φ_l Ω / batch, of the noise of steps that see examples."""
    noise = omega(setting, state, sigma)
    return {"Q": LevelRates.of(setting).second * noise * setting.rule.noise}


def decay(setting: CommitteeSetting, state: Overlaps, sigma: Array) -> Change:
    """dR_l = −d R_l,  dQ_l = −2 d Q_l, with d = `decay`."""
    d = level_decay(setting)
    return {"Q": -2 * d * jnp.asarray(state.Q), "R": -d * jnp.asarray(state.R)}


def readout(setting: CommitteeSetting, state: Overlaps, sigma: Array) -> Change:
    """dv_i = h_v a Σ_k c_k E[g_i f_k], with h_v = 2 · loss_scale · `output_rate`.

    There is no term of h_v² and none of the label noise: v moves by 1/N per step, so that its noise
    averages out as N → ∞.
    """
    K, rate = setting.student.units, setting.part_rates[0] * setting.student.scale
    values = setting.units.values(sigma, setting.biases(state))[:K]
    return {"outputs": rate * (values @ setting.c(state))}


def output_decay(setting: CommitteeSetting, state: Overlaps, sigma: Array) -> Change:
    """dv_i = −d_v v_i, with d_v = `output_decay`."""
    return {"outputs": -jnp.asarray(setting.rule.output_decay) * jnp.asarray(state.outputs)}


def bias(setting: CommitteeSetting, state: Overlaps, sigma: Array) -> Change:
    """db_i = h_b a v_i Σ_k c_k E[g'_i f_k], with h_b = 2 · loss_scale · `bias_rate`."""
    v, rate = setting.v(state), setting.part_rates[1] * setting.student.scale
    pull = setting.units.slope_values(sigma, setting.biases(state)) @ setting.c(state)
    return {"biases": rate * (pull if v is None else v * pull)}


def terms(setting: CommitteeSetting, order: str) -> list[Term]:
    """The terms of a system at an order; "flow" leaves out the noise."""
    trained, law = setting.student.train, setting.rule
    there = {
        gradient: True,
        sampling: order == "full" and bool(law.noise),
        decay: law.decay is not None,
        readout: "outputs" in trained,
        output_decay: "outputs" in trained and law.output_decay is not None,
        bias: "biases" in trained,
    }
    return [term for term, present in there.items() if present]


def drift_matrix(setting: CommitteeSetting, state: Any, sigma: Array) -> Array:
    """D_ij = v_i (c_j E[g'_i f'_j] + δ_ij E[g''_i Δ]), (K, K + M).

    The student's block is symmetric for output weights of any sign.
    """
    K, c, b = setting.student.units, setting.c(state), setting.biases(state)
    D = c * setting.units.slopes(sigma, b)
    D = D.at[:, :K].add(jnp.diag(setting.units.curvatures(sigma, b) @ c))
    return _by_rows(setting.v(state), D)


def omega(setting: CommitteeSetting, state: Any, sigma: Array) -> Array:
    """Ω_ij = v_i v_j (E[g'_i g'_j Δ²] + label_noise² E[g'_i g'_j]), (K, K)."""
    K, v, b = setting.student.units, setting.v(state), setting.biases(state)
    squares = setting.units.noise(sigma, setting.c(state), b)
    slopes = setting.units.slopes(sigma, b)[:, :K]
    return _by_rows(v, _by_rows(v, squares + setting.problem.label_noise**2 * slopes).T)


def level_values(setting: CommitteeSetting) -> Array:
    """λ_l, (levels, 1, 1)."""
    return _column(setting.spectrum.values)


def level_decay(setting: CommitteeSetting) -> Array:
    """The decay of every level, (levels, 1, 1)."""
    return jnp.asarray(setting.rule.decay) * _column(setting.learning)


def _by_rows(v: Array | None, matrix: Array) -> Array:
    return matrix if v is None else v[:, None] * matrix


def _column(values: Array) -> Array:
    return jnp.asarray(values)[:, None, None]
