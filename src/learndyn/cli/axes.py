"""Axes of a sweep, as they are written on the command line."""

from collections.abc import Sequence
from typing import Any

import numpy as np

ALLOWED = "name=a,b,c or name=first:last:count[:log] or, of integers, name=first:end"


def axes_of(texts: Sequence[str], params: Any) -> dict[str, list[Any]]:
    """Name → values, each of the type that the parameter has.

    Args:
        texts: as `ALLOWED` says.
        params: of a study.

    Returns:
        The axes.

    Raises:
        ValueError: for a text of another form, a parameter that the study does not have, and a
            value of the wrong type.
    """
    if not texts:
        raise ValueError(f"--axis: nothing came; allowed is {ALLOWED}")
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(f"--axis: got {text!r}; allowed is {ALLOWED}")
        if name in found:
            raise ValueError(f"--axis {name}: came twice; allowed is once")
        found[name] = [_read(params, name, item) for item in _items(text, values)]
    return found


def _items(text: str, values: str) -> list[str]:
    parts = values.split(":")
    if len(parts) == 1:
        return values.split(",")
    try:
        if len(parts) == 2:
            return [str(i) for i in range(int(parts[0]), int(parts[1]))]
        spaced = {3: np.linspace, 4: np.geomspace}[len(parts)]
        first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
        if parts[3:] not in ([], ["log"]) or (parts[3:] and min(first, last) <= 0):
            raise ValueError
        return [_short(x) for x in spaced(first, last, count)]
    except (ValueError, KeyError):
        raise ValueError(f"--axis: got {text!r}; allowed is {ALLOWED}") from None


def _short(value: float) -> str:
    """A number without the last digits' noise; whole ones as integers."""
    rounded = float(f"{value:.12g}")
    return str(int(rounded)) if rounded.is_integer() and abs(rounded) < 1e15 else repr(rounded)


def _read(params: Any, name: str, text: str) -> Any:
    from learndyn.studies import registry

    try:
        return getattr(registry.with_settings(params, {name: text}), name)
    except ValueError as error:
        raise ValueError(str(error).replace("--set", "--axis", 1)) from None
