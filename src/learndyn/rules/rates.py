"""Learning rates: numbers, or functions of the step number such as optax schedules."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.checks import positive, shown
from learndyn.runtime.precision import full_precision

Schedule = Callable[[Any], Any]

# A rate of exactly 0 would leave no gradient that other rates, and the decay, are multiples of.
LEAST = 1e-30

POINTS = 2**15  # of each of the two grids on which a function is looked at
LEVELS = 16  # an integration stops where the logarithm of a rate has moved by a share of its range
FLOOR = 0.01  # of the largest rate: below it changes of the logarithm count less and less
MOST = 512  # such levels


def rate(name: str, value: Any) -> np.ndarray | Schedule:
    """A learning rate as a float64 scalar, or a function of the step number as it is.

    Args:
        name: the argument.
        value: a positive number, or a function.

    Returns:
        The rate.

    Raises:
        ValueError: for a number that is not positive, and for a function that JAX cannot trace, or
            that is not one non-negative number at step 0.
    """
    if not callable(value):
        return positive(name, value)
    try:
        first = _values(value, np.zeros(1))
        first = float(first[0]) if first.shape == (1,) else np.nan
    except Exception:  # of any kind: the function is not ours
        first = np.nan
    if not 0 <= first < np.inf:
        raise ValueError(
            f"{name}: got {shown(value)} that is not one non-negative number at step 0; allowed is "
            "a positive finite number, or a function of the step number such as an optax schedule"
        )
    return value


def rate_at(rate: Any, step: Any) -> Any:
    """The rate at a step, which need not be whole: itself if it is a number."""
    return jnp.maximum(jnp.asarray(rate(step)), LEAST) if callable(rate) else rate


def largest_rate(rate: Any, last: float | int) -> Any:
    """The largest rate up to a step, on a grid that is fine at first: itself if it is a number."""
    return np.max(_values(rate, _grid(float(last)))) if callable(rate) else rate


def stops(rate: Any, last: float | int) -> np.ndarray:
    """Steps up to `last` at which an integration has to stop, in order to see how a rate changes.

    Without them a rate that is small for long, and then large for a moment, would be small for
    ever: no stage of a long step of the integrator need fall into that moment.

    Args:
        rate: a number, which needs no stops, or a function of the step number.
        last: a step.

    Returns:
        Increasing numbers above 0. Both sides of a jump are among them.
    """
    if not callable(rate) or last <= 0:
        return np.zeros(0)
    steps = _grid(float(last))
    values = np.maximum(_values(rate, steps), 0.0)
    scale = FLOOR * max(np.max(values), LEAST)
    change = np.abs(np.diff(np.log1p(values / scale))) / np.log1p(1 / FLOOR)
    moved = np.cumsum(change)
    levels = np.floor(moved * min(LEVELS, MOST / max(moved[-1], LEAST)))
    crossed = np.flatnonzero(np.diff(levels, prepend=0.0))
    jumps = crossed[change[crossed] > 1 / LEVELS]
    found = np.union1d(steps[crossed + 1], steps[jumps])
    return found[found > 0]


@functools.lru_cache(maxsize=16)  # a rate is looked at several times per call
def _grid(last: float) -> np.ndarray:
    """Steps up to `last`: all if they are few, otherwise evenly and, at first, more closely."""
    even, close = np.linspace(0, last, POINTS), np.geomspace(1, max(last, 1), POINTS)
    return np.unique(np.minimum(np.ceil(np.concatenate([even, close])), last))


def _values(rate: Schedule, steps: np.ndarray) -> np.ndarray:
    # In the precision of the engines: JAX fails if the constants of a function become float32 in
    # one compiled program and float64 in another.
    with full_precision():
        return np.asarray(jax.vmap(lambda step: jnp.asarray(rate(step)))(steps))
