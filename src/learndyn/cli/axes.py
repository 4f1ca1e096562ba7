"""Parses the axes of a sweep from the command line."""

from collections.abc import Sequence
from typing import Any

import numpy as np

ALLOWED = "name=a,b,c or name=first:last:count[:log] or, for integers, name=first:end"


def axes_of(texts: Sequence[str], params: Any) -> dict[str, list[Any]]:
    """Parses axes; values are converted to the type of the parameter.

    Args:
        texts: one text per axis, in a form that `ALLOWED` lists.
        params: parameters of a study.

    Returns:
        Name → values.

    Raises:
        ValueError: if a text has another form, the study has no such parameter, or a value has
            the wrong type.
    """
    if not texts:
        raise ValueError(f"--axis: got nothing; allowed is {ALLOWED}")
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(f"--axis: got {text!r}; allowed is {ALLOWED}")
        if name in axes:
            raise ValueError(f"--axis {name}: got it twice; allowed is once")
        axes[name] = [_read(params, name, item) for item in _items(text, values)]
    return axes


def _items(text: str, values: str) -> list[str]:
    """The values of an axis, each as text; `text` is the whole axis, for error messages."""
    from learndyn.sweeping.points import check_number

    parts = values.split(":")
    if len(parts) == 1:
        return values.split(",")
    try:
        spaced = {2: None, 3: np.linspace, 4: np.geomspace}[len(parts)]
        read = int if spaced is None else float
        first, last = read(parts[0]), read(parts[1])
        count = last - first if spaced is None else int(parts[2])
        wrong = parts[3:] not in ([], ["log"]) or (parts[3:] and min(first, last) <= 0)
        if wrong or (spaced is not None and count < 0):
            raise ValueError
    except (ValueError, KeyError):
        raise ValueError(f"--axis: got {text!r}; allowed is {ALLOWED}") from None
    # Before the list is made: a count with too many zeros would fill the memory.
    check_number(f"--axis: got {text!r} with", int(count), "values")
    if spaced is None:
        return [str(i) for i in range(int(first), int(last))]
    return [_short(x) for x in spaced(first, last, int(count))]


def _short(value: float) -> str:
    """A number rounded to 12 digits, and as an integer if it is whole."""
    rounded = float(f"{value:.12g}")  # linspace(0, 1, 11) has 0.30000000000000004
    return str(int(rounded)) if rounded.is_integer() and abs(rounded) < 1e15 else repr(rounded)


def _read(params: Any, name: str, text: str) -> Any:
    from learndyn.studies import registry

    try:
        # The same conversion as of `--set`, so that both options accept the same texts.
        return getattr(registry.with_settings(params, {name: text}), name)
    except ValueError as error:
        raise ValueError(str(error).replace("--set", "--axis", 1)) from None
