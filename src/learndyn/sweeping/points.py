"""The points of a sweep: axes, axes that vary together, and conditions on points."""

import dataclasses
import hashlib
import itertools
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from learndyn.runtime.checks import a_kind, shown
from learndyn.runtime.checks import function as check_function
from learndyn.system.encoding import decode, encode

OWN = "point"  # dimension of the store, and prefix of what a sweep records about points
LARGEST = 10**6  # points of a grid: all are listed in the description of the store
ALLOWED = "a non-empty list of finite numbers, texts, or objects with a label"


@dataclasses.dataclass(frozen=True)
class Axis:
    """One axis of a sweep.

    Attributes:
        values: the arguments of the function.
        texts: the same as JSON, by which they are distinguished.
        labels: the labels of the axis in the data.
    """

    values: tuple[Any, ...]
    texts: tuple[Any, ...]
    labels: tuple[Any, ...]

    @staticmethod
    def of(name: str, values: Any) -> "Axis":
        """The axis of a list of values, or of a dict label → object; raises if they are wrong."""
        if isinstance(values, Mapping):
            items = [(value, str(label)) for label, value in values.items()]
        else:
            listed = isinstance(values, Sequence | np.ndarray | range)
            if not listed or isinstance(values, str):
                raise ValueError(f"axes: {name} is {a_kind(values)}; allowed is {ALLOWED}")
            check_number(f"axes: {name} has", _length(values), "values")
            items = [_labelled(name, value) for value in values]
        if not items:
            raise ValueError(f"axes: {name} is empty; allowed is {ALLOWED}")
        values, labels = (tuple(column) for column in zip(*items, strict=True))
        for kind, seen in (("value", [encode(value) for value in values]), ("label", labels)):
            if (twice := _twice(seen)) is not None:
                raise ValueError(f"axes: {name} has the {kind} {twice!r} twice; allowed is once")
        return Axis(values, tuple(encode(value) for value in values), labels)


def _length(values: Any) -> int:
    try:
        return len(values)
    except OverflowError:  # a range longer than sys.maxsize
        return sys.maxsize


def check_number(what: str, number: int, unit: str = "points") -> None:
    """Raises for more points than a sweep can hold, before they are listed."""
    if number > LARGEST:
        raise ValueError(
            f"{what} {number:,} {unit}; allowed are at most {LARGEST:,}: take fewer, or several "
            "sweeps"
        )


def is_own(name: str) -> bool:
    """Whether a name is reserved for what a sweep records about its points."""
    return name == OWN or name.startswith(f"{OWN}_")


def is_file_name(name: str) -> bool:
    """Whether a store can keep an array of this name: it is a folder beside Zarr's own files."""
    return bool(name.strip(".")) and not {"/", "\0"} & set(name) and name != "zarr.json"


def _twice(values: Sequence[Any]) -> Any:
    """The first JSON value that occurs twice; None if there is none."""
    seen = set()
    for value in values:
        plain = isinstance(value, int | float | str)
        known = (
            value if plain else (json.dumps(value, sort_keys=True),)
        )  # a tuple, so that it differs from all strings
        if known in seen:
            return value
        seen.add(known)
    return None


