"""Validators: one line that names the argument, what came and what is allowed."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

LARGEST_KEY = 2**63 - 1
LARGEST_COUNT = 2**53  # above it floats leave integers out
LARGEST_STEP = 2**62  # below 2^63 with room to add a block of steps
LONGEST = 60  # characters of a value in a message
OFF_GRID = 0.01  # of a time, by which its nearest step may differ without a word
_SIMPLE = (str, bytes, bool, int, float, complex, np.generic)


def positive_int(name: str, value: Any) -> int:
    """Returns `value` as an int, or says that `name` must be a positive integer."""
    if not _is_whole(value) or value < 1:
        raise ValueError(f"{name}: got {shown(value)}; allowed is a positive integer")
    if value > LARGEST_COUNT:
        raise ValueError(f"{name}: got {shown(value)}; allowed is an integer up to 2^53")
    return int(value)


def seed(name: str, value: Any) -> int:
    """Returns `value` as an int, or says that `name` must be an integer from 0 to 2^63 − 1."""
    if not _is_whole(value) or not 0 <= value <= LARGEST_KEY:
        raise ValueError(f"{name}: got {shown(value)}; allowed is an integer from 0 to 2^63 − 1")
    return int(value)


def number(name: str, value: Any, allowed: str = "a finite number") -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must be one finite real number."""
    array = _real(value)
    if array is None or array.ndim or not np.isfinite(array):
        raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
    return array


def positive(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must be positive and finite."""
    return _in(name, value, "a positive finite number", lambda x: x > 0)


def non_negative(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must be non-negative."""
    return _in(name, value, "a non-negative finite number", lambda x: x >= 0)


def fraction(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must lie in [0, 1)."""
    return _in(name, value, "a number from 0 to below 1", lambda x: 0 <= x < 1)


def between(name: str, value: Any, low: float | int, high: float | int) -> np.ndarray:
    """Returns `value` as a float64 scalar, or says that `name` must lie in (low, high)."""
    allowed = f"a number between {low:g} and {high:g}"
    return _in(name, value, allowed, lambda x: low < x < high)


def numbers(name: str, values: Any, axes: int | None = None) -> np.ndarray:
    """Returns `values` as float64, or says why they are no array of real numbers.

    Args:
        name: the argument.
        values: what was given.
        axes: how many the array must have; None for any number.

    Returns:
        The array, which may hold NaN and infinities.

    Raises:
        ValueError: for text, complex numbers, rows of unequal length, other axes.
    """
    array = _real(values)
    said = "real numbers" if axes is None else f"real numbers with {axes} ax{'ei'[axes == 1]}s"
    if array is None:
        raise ValueError(f"{name}: got {shown(values)}; allowed are {said}")
    if axes is not None and array.ndim != axes:
        raise ValueError(f"{name}: got shape {array.shape}; allowed are {said}")
    return array


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Returns the one that `value` equals, or lists what `name` may be."""
    allowed = tuple(allowed)
    for each in allowed:
        if value is each or (isinstance(value, _SIMPLE) and value == each):
            return each
    said = ", ".join(map(repr, allowed))
    raise ValueError(f"{name}: got {shown(value)}; allowed is one of {said}")


def flag(name: str, value: Any) -> bool:
    """Returns `value` as a bool, or says that `name` must be one."""
    return one_of(name, value, (False, True))


def path(name: str, value: Any) -> str:
    """Returns the place that `value` names, or says that `name` must be a path."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise ValueError(f"{name}: got {shown(value)}; allowed is a path")
    return found


def mapping(name: str, value: Any, allowed: str) -> Any:
    """Returns `value`, or says that `name` must be a dict whose keys are texts."""
    if not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
    return value


def instance(name: str, value: Any, kind: type | tuple[type, ...], allowed: str) -> Any:
    """Returns `value`, or says that `name` must be of a kind."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: got {a_kind(value)}; allowed is {allowed}")
    return value


def function(name: str, value: Any) -> Any:
    """Returns `value`, or says that `name` must be a function."""
    if not callable(value):
        raise ValueError(f"{name}: got {a_kind(value)}; allowed is a function")
    return value


def widths(name: str, values: Any, least: int = 2) -> tuple[int, ...]:
    """Returns `values` as a tuple of positive integers, at least so many of them."""
    listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not listed or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise ValueError(f"{name}: got {shown(values)}; allowed is a list of positive integers")
    found = tuple(positive_int(name, value) for value in values)
    if len(found) < least:
        many = {1: "one", 2: "two"}.get(least, str(least))
        raise ValueError(f"{name}: got {shown(found)}; allowed are at least {many}")
    return found


def finite(name: str, array: np.ndarray) -> np.ndarray:
    """Returns `array`, or says where `name` is NaN or infinite."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}: entry {where} is {array[where]}; allowed are finite numbers")
    return array


def shown(value: Any) -> str:
    """What came, in a few words of one line: small values as they print, others by their kind."""
    if getattr(value, "dtype", None) is not None and getattr(value, "shape", ()):
        return f"an array of shape {tuple(value.shape)}"
    if not isinstance(value, (*_SIMPLE, list, tuple, dict)) and value is not None:
        return a_kind(value)
    text = " ".join(_printed(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def a_kind(value: Any) -> str:
    """The name of a value's type with its article: an int, a Dataset, an MLP."""
    name = type(value).__name__
    spelt = name[:2].isupper() and name[0] in "AEFHILMNORSX"  # read letter by letter
    return f"an {name}" if spelt or name[0] in "aeioAEIO" else f"a {name}"


def _printed(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # an integer too long to print, an object that fails to
        return a_kind(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)


def _real(value: Any) -> np.ndarray | None:
    """The numbers as float64; None for text, truth values, complex numbers and anything else."""
    try:
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind in "fiu" else None
    except Exception:  # rows of unequal length, objects that refuse to be read
        return None


def _in(name: str, value: Any, allowed: str, holds: Callable[[Any], Any]) -> np.ndarray:
    found = number(name, value, allowed)
    if not holds(found):
        raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
    return found


def increasing_times(times: Any) -> np.ndarray:
    """Returns the times as float64, or says why they are not non-negative and increasing."""
    values = np.atleast_1d(numbers("times", times))
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


def warn_off_grid(times: np.ndarray, steps: np.ndarray, steps_per_time: Any, what: str) -> None:
    """Warns, once, where the steps that are taken stand for times other than those asked for.

    A time is moved by half a step at most, which early times alone can feel: up to 1 % of it
    nothing is said.

    Args:
        times: those asked for.
        steps: the step numbers that stand for them.
        steps_per_time: how many a unit of time has.
        what: the function that was called.
    """
    taken = steps / np.float64(steps_per_time)
    moved = np.flatnonzero(np.abs(taken - times) > OFF_GRID * times)
    if len(moved):
        i = moved[0]
        warnings.warn(
            f"{what}: {len(moved)} times lie between steps; {times[i]:g} stands for step "
            f"{steps[i]}, which is time {taken[i]:g}",
            stacklevel=3,
        )
