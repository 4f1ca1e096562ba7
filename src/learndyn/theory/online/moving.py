"""What a teacher that moves does to the overlaps; see `problems.drift`."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from learndyn.runtime.types import Array
from learndyn.theory.committee.state import Overlaps


class TeacherMoves(NamedTuple):
    """d/dα of the overlaps with the teacher, and of those of the teacher with itself."""

    R: Array
    T: Array


def teacher_moves(setting: Any, state: Overlaps) -> TeacherMoves:
    """What the motion of the teacher adds to the drift of R and T."""
    R, T = jnp.asarray(state.R), jnp.asarray(state.T)
    own, moves = setting.committee, setting.committee.problem.drift
    if moves is None:
        return TeacherMoves(jnp.zeros_like(R), jnp.zeros_like(T))
    if moves.rotation is not None:
        here, partner = jnp.split(R, 2, axis=2)
        turning = jnp.asarray(moves.rotation) * jnp.concatenate([partner, -here], axis=2)
        return TeacherMoves(turning, jnp.zeros_like(T))
    counts = jnp.asarray(own.spectrum.counts)[:, None, None]
    typical = own.problem.teacher_std**2 * counts / jnp.sum(counts) * jnp.eye(T.shape[-1])
    delta = jnp.asarray(moves.diffusion)
    return TeacherMoves(-delta * R, -2 * delta * (T - typical))


def tracking_error(setting: Any, h: Any = None) -> Array:
    """The stationary error of a single linear unit that follows a single linear unit.

    With h = 2 · loss_scale · η, the variance T of the teacher's output, the label noise σ and

        diffusion δ:  d = 2 δ h T / (h + δ),      rotation ω:  d = 2 ω² h T / (h² + ω²),

    the error is loss_scale · (d + h² σ²/batch) / (2 h − h²/batch), from the fixed point of dQ and
    dR for λ = 1. `h` takes the place of the rule's own.
    """
    own = setting.committee
    moves, noise = own.problem.drift, own.rule.noise
    h, T = own.h if h is None else h, own.problem.teacher_std**2
    if moves.rotation is not None:
        speed = moves.rotation
        driven = 2 * speed**2 * h * T / (h**2 + speed**2)
    else:
        delta = moves.diffusion
        driven = 2 * delta * h * T / (h + delta)
    pushed = driven + h**2 * own.problem.label_noise**2 * noise
    return own.problem.loss_scale * pushed / (2 * h - h**2 * noise)
