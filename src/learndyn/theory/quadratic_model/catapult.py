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
import numpy as np

from learndyn.numerics.precision import compiled_in_float64
from learndyn.numerics.types import Array, Scalar
from learndyn.theory.quadratic_model.closed_map import advance

DONE = 1e-12  # residuals below this share of their scale have converged
GONE = 1e12  # above this one they have diverged
FEWER = 4  # of so many starts one is left when the ended ones are dropped


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


def follow(
    r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar, most: int | Array = 10**5
) -> Course:
    """Iterates the map until it has converged or diverged, for many starts at once.

    A few take far longer than most: whenever three quarters have ended the others go on alone.

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
    parts = np.broadcast_arrays(*(np.asarray(part, float) for part in (r, kernel, c, a, eta)))
    every, rows = _begun(*(part.ravel() for part in parts)), np.arange(parts[0].size)
    going = np.ones(len(rows), bool)
    while np.any(going):
        few = len(rows) // FEWER
        now = _until_few_go(
            _Lanes(*(each[rows] for each in every)), np.asarray(most), np.asarray(few)
        )
        for each, part in zip(every, now, strict=True):
            each[rows] = part
        going = _goes(now, most)
        # Sizes depend on the number of starts alone, so that few are compiled.
        rows, going = (part[np.argsort(~going, kind="stable")][:few] for part in (rows, going))
    return Course(*(part.reshape(parts[0].shape) for part in _ended(every, most)))


class _Lanes(NamedTuple):
    """Starts under way, each entry (starts,): the map's arguments, and what is kept of its course.

    `begin` is the first |r|, `scale` that of the residuals of a catapult.
    """

    r: Scalar
    kernel: Scalar
    c: Scalar
    a: Scalar
    eta: Scalar
    begin: Scalar
    scale: Scalar
    peak: Scalar
    peak_step: Array
    steps: Array


def _begun(r: Array, kernel: Array, c: Array, a: Array, eta: Array) -> _Lanes:
    size, zero = np.abs(r), np.zeros(len(r), int)
    scale = np.maximum(size, 1 / (eta * np.sqrt(c)))
    every = r, kernel, c, a, eta, size, scale, r**2, zero, zero
    return _Lanes(*(each.copy() for each in every))


def _goes(lanes: _Lanes, most: int | Array) -> Array:
    size = abs(lanes.r)
    going = (size > DONE * lanes.begin) & (size < GONE * lanes.scale)
    return going & (lanes.steps < most)


@compiled_in_float64
def _until_few_go(lanes: _Lanes, most: Array, few: Array) -> _Lanes:
    """Steps of all that have not ended, until so few are left."""

    def step(now: _Lanes) -> _Lanes:
        r, kernel = advance(now.r, now.kernel, now.c, now.a, now.eta)
        higher, t = ~(r**2 <= now.peak), now.steps + 1
        peak, at = jnp.where(higher, r**2, now.peak), jnp.where(higher, t, now.peak_step)
        then = now._replace(r=r, kernel=kernel, peak=peak, peak_step=at, steps=t)
        going = _goes(now, most)
        return jax.tree.map(lambda new, old: jnp.where(going, new, old), then, now)

    return jax.lax.while_loop(lambda now: jnp.sum(_goes(now, most)) > few, step, lanes)


def _ended(lanes: _Lanes, most: int | Array) -> Course:
    ended = np.where(lanes.peak_step == 0, Regime.MONOTONE, Regime.CATAPULT)
    gone = ~(np.abs(lanes.r) < GONE * lanes.scale)
    late = np.where(lanes.steps < most, ended, Regime.UNFINISHED)
    regime = np.where(gone, Regime.DIVERGENT, late)
    return Course(regime, lanes.peak, lanes.peak_step, lanes.kernel, lanes.steps)


def peak_of_u(delta: Scalar) -> Scalar:
    """½ δ², the peak of u of a small catapult."""
    return delta**2 / 2


def peak_step(delta: Scalar, u: Scalar) -> Array:
    """arcosh(δ/√(2u)) / δ: the steps from u to the peak of a small catapult."""
    return jnp.arccosh(jnp.maximum(delta / jnp.sqrt(2 * u), 1.0)) / delta
