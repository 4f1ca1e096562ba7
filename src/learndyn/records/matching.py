"""Whether two records speak of the same thing."""

import json
from collections.abc import Iterator
from typing import Any

import xarray as xr

NAMED = 3  # differences that a message names
LONGEST = 40  # characters of a value in a message
ABSENT = "absent"


def require_match(
    first: xr.Dataset,
    second: xr.Dataset,
    *,
    names: tuple[str, str] = ("theory", "simulation"),
    same_system: bool = True,
) -> None:
    """Says in one line how two records differ in what they describe, if they do.

    Their times must be of one unit always: times of two units have no common axis. A record
    that does not say its unit is believed.

    Args:
        first: a record.
        second: another.
        names: what the message calls them.
        same_system: whether they must be of one system.

    Raises:
        ValueError: for records without times or of several starts, of two units of time or of
            two systems.
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
        said = f"{names[1]}: its time is in {units[1]!r}, that of {names[0]} in {units[0]!r}"
        raise ValueError(f"{said}; allowed are times of one unit")
    if same_system:
        _require_one_system(first, second, names)


def differences(first: str, second: str) -> list[str]:
    """Where two systems differ, each as `path (value against value)`.

    Args:
        first: a system as JSON text.
        second: another.

    Returns:
        The differences, in the order of the fields; none for equal systems.
    """
    pairs = _walk("", _tree(first), _tree(second))
    return [f"{path} ({_short(a)} against {_short(b)})" for path, a, b in pairs]


def _require_one_system(first: xr.Dataset, second: xr.Dataset, names: tuple[str, str]) -> None:
    for name, record in zip(names, (first, second), strict=True):
        if "system" not in record.attrs:
            said = f"{name}: got no attribute 'system'"
            raise ValueError(f"{said}; allowed are records of one system, or same_system=False")
    found = differences(first.attrs["system"], second.attrs["system"])
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        said = f"{names[1]}: its system differs in {', '.join(found[:NAMED])}{more}"
        raise ValueError(f"{said}; allowed are records of one system, or same_system=False")


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):  # what another library calls a system
        return text


def _walk(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    if _is_branch(a) and _is_branch(b) and a.get("kind") == b.get("kind"):
        for name in {**a, **b}:
            below = f"{path}.{name}" if path else name
            yield from _walk(below, a.get(name, ABSENT), b.get(name, ABSENT))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _walk(f"{path}[{i}]", x, y)
    elif not (a == b or (a != a and b != b)):  # NaN is what differs from itself
        yield path or "kind", a, b


def _is_branch(value: Any) -> bool:
    return isinstance(value, dict) and "sha256" not in value


def _short(value: Any) -> str:
    """A value in a few characters: what holds others by its kind, name, size or hash."""
    if isinstance(value, list):
        return f"{len(value)} entries"
    if isinstance(value, dict):
        what = value.get("kind") or value.get("function") or value.get("object")
        what = what or f"an array of shape {tuple(value.get('shape', ()))}"
        return f"{what} #{value['sha256'][:8]}" if "sha256" in value else str(what)
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
