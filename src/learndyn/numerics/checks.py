"""Validators: one line that names the argument, what came and what is allowed."""

from collections.abc import Iterable
from typing import Any

import numpy as np

LARGEST_KEY = 2**63 - 1
LARGEST_STEP = 2**62  # below 2^63 with room to add a block of steps


def positive_int(name: str, value: Any) -> int:
    """Returns `value` as an int, or says that `name` must be a positive integer."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}: got {value!r}; allowed is a positive integer")
    return int(value)


def seed(name: str, value: Any) -> int:
    """Returns `value` as an int, or says that `name` must be an integer from 0 to 2^63 − 1."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 0 <= value <= LARGEST_KEY:
        raise ValueError(f"{name}: got {value!r}; allowed is an integer from 0 to 2^63 − 1")
    return int(value)


def positive(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must be positive and finite."""
    number = _number(name, value, "a positive finite number")
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name}: got {value!r}; allowed is a positive finite number")
    return number


def non_negative(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must be non-negative."""
    number = _number(name, value, "a non-negative finite number")
    if not (np.isfinite(number) and number >= 0):
        raise ValueError(f"{name}: got {value!r}; allowed is a non-negative finite number")
    return number


def fraction(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must lie in [0, 1)."""
    number = _number(name, value, "a number from 0 to below 1")
    if not 0 <= number < 1:
        raise ValueError(f"{name}: got {value!r}; allowed is a number from 0 to below 1")
    return number


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Returns `value`, or lists what `name` may be."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise ValueError(
            f"{name}: got {value!r}; allowed is one of {', '.join(map(repr, allowed))}"
        )
    return value


def instance(name: str, value: Any, kind: type, allowed: str) -> Any:
    """Returns `value`, or says that `name` must be of a kind."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: got a {type(value).__name__}; allowed is {allowed}")
    return value


def function(name: str, value: Any) -> Any:
    """Returns `value`, or says that `name` must be a function."""
    if not callable(value):
        raise ValueError(f"{name}: got a {type(value).__name__}; allowed is a function")
    return value


def finite(name: str, array: np.ndarray) -> np.ndarray:
    """Returns `array`, or says where `name` is NaN or infinite."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}: entry {where} is {array[where]}; allowed are finite numbers")
    return array


def increasing_times(times: Any) -> np.ndarray:
    """Returns the times as float64, or says why they are not non-negative and increasing."""
    values = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"times: got shape {values.shape}; allowed is a non-empty list of numbers")
    finite("times", values)
    if values[0] < 0:
        raise ValueError(f"times: got {values[0]:g} first; allowed are non-negative times")
    if np.any(np.diff(values) <= 0):
        i = int(np.argmax(np.diff(values) <= 0))
        pair = f"{values[i]:g} before {values[i + 1]:g}"
        raise ValueError(f"times: got {pair}; allowed are strictly increasing times")
    return values


def step_numbers(times: np.ndarray, steps_per_time: Any) -> np.ndarray:
    """The step nearest to each time, as int64, or says which time lies beyond step 2^62."""
    times = np.asarray(times, dtype=np.float64)
    with np.errstate(over="ignore"):  # an infinite step is refused as any other too large one
        steps = np.rint(times * np.float64(steps_per_time))
    beyond = np.flatnonzero(~(steps <= LARGEST_STEP))
    if len(beyond):
        time, step = times.flat[beyond[0]], steps.flat[beyond[0]]
        raise ValueError(
            f"times: got {time:g}, which is step {step:g}; allowed are steps up to 2^62"
        )
    return steps.astype(np.int64)


def _number(name: str, value: Any, allowed: str) -> np.ndarray:
    try:
        number = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: got {value!r}; allowed is {allowed}") from None
    if number.ndim != 0:
        raise ValueError(f"{name}: got an array of shape {number.shape}; allowed is {allowed}")
    return number
