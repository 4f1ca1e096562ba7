"""Validators: one line that names the argument, what came and what is allowed."""

from collections.abc import Iterable
from typing import Any

import numpy as np


def positive_int(name: str, value: Any) -> int:
    """Returns `value` as an int, or says that `name` must be a positive integer."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}: got {value!r}; allowed is a positive integer")
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


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Returns `value`, or lists what `name` may be."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise ValueError(
            f"{name}: got {value!r}; allowed is one of {', '.join(map(repr, allowed))}"
        )
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


def _number(name: str, value: Any, allowed: str) -> np.ndarray:
    try:
        number = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: got {value!r}; allowed is {allowed}") from None
    if number.ndim != 0:
        raise ValueError(f"{name}: got an array of shape {number.shape}; allowed is {allowed}")
    return number
