"""The drift of a committee's overlaps for any loss of margins, and for teachers that move.

With D and Ω of `averages`, or of `theory.committee.dynamics.terms` for a squared loss,

    dR_l = η a λ_l (D C_l)_teacher − d R_l,
    dQ_l = η a λ_l (D C_l + (D C_l)ᵀ)_student − 2 d Q_l + (η a)² λ_l φ_l Ω / batch,

and outputs and biases as there, with η in place of h. A teacher that moves (`problems.drift`) adds

    diffusion δ:   dR = −δ R,   dT = −2δ (T − T_typical)
    rotation ω:    dR = ω (R_partner, −R),   T at rest

where the partner of a teacher's row B is dB/dα = ω · partner, a second teacher without an output.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics import terms as squared
from learndyn.theory.committee.dynamics.overlaps import covariance
from learndyn.theory.committee.dynamics.terms import LevelRates, level_decay
from learndyn.theory.committee.state import PARTS, Overlaps
from learndyn.theory.online import averages
from learndyn.theory.online.averages import Averages, Student, Unit
from learndyn.theory.online.moving import teacher_moves
from learndyn.theory.online.pull import flips
from learndyn.theory.online.setting import OnlineSetting


def student_of(setting: OnlineSetting, state: Overlaps) -> Student:
    """The student with the outputs and biases of a state."""
    own = setting.committee
    biases = own.student.numbers("biases", state.biases)
    return averages.student_of(own.student, own.v(state), biases)


def unit_of(setting: OnlineSetting, state: Overlaps) -> Unit:
    """The teacher's unit."""
    own = setting.committee
    c = own.c(state)[-1]
    bias = own.teacher.numbers("biases", state.teacher_biases)
    bias = jnp.zeros(()) if bias is None else jnp.asarray(bias)[0]
    return Unit(jnp.sign(c), bias, flips(c, own.problem.label_noise))


def averages_of(setting: OnlineSetting, state: Overlaps, sigma: Array) -> Averages:
    """D, Ω and the means that move outputs and biases."""
    if setting.criterion is not None:
        parts = student_of(setting, state), unit_of(setting, state)
        return averages.averages(setting.criterion, *parts, sigma)
    own, K = setting.committee, setting.committee.student.units
    b, c, v = own.biases(state), own.c(state), own.v(state)
    outputs = own.units.values(sigma, b)[:K] @ c
    biases = own.units.slope_values(sigma, b) @ c if "biases" in own.student.train else None
    biases = biases if v is None or biases is None else v * biases
    D, omega = squared.drift_matrix(own, state, sigma), squared.omega(own, state, sigma)
    return Averages(D, omega, outputs, jnp.zeros(K) if biases is None else biases)


def drift(setting: OnlineSetting, state: Overlaps, order: str) -> Overlaps:
    """D state / dα; "flow" leaves out the noise of the examples."""
    setting = setting.at(state.time)
    own, K = setting.committee, setting.committee.student.units
    labels = labelling(setting, state)
    found = averages_of(setting, labels, covariance(own, labels))
    rates, law = LevelRates.of(own), own.rule
    half = rates.first * (found.D @ jnp.asarray(state.gram)[:, : found.D.shape[1]])
    Q, R = half[:, :, :K] + half[:, :, :K].swapaxes(1, 2), half[:, :, K:]
    if order == "full":
        Q += rates.second * found.omega * law.noise
    if law.decay is not None:
        d = level_decay(own)
        Q, R = Q - 2 * d * state.Q, R - d * state.R
    moved = teacher_moves(setting, state)
    parts = _parts(setting, state, found)
    parts["time"] = jax.tree.map(jnp.ones_like, state.time)
    return Overlaps(Q, R + moved.R, moved.T, **parts)


def _parts(setting: OnlineSetting, state: Overlaps, found: Averages) -> dict[str, Any]:
    """The drift of outputs and biases, 0 for those that do not learn."""
    still = lambda part: None if part is None else jnp.zeros_like(part)
    parts = {name: still(getattr(state, name)) for name in PARTS}
    own = setting.committee
    outputs, biases = (rate * own.student.scale for rate in own.part_rates)
    if "outputs" in own.student.train:
        parts["outputs"] = outputs * found.outputs
        if own.rule.output_decay is not None:
            parts["outputs"] -= jnp.asarray(own.rule.output_decay) * jnp.asarray(state.outputs)
    if "biases" in own.student.train:
        parts["biases"] = biases * found.biases
    return parts


def labelling(setting: OnlineSetting, state: Overlaps) -> Overlaps:
    """The state without the partners of a teacher that rotates, which have no output."""
    M = setting.committee.teacher.units
    return dataclasses.replace(state, R=state.R[:, :, :M], T=state.T[:, :M, :M])
