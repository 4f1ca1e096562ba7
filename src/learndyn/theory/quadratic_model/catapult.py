"""Regimes of the closed map, and what small catapults look like.

Thresholds in v = ηλ: 2, above which a small residual grows, and 4. Without an offset (a = 0) every
start with v < 4 converges (v falls by u(4 − v), so that Σ u is finite), and v > 4 diverges but for
exact hits of r = 0; with an offset the second threshold is lower, and tends to 4 for c → 0.

Near v = 2 the map is a flow, du/dt = 2u(δ − u), dδ/dt = −2u with δ = v − 2, to leading order

    δ = −δ₀ tanh(δ₀ (t − t*)),   u = ½ δ₀² / cosh²(δ₀ (t − t*)),

hence u_peak → δ₀²/2 and v_∞ → 2 − δ₀ = 4 − v₀, with corrections of relative order δ₀.
"""

from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp

from learndyn.numerics.precision import compiled_in_float64
from learndyn.numerics.types import Array, Scalar
from learndyn.theory.quadratic_model.closed_map import advance

DONE = 1e-12  # residuals below this share of their scale have converged
GONE = 1e12  # above this one they have diverged


class Regime(IntEnum):
    """How training goes: in a direction, or altogether the largest."""

    MONOTONE = 0
    CATAPULT = 1
    DIVERGENT = 2
    UNFINISHED = 3


class Course(NamedTuple):
    """How the map went from a start, each of the start's shape.

    Attributes:
        regime: a `Regime`; monotone where |r| never exceeded its start.
        peak: largest r².
        peak_step: the step of it.
        kernel: the last kernel.
        steps: how many were taken.
    """

    regime: Array
    peak: Array
    peak_step: Array
    kernel: Scalar
    steps: Array


def predicted(kernel: Scalar, eta: Scalar) -> Array:
    """The regime by the thresholds 2/λ and 4/λ."""
    v = eta * kernel
    return jnp.where(v < 2, Regime.MONOTONE, jnp.where(v < 4, Regime.CATAPULT, Regime.DIVERGENT))


@compiled_in_float64
def follow(
    r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar, most: int | Array = 10**5
) -> Course:
    """Iterates the map until it has converged or diverged, for many starts at once.

    Args:
        r: residuals, of any shape, which all arguments share.
        kernel: λ.
        c: curvatures.
        a: offsets.
        eta: rates on ½ r².
        most: number of steps after which it is given up.

    Returns:
        The course of every start.
    """
    parts = jnp.broadcast_arrays(*map(jnp.asarray, (r, kernel, c, a, eta)))
    most, flat = jnp.asarray(most), jnp.stack([part.ravel() for part in parts], axis=1)
    found = jax.vmap(lambda start: _course(*start, most=most))(flat)
    return Course(*(part.reshape(parts[0].shape) for part in found))


def _course(r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar, *, most: Array) -> Course:
    scale = jnp.maximum(jnp.abs(r), 1 / (eta * jnp.sqrt(c)))  # of the residuals of a catapult
    begin = jnp.abs(r)

    def on(now):
        r, _, _, _, t = now
        size = jnp.abs(r)
        return (size > DONE * begin) & (size < GONE * scale) & (t < most)

    def step(now):
        r, kernel, peak, at, t = now
        r, kernel = advance(r, kernel, c, a, eta)
        higher = ~(r**2 <= peak)
        return r, kernel, jnp.where(higher, r**2, peak), jnp.where(higher, t + 1, at), t + 1

    zero = jnp.asarray(0, most.dtype)
    r, kernel, peak, at, t = jax.lax.while_loop(on, step, (r, kernel, r**2, zero, zero))
    ended = jnp.where(at == 0, Regime.MONOTONE, Regime.CATAPULT)
    gone = ~(jnp.abs(r) < GONE * scale)
    regime = jnp.where(gone, Regime.DIVERGENT, jnp.where(t < most, ended, Regime.UNFINISHED))
    return Course(regime, peak, at, kernel, t)


def peak_of_u(delta: Scalar) -> Scalar:
    """½ δ², the peak of u of a small catapult."""
    return delta**2 / 2


def peak_step(delta: Scalar, u: Scalar) -> Array:
    """arcosh(δ/√(2u)) / δ: the steps from u to the peak of a small catapult."""
    return jnp.arccosh(jnp.maximum(delta / jnp.sqrt(2 * u), 1.0)) / delta
