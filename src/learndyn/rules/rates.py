"""Learning rates: numbers, or functions of the step number such as optax schedules."""

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
    if not callable(rate):
        return rate
    return np.max(_values(rate, np.concatenate([[0.0], np.geomspace(1e-4, 1, 64) * last])))


def _values(rate: Schedule, steps: np.ndarray) -> np.ndarray:
    # In the precision of the engines: JAX fails if the constants of a function become float32 in
    # one compiled program and float64 in another.
    with full_precision():
        return np.asarray(jax.vmap(lambda step: jnp.asarray(rate(step)))(steps))
