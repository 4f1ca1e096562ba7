"""Regimes of the closed map, and what small catapults look like.

The thresholds in v = ηλ are 2, above which a small residual grows, and 4. Without an offset (a = 0)
every start with v < 4 converges, since v falls by u(4 − v) and Σ u is therefore finite; every start
with v > 4 diverges unless it hits r = 0 exactly. With an offset the second threshold is lower, and
tends to 4 for c → 0.

Near v = 2 the map is a flow, du/dt = 2u(δ − u), dδ/dt = −2u with δ = v − 2, and to leading order

    δ = −δ₀ tanh(δ₀ (t − t*)),   u = ½ δ₀² / cosh²(δ₀ (t − t*)),

hence u_peak → δ₀²/2 and v_∞ → 2 − δ₀ = 4 − v₀, with corrections of relative order δ₀.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Scalar
from learndyn.theory.quadratic_model.closed_map import advance

DONE = 1e-12  # residuals below this multiple of their scale have converged
GONE = 1e12  # residuals above this multiple have diverged
FEWER = 4  # ended starts are dropped once only one in this many is still going


class Regime(IntEnum):
    """How training goes in a direction; the regime of several directions is their largest."""

    MONOTONE = 0
    CATAPULT = 1
    DIVERGENT = 2
    UNFINISHED = 3


class Course(NamedTuple):
    """The course of the map from a start. All attributes have the shape of the start.

    Attributes:
        regime: a `Regime`; monotone where |r| never exceeded its start.
        peak: the largest r².
        peak_step: the step at which it occurs.
        kernel: the last kernel.
        steps: the number of steps taken.
    """

    regime: Array
    peak: Array
    peak_step: Array
    kernel: Scalar
    steps: Array


def predicted(kernel: Scalar, eta: Scalar) -> Array:
    """The regime that the thresholds 2/λ and 4/λ predict."""
    v = eta * kernel
    return jnp.where(v < 2, Regime.MONOTONE, jnp.where(v < 4, Regime.CATAPULT, Regime.DIVERGENT))


def follow(
    r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar, most: int | Array = 10**5
) -> Course:
    """Iterates the map until it has converged or diverged, for many starts at once.

    A few starts take far longer than most: whenever three quarters have ended, only the others are
    continued.

    Args:
        r: residuals, of any shape; the other arguments broadcast with it.
        kernel: λ.
        c: curvatures.
        a: offsets.
        eta: learning rates for the loss ½ r².
        most: the largest number of steps.

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
        # The sizes depend only on the number of starts, so that few programs are compiled.
        rows, going = (part[np.argsort(~going, kind="stable")][:few] for part in (rows, going))
    return Course(*(part.reshape(parts[0].shape) for part in _ended(every, most)))


class _Lanes(NamedTuple):
    """Starts in progress, each entry (starts,): the map's arguments, and the course so far.

    `begin` is the initial |r|, `scale` the size that residuals reach in a catapult.
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
    # u = η² c r² is of order 1 at the top of a catapult; a small start must not count as diverged.
    scale = np.maximum(size, 1 / (eta * np.sqrt(c)))
    every = r, kernel, c, a, eta, size, scale, r**2, zero, zero
    return _Lanes(*(each.copy() for each in every))


def _goes(lanes: _Lanes, most: int | Array) -> Array:
    size = abs(lanes.r)
    going = (size > DONE * lanes.begin) & (size < GONE * lanes.scale)
    return going & (lanes.steps < most)


@compiled_in_float64
def _until_few_go(lanes: _Lanes, most: Array, few: Array) -> _Lanes:
    """Steps all starts that have not ended, until only `few` of them are left."""

    def step(now: _Lanes) -> _Lanes:
        r, kernel = advance(now.r, now.kernel, now.c, now.a, now.eta)
        # Not `>`: a NaN counts as higher, so that divergence is never taken for convergence.
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


@compiled_in_float64
def follow_together(
    r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar, most: Array
) -> Course:
    """Iterates all directions of each start together, until none of them moves.

    Unlike `follow`, it returns the peak of the loss, to which all directions contribute.

    Args:
        r: residuals (starts, directions).
        kernel: λ, (starts, directions).
        c: curvatures (directions,).
        a: offsets (directions,).
        eta: the learning rate for the loss ½ Σ r².
        most: the largest number of steps.

    Returns:
        The course of every start, (starts,): regime and peak are those of Σ r². Its `kernel` is
        (starts, directions).
    """
    first = jnp.abs(r)
    scale = jnp.maximum(first, 1 / (eta * jnp.sqrt(c)))
    bounded = lambda now: jnp.all(jnp.abs(now[0]) < GONE * scale, axis=-1)

    def going(now: Any) -> Array:
        r, kernel, *_, steps = now
        # Tests the next change, not the residual: a direction whose kernel is 0 never moves.
        moves = jnp.any(jnp.abs(eta * kernel * r) > DONE * first, axis=-1)
        return moves & bounded(now) & (steps < most)

    def step(now: Any) -> Any:
        r, kernel, peak, peak_step, steps = now
        r, kernel = advance(r, kernel, c, a, eta)
        square, t = jnp.sum(r**2, axis=-1), steps + 1
        higher = ~(square <= peak)
        then = r, kernel, jnp.where(higher, square, peak), jnp.where(higher, t, peak_step), t
        keep = lambda new, old: jnp.where(going(now).reshape(-1, *[1] * (new.ndim - 1)), new, old)
        return jax.tree.map(keep, then, now)

    zero = jnp.zeros(len(r), int)
    begin = r, kernel, jnp.sum(r**2, axis=-1), zero, zero
    last = jax.lax.while_loop(lambda now: jnp.any(going(now)), step, begin)
    _, kernel, peak, peak_step, steps = last
    regime = jnp.where(peak_step == 0, Regime.MONOTONE, Regime.CATAPULT)
    regime = jnp.where(steps < most, regime, Regime.UNFINISHED)
    regime = jnp.where(bounded(last), regime, Regime.DIVERGENT)
    return Course(regime, peak, peak_step, kernel, steps)


def peak_of_u(delta: Scalar) -> Scalar:
    """½ δ², the peak of u in a small catapult."""
    return delta**2 / 2


def peak_step(delta: Scalar, u: Scalar) -> Array:
    """arcosh(δ/√(2u)) / δ: the number of steps from u to the peak of a small catapult."""
    return jnp.arccosh(jnp.maximum(delta / jnp.sqrt(2 * u), 1.0)) / delta
