"""Validators. Their errors are one line: the argument, what it got, and what is allowed."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

LARGEST_KEY = 2**63 - 1
LARGEST_COUNT = 2**53  # above it float64 cannot represent every integer
LONGEST = 60  # characters of a value that an error message shows
_SIMPLE = (str, bytes, bool, int, float, complex, np.generic)


def positive_int(name: str, value: Any) -> int:
    """Returns `value` as an int, or raises: `name` must be a positive integer."""
    if not _is_whole(value) or value < 1:
        raise ValueError(f"{name}: got {shown(value)}; allowed is a positive integer")
    if value > LARGEST_COUNT:
        raise ValueError(f"{name}: got {shown(value)}; allowed is an integer up to 2^53")
    return int(value)


def integer(name: str, value: Any) -> int:
    """Returns `value` as an int, or raises: `name` must be an integer of 32 bits."""
    if not _is_whole(value) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{name}: got {shown(value)}; allowed is an integer of 32 bits")
    return int(value)


def seed(name: str, value: Any) -> int:
    """Returns `value` as an int, or raises: `name` must be an integer from 0 to 2^63 − 1."""
    if not _is_whole(value) or not 0 <= value <= LARGEST_KEY:
        raise ValueError(f"{name}: got {shown(value)}; allowed is an integer from 0 to 2^63 − 1")
    return int(value)


def number(name: str, value: Any, allowed: str = "a finite number") -> np.ndarray:
    """Returns `value` as a float64 scalar, or raises: `name` must be one finite real number."""
    array = _real(value)
    if array is None or array.ndim or not np.isfinite(array):
        raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
    return array


def positive(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or raises: `name` must be positive and finite."""
    return _in(name, value, "a positive finite number", lambda x: x > 0)


def non_negative(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or raises: `name` must be non-negative."""
    return _in(name, value, "a non-negative finite number", lambda x: x >= 0)


def fraction(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a float64 scalar, or raises: `name` must lie in [0, 1)."""
    return _in(name, value, "a number from 0 to below 1", lambda x: 0 <= x < 1)


def between(name: str, value: Any, low: float | int, high: float | int) -> np.ndarray:
    """Returns `value` as a float64 scalar, or raises: `name` must lie in (low, high)."""
    allowed = f"a number between {low:g} and {high:g}"
    return _in(name, value, allowed, lambda x: low < x < high)


def numbers(name: str, values: Any, axes: int | None = None) -> np.ndarray:
    """Returns `values` as float64, or raises if they are not an array of real numbers.

    Args:
        name: the argument.
        values: the value to check.
        axes: the required number of axes; None allows any.

    Returns:
        The array, which may contain NaN and infinities.

    Raises:
        ValueError: for text, complex numbers, ragged rows, or a different number of axes.
    """
    array = _real(values)
    allowed = "real numbers" if axes is None else f"real numbers with {axes} ax{'ei'[axes == 1]}s"
    if array is None:
        raise ValueError(f"{name}: got {shown(values)}; allowed are {allowed}")
    if axes is not None and array.ndim != axes:
        raise ValueError(f"{name}: got shape {array.shape}; allowed are {allowed}")
    return array


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Returns the allowed value that `value` equals, or raises and lists the allowed ones."""
    allowed = tuple(allowed)
    for each in allowed:
        if value is each or (isinstance(value, _SIMPLE) and value == each):
            return each
    choices = ", ".join(map(repr, allowed))
    raise ValueError(f"{name}: got {shown(value)}; allowed is one of {choices}")


def either(allowed: Iterable[Any]) -> str:
    """The values as a list for an error message: 'a', 'b' or 'c'."""
    *first, last = map(repr, allowed)
    return f"{', '.join(first)} or {last}" if first else last


def flag(name: str, value: Any) -> bool:
    """Returns `value` as a bool, or raises: `name` must be True or False."""
    return one_of(name, value, (False, True))


def path(name: str, value: Any) -> str:
    """Returns the path as text, or raises: `name` must be a path."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{name}: got {shown(value)}; allowed is a path")
    return text


def mapping(name: str, value: Any, allowed: str) -> Any:
    """Returns `value`, or raises: `name` must be a dict whose keys are strings."""
    if not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
    return value


def instance(name: str, value: Any, kind: type | tuple[type, ...], allowed: str) -> Any:
    """Returns `value`, or raises: `name` must be an instance of `kind`."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: got {a_kind(value)}; allowed is {allowed}")
    return value


def function(name: str, value: Any) -> Any:
    """Returns `value`, or raises: `name` must be a function."""
    if not callable(value):
        raise ValueError(f"{name}: got {a_kind(value)}; allowed is a function")
    return value


def widths(name: str, values: Any, least: int = 2) -> tuple[int, ...]:
    """Returns `values` as a tuple of at least `least` positive integers, or raises."""
    listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not listed or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise ValueError(f"{name}: got {shown(values)}; allowed is a list of positive integers")
    integers = tuple(positive_int(name, value) for value in values)
    if len(integers) < least:
        many = {1: "one", 2: "two"}.get(least, str(least))
        raise ValueError(f"{name}: got {shown(integers)}; allowed are at least {many}")
    return integers


def finite(name: str, array: np.ndarray) -> np.ndarray:
    """Returns `array`, or raises and names its first entry that is NaN or infinite."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}: entry {where} is {array[where]}; allowed are finite numbers")
    return array


def shown(value: Any) -> str:
    """A value in a few words on one line: small ones as they print, others by their type."""
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
    except Exception:  # an integer too long to print, or an object whose repr fails
        return a_kind(value)


def _is_whole(value: Any) -> bool:
    # In Python True is an int, but as a size or a seed it is a mistake.
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)


def _real(value: Any) -> np.ndarray | None:
    """The numbers as float64; None for text, booleans, complex numbers and anything else."""
    try:
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind in "fiu" else None
    except Exception:  # ragged rows, objects that cannot be converted
        return None


def _in(name: str, value: Any, allowed: str, holds: Callable[[Any], Any]) -> np.ndarray:
    scalar = number(name, value, allowed)
    if not holds(scalar):
        raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
    return scalar