def _labelled(name: str, value: Any) -> tuple[Any, Any]:
    """The argument of the function and its label; NumPy scalars become Python numbers."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value, value
    label = getattr(value, "label", None)
    if not isinstance(label, str):
        raise ValueError(f"axes: {name} has {value!r}; allowed is {ALLOWED}")
    return value, label


@dataclasses.dataclass(frozen=True)
class Grid:
    """Axes and the points on them, in the order of the store.

    Attributes:
        axes: name → axis.
        zipped: groups of axes that vary together.
        points: for each point, its index on every axis.
    """

    axes: Mapping[str, Axis]
    zipped: tuple[tuple[str, ...], ...]
    points: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.points)

    def point(self, row: int) -> dict[str, Any]:
        """The arguments of a point."""
        places = zip(self.axes.items(), self.points[row], strict=True)
        return {name: axis.values[place] for (name, axis), place in places}

    def identity(self, row: int) -> str:
        """The point as JSON, which is the same in every grid."""
        places = zip(self.axes.items(), self.points[row], strict=True)
        texts = {name: axis.texts[place] for (name, axis), place in places}
        return json.dumps(texts, sort_keys=True)

    def key(self, row: int) -> int:
        """A seed derived from the point, from 0 to 2^63 − 1."""
        digest = hashlib.sha256(self.identity(row).encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def label(self, row: int) -> str:
        """The point in words."""
        places = zip(self.axes.items(), self.points[row], strict=True)
        return ", ".join(f"{name}={axis.labels[place]}" for (name, axis), place in places)

    def described(self) -> dict[str, Any]:
        """The axes of the grid as JSON, which identify a sweep."""
        axes = {
            name: dict(zip(map(str, axis.labels), axis.texts, strict=True))
            if axis.texts != axis.labels
            else list(axis.texts)
            for name, axis in self.axes.items()
        }
        return {"axes": axes, "zipped": [list(group) for group in self.zipped]}

    def to_json(self) -> dict[str, Any]:
        """The grid as JSON, with its points."""
        return {**self.described(), "points": [list(point) for point in self.points]}

    @staticmethod
    def from_json(
        text: Mapping[str, Any], *, rebuild: bool = True, trusted: bool = False
    ) -> "Grid":
        """The grid that `to_json` wrote; its values only if `rebuild` is True.

        With `trusted`, the text may name any class or function, which is then imported.

        Raises:
            ValueError: for a value that cannot be rebuilt from its text.
        """
        axes = {}
        for name, axis in text["axes"].items():
            labels, texts = (axis, axis) if isinstance(axis, list) else (list(axis), axis.values())
            back = texts
            if rebuild:
                back = [decode(t, f"axes.{name}", trusted=trusted) for t in texts]
            axes[name] = Axis(tuple(back), tuple(texts), tuple(labels))
        groups = tuple(tuple(group) for group in text["zipped"])
        grid = Grid(axes, groups, tuple(tuple(point) for point in text["points"]))
        check_number("axes: the store has", math.prod(grid.sizes()))
        return grid

    def groups(self) -> list[tuple[str, ...]]:
        """The groups of axes that vary together, each once, in the order of the axes."""
        own = {name: group for group in self.zipped for name in group}
        return list(dict.fromkeys(own.get(name, (name,)) for name in self.axes))

    def sizes(self) -> list[int]:
        """The number of values of each group."""
        return [len(self.axes[group[0]].values) for group in self.groups()]


def make_grid(
    axes: Any,
    zipped: Any = (),
    where: Any = None,
) -> Grid:
    """The grid of a sweep; the last axis varies fastest.

    Args:
        axes: name → values.
        zipped: names of axes that vary together, or several groups of such names.
        where: function of a point that says whether it belongs to the sweep; None takes all.

    Returns:
        The grid.

    Raises:
        ValueError: for axes that are empty or have a value twice, for groups of unequal length
            or of names that are not axes, for more than a million points, and if no point is
            left.
    """
    if not isinstance(axes, Mapping) or not axes:
        raise ValueError(f"axes: got {shown(axes)}; allowed are names with their values")
    for name in axes:
        if is_own(str(name)):
            raise ValueError(f"axes: got {name!r}, which sweeps reserve; allowed are other names")
        if not is_file_name(str(name)):
            raise ValueError(f"axes: got {name!r}; allowed are names that files can have")
    made = {str(name): Axis.of(name, values) for name, values in axes.items()}
    grid = Grid(made, _groups(made, zipped), ())
    groups, names = grid.groups(), list(made)
    check_number("axes: got", math.prod(grid.sizes()))
    places = itertools.product(*map(range, grid.sizes()))
    owner = [next(i for i, group in enumerate(groups) if name in group) for name in names]
    every = tuple(tuple(place[i] for i in owner) for place in places)
    grid = dataclasses.replace(grid, points=every)
    if where is not None:
        check_function("where", where)
        kept = [p for row, p in enumerate(every) if _belongs(grid, row, where)]
        grid = dataclasses.replace(grid, points=tuple(kept))
    if not grid.points:
        raise ValueError("where: got a condition that no point meets; allowed is one that some do")
    return grid


def _belongs(grid: Grid, row: int, where: Callable[..., Any]) -> bool:
    try:
        return bool(where(**grid.point(row)))
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(
            f"where: at {grid.label(row)}: {why}; allowed is a condition of {', '.join(grid.axes)}"
        ) from error


def _groups(axes: Mapping[str, Axis], zipped: Any) -> tuple[tuple[str, ...], ...]:
    if not isinstance(zipped, list | tuple) or not all(
        isinstance(group, str | list | tuple) for group in zipped
    ):
        raise ValueError(f"zipped: got {zipped!r}; allowed are names of axes, or groups of them")
    flat = bool(zipped) and all(isinstance(name, str) for name in zipped)
    groups = [tuple(zipped)] if flat else [tuple(group) for group in zipped]
    named = [name for group in groups for name in group]
    wrong = next((n for n in named if n not in axes or named.count(n) > 1), None)
    if wrong is not None:
        raise ValueError(f"zipped: got {wrong!r}; allowed is each of {', '.join(axes)} once")
    for group in groups:
        sizes = {name: len(axes[name].values) for name in group}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"zipped: got lengths {sizes}; allowed are axes of one length")
    return tuple(groups)


def extended(old: Grid, new: Grid) -> Grid:
    """The points of both grids; the old ones keep their rows, on the axes of the new grid.

    Raises:
        ValueError: if the new grid has different axes, or lacks a value of the old one.
    """
    if list(old.axes) != list(new.axes) or old.zipped != new.zipped:
        raise ValueError(
            f"extend: the store has the axes {', '.join(old.axes)}; allowed are the same, longer"
        )
    places = []
    for name, axis in old.axes.items():
        lost = [t for t in axis.texts if t not in new.axes[name].texts]
        if lost:
            raise ValueError(
                f"extend: axis {name} lacks {lost[0]!r} of the store; allowed are more values"
            )
        places.append([new.axes[name].texts.index(t) for t in axis.texts])
    moved = [tuple(place[i] for place, i in zip(places, p, strict=True)) for p in old.points]
    there = set(moved)
    return dataclasses.replace(new, points=(*moved, *(p for p in new.points if p not in there)))
