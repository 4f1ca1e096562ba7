"""Checks that a value is a record, and that two records describe the same system."""

import json
from collections.abc import Iterator
from typing import Any

import xarray as xr

from learndyn.runtime.checks import instance

NAMED = 3  # differences listed in a message
LONGEST = 40  # characters of a value in a message
ABSENT = "absent"
ALLOWED = "a record of `solve` or `simulate`"


def require_record(name: str, record: Any) -> xr.Dataset:
    """Returns `record`, or raises a ValueError if it is not a record; `name` is the argument."""
    instance(name, record, xr.Dataset, ALLOWED)
    if "time" not in record.coords or record["time"].dims != ("time",):
        raise ValueError(f"{name}: got no coordinate 'time'; allowed is {ALLOWED}")
    if record["time"].dtype.kind not in "fiu":
        came = f"times of type {record['time'].dtype}"
        raise ValueError(f"{name}: got {came}; allowed are times that are numbers")
    return record


def require_match(
    first: xr.Dataset,
    second: xr.Dataset,
    *,
    names: tuple[str, str] = ("theory", "simulation"),
    same_system: bool = True,
) -> None:
    """Raises a ValueError if two records do not describe the same system.

    Their times must have the same unit in any case, since they share an axis. A record without a
    unit is accepted.

    Args:
        first: a record.
        second: another record.
        names: their names in the message.
        same_system: whether they must be of the same system.

    Raises:
        ValueError: for records without times or with several starts, with different units of time,
            or of different systems.
    """
    for name, record in zip(names, (first, second), strict=True):
        if "start" in record.dims:
            raise ValueError(
                f"{name}: got the dimension 'start'; allowed is one of them, record.isel(start=0)"
            )
        if "time" not in record.coords:
            raise ValueError(f"{name}: got no coordinate 'time'; allowed is a record")
    units = [record["time"].attrs.get("unit") for record in (first, second)]
    if None not in units and units[0] != units[1]:
        came = f"{names[1]}: its time is in {units[1]!r}, that of {names[0]} in {units[0]!r}"
        raise ValueError(f"{came}; allowed are times of one unit")
    if same_system:
        _require_one_system(first, second, names)


def differences(first: str, second: str) -> list[str]:
    """The differences of two systems, each as `path (value against value)`.

    Args:
        first: a system as JSON text.
        second: another system as JSON text.

    Returns:
        The differences, in the order of the fields; empty for equal systems.
    """
    pairs = _walk("", _tree(first), _tree(second))
    return [f"{path} ({_short(a)} against {_short(b)})" for path, a, b in pairs]


def _require_one_system(first: xr.Dataset, second: xr.Dataset, names: tuple[str, str]) -> None:
    for name, record in zip(names, (first, second), strict=True):
        if "system" not in record.attrs:
            came = f"{name}: got no attribute 'system'"
            raise ValueError(f"{came}; allowed are records of one system, or same_system=False")
    differing = differences(first.attrs["system"], second.attrs["system"])
    if differing:
        more = f" and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
        came = f"{names[1]}: its system differs in {', '.join(differing[:NAMED])}{more}"
        raise ValueError(f"{came}; allowed are records of one system, or same_system=False")


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):  # the attribute of a record from another library
        return text


def _walk(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    if _is_branch(a) and _is_branch(b) and a.get("kind") == b.get("kind"):
        for name in {**a, **b}:
            below = f"{path}.{name}" if path else name
            yield from _walk(below, a.get(name, ABSENT), b.get(name, ABSENT))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _walk(f"{path}[{i}]", x, y)
    elif not (a == b or (a != a and b != b)):  # a != a only for NaN: two NaN count as equal
        yield path or "kind", a, b


def _is_branch(value: Any) -> bool:
    return isinstance(value, dict) and "sha256" not in value


def _short(value: Any) -> str:
    """A value in a few characters: containers by their kind, name, size or hash."""
    if isinstance(value, list):
        return f"{len(value)} entries"
    if isinstance(value, dict):
        what = value.get("kind") or value.get("function") or value.get("object")
        what = what or f"an array of shape {tuple(value.get('shape', ()))}"
        return f"{what} #{value['sha256'][:8]}" if "sha256" in value else str(what)
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
