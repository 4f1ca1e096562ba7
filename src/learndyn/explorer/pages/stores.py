"""Stores of sweeps: where they are, and what is drawn of one."""

import collections
import pathlib
from typing import TYPE_CHECKING, NamedTuple

from learndyn.explorer.controls import Values

if TYPE_CHECKING:
    import xarray as xr

DEPTH = 3  # folders below the given one in which stores are looked for
NUMBERS = "fiub"  # kinds of types
STATUS = "point_status"
DONE = {"finished", "failed", "left out"}  # what no process works on any more


class Map(NamedTuple):
    """What is drawn of a sweep: a value over two axes, which may be the same one.

    The value is empty before the first point has finished: only the status is known.
    """

    data: "xr.Dataset"
    x: str
    y: str
    value: str

    @property
    def array(self) -> "xr.DataArray":
        """What is drawn."""
        return self.data[self.value or STATUS]

    @property
    def drawn(self) -> tuple[str, ...]:
        """The axes of the map."""
        axes = dict.fromkeys((self.y, self.x))
        return tuple(axis for axis in axes if axis in self.array.dims)

    @property
    def others(self) -> dict[str, int]:
        """Where the map lies on the sweep's other axes."""
        return {axis: 0 for axis in axes_of(self.data) if axis not in (self.x, self.y)}

    @property
    def rest(self) -> dict[str, int]:
        """Where it lies on all other dimensions of the value: at the end of its own, as of time."""
        dims = self.array.dims
        inner = {str(dim): -1 for dim in dims if dim not in axes_of(self.data)}
        return {axis: at for axis, at in {**self.others, **inner}.items() if axis in dims}


def map_of(data: "xr.Dataset", values: Values) -> Map:
    """What was chosen, or else the first two axes and the first value."""
    axes, curves = axes_of(data), curves_of(data) or [""]
    pick = lambda name, among, other: (
        values[name] if values[name] in among else among[other % len(among)]
    )
    return Map(data, pick("x", axes, 0), pick("y", axes, 1), pick("value", curves, 0))


def stores_below(root: pathlib.Path) -> dict[str, pathlib.Path]:
    """Name → folder of what looks like a store, at most DEPTH folders down."""
    found, level = {}, [root]
    for _ in range(DEPTH + 1):
        below = []
        for folder in level:
            if (folder / "zarr.json").is_file():
                found[folder.relative_to(root).as_posix()] = folder
            else:
                below += _folders(folder)
        level = below
    return found


def _folders(folder: pathlib.Path) -> list[pathlib.Path]:
    try:
        entries = sorted(folder.iterdir())
        return [e for e in entries if e.is_dir() and not e.is_symlink() and e.name[0] not in "._"]
    except OSError:
        return []


def opened(folder: pathlib.Path) -> "xr.Dataset":
    """The sweep in a folder, or a ValueError in one line."""
    import learndyn as ld

    try:
        return ld.open_sweep(folder)
    except (ValueError, OSError, ImportError) as error:
        text = str(error).partition("\n")[0].removeprefix("store: ")
        raise ValueError(f"store: {text}") from None


def axes_of(data: "xr.Dataset") -> list[str]:
    """The axes of a sweep."""
    return [str(dim) for dim in data[STATUS].dims]


def counts_of(data: "xr.Dataset") -> dict[str, int]:
    """How many points have each status."""
    return dict(collections.Counter(data[STATUS].values.astype(str).ravel().tolist()))


def curves_of(data: "xr.Dataset") -> list[str]:
    """What can be drawn."""
    return [str(name) for name, v in data.data_vars.items() if v.dtype.kind in NUMBERS]
