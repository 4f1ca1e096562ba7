"""Sweeps: a store on two of its axes, and the record behind each cell."""

import collections
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from learndyn.explorer.controls import Control, Text, Values
from learndyn.explorer.pages.base import AbstractPage, missing
from learndyn.explorer.pages.thinning import thinned
from learndyn.explorer.views import Axis, Chart, Heat, Series, Table, View

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

DEPTH = 3  # folders below the given one in which stores are looked for
MOST_CELLS = 2500
MOST_CURVES = 12
NUMBERS = "fiub"  # kinds of types
STATUS = "point_status"
DONE = {"finished", "failed", "left out"}  # what no process works on any more
NOTHING = (
    "`ld.sweep(function, axes, store=…)` writes one; `learndyn explore --sweeps DIR` looks below "
    "another folder."
)
CODE = """import learndyn as ld

data = ld.open_sweep({store!r})
shown = data[{value!r}].isel({place!r}).transpose({axes})
print(shown.values)
"""
CELL = """record = data.isel({place!r})
print(record.compute())
"""


class Sweeps(AbstractPage):
    """A map of a value over two axes, with the status of what is missing."""

    name = "sweeps"
    title = "Sweeps"
    about = (
        "Stores that ld.sweep has written below the folder that the explorer was started with. A "
        "cell leads to its record."
    )
    controls: ClassVar[dict[str, Control]] = {
        name: Text(label, "offered")
        for name, label in {
            "store": "store", "x": "horizontal axis", "y": "vertical axis", "value": "value",
            "cell": "cell",
        }.items()
    }  # fmt: skip

    def show(self, values: Values, folders: Mapping[str, str]) -> View:
        stores = _stores(pathlib.Path(folders["sweeps"]))
        view = View(offers={"store": ["", *stores]})
        if not values["store"]:
            count = f"{len(stores)} store{'s' * (len(stores) != 1)}"
            view.status = f"{count} below {folders['sweeps']}{missing(folders['sweeps'])}"
            if not stores:
                view.notes.append(NOTHING)
                return view
            leads = [{"store": name} for name in stores]
            view.tables.append(Table("Stores", ("store",), [(name,) for name in stores], leads))
            return view
        map_ = self._map(values, folders)
        heat = _heat(map_)
        # The first of those offered is the one that is shown where none was chosen.
        first = lambda chosen, among: [chosen, *(each for each in among if each != chosen)]
        axes = _axes(map_.data)
        view.offers |= {"x": first(map_.x, axes), "y": first(map_.y, axes)}
        view.offers["value"] = first(map_.value, _curves(map_.data))
        view.offers["cell"] = ["", *(lead["cell"] for row in heat.leads for lead in row)]
        view.links = {"Back to all stores": dict.fromkeys(self.controls, "")}
        counts = _counts(map_.data)
        if not counts.keys() <= DONE:
            view.links["Look again"] = {}
        sizes = ", ".join(f"{axis} × {map_.data.sizes[axis]}" for axis in axes)
        statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
        view.status = f"{values['store']}: {sizes}; {statuses}"
        view.heats.append(heat)
        about = {"store": values["store"], "value": map_.array.name, "place": map_.rest}
        view.code = CODE.format(**about, axes=", ".join(map(repr, map_.drawn)))
        if values["cell"]:
            place = _place(map_, values["cell"])
            _cell(view, map_.data.isel(place), values["cell"])
            view.code += CELL.format(place=place)
        view.saves = True
        return view

    def records(self, values: Values, folders: Mapping[str, str]) -> "Mapping[str, xr.Dataset]":
        if not values["store"]:
            return {}
        map_ = self._map(values, folders)
        place = _place(map_, values["cell"]) if values["cell"] else map_.others
        kind = "record" if values["cell"] else "sweep"
        return {kind: map_.data.isel(place).compute()}

    def figure(self, values: Values, records: "Mapping[str, xr.Dataset]") -> "Figure | None":
        import learndyn as ld

        if "record" in records:
            return ld.plot(records["record"]) if "time" in records["record"].coords else None
        map_ = _map_of(records["sweep"], values)
        if map_.x == map_.y or not map_.value:
            return None
        drawn = map_.data[[map_.value]].isel(map_.rest)
        return ld.plot(drawn, x=map_.x, y=map_.y, value=map_.value)

    def _map(self, values: Values, folders: Mapping[str, str]) -> "_Map":
        stores = _stores(pathlib.Path(folders["sweeps"]))
        if values["store"] not in stores:
            raise ValueError(f"store: got {values['store']!r}; allowed is one of those offered")
        return _map_of(_opened(stores[values["store"]]), values)


class _Map(NamedTuple):
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
        return {axis: 0 for axis in _axes(self.data) if axis not in (self.x, self.y)}

    @property
    def rest(self) -> dict[str, int]:
        """Where it lies on all other dimensions of the value: at the end of its own, as of time."""
        dims = self.array.dims
        inner = {str(dim): -1 for dim in dims if dim not in _axes(self.data)}
        return {axis: at for axis, at in {**self.others, **inner}.items() if axis in dims}


def _map_of(data: "xr.Dataset", values: Values) -> _Map:
    """What was chosen, or else the first two axes and the first value."""
    axes, curves = _axes(data), _curves(data) or [""]
    pick = lambda name, among, other: (
        values[name] if values[name] in among else among[other % len(among)]
    )
    return _Map(data, pick("x", axes, 0), pick("y", axes, 1), pick("value", curves, 0))


def _stores(root: pathlib.Path) -> dict[str, pathlib.Path]:
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


def _opened(folder: pathlib.Path) -> "xr.Dataset":
    import learndyn as ld

    try:
        return ld.open_sweep(folder)
    except (ValueError, OSError, ImportError) as error:
        text = str(error).partition("\n")[0].removeprefix("store: ")
        raise ValueError(f"store: {text}") from None


def _axes(data: "xr.Dataset") -> list[str]:
    return [str(dim) for dim in data[STATUS].dims]


def _counts(data: "xr.Dataset") -> dict[str, int]:
    """How many points have each status."""
    return dict(collections.Counter(data[STATUS].values.astype(str).ravel().tolist()))


def _curves(data: "xr.Dataset") -> list[str]:
    return [str(name) for name, v in data.data_vars.items() if v.dtype.kind in NUMBERS]


def _title(map_: _Map) -> str:
    """Which part of the value a map shows, if it has further dimensions."""
    label = lambda dim: map_.data[dim].values if dim in map_.data.coords else range(sizes[dim])
    sizes = map_.data.sizes
    at = [f"{dim} {label(dim)[index]}" for dim, index in map_.rest.items()]
    return (map_.value or "status") + f" at {', '.join(at)}" * bool(at)


def _heat(map_: _Map) -> Heat:
    import numpy as np

    x, y = map_.x, map_.y
    axes = tuple(dict.fromkeys((y, x)))
    status = map_.data[STATUS].isel(map_.others).transpose(*axes)
    if status.size > MOST_CELLS:
        raise ValueError(
            f"x, y: got {status.size} cells; allowed are axes with at most {MOST_CELLS}"
        )
    texts, numbers = status.values.astype(str), np.full(status.shape, np.nan)
    if map_.value:
        cells = map_.array.isel(map_.rest).broadcast_like(status).transpose(*axes)
        numbers = cells.values.astype(float)
    if x == y:
        numbers, texts = numbers[:, None], texts[:, None]
    columns = [""] if x == y else [str(v) for v in map_.data[x].values]
    rows = [str(v) for v in map_.data[y].values]
    leads = [[{"cell": f"{i}, {j}"} for j in range(len(columns))] for i in range(len(rows))]
    across = "" if x == y else x
    return Heat(_title(map_), across, y, columns, rows, numbers, texts.tolist(), leads)


def _place(map_: _Map, cell: str) -> dict[str, int]:
    """The place of a cell on the sweep's axes."""
    try:
        i, j = (int(text) for text in cell.split(","))
        place = {**map_.others, map_.x: j, map_.y: i}
        if not all(0 <= at < map_.data.sizes[axis] for axis, at in place.items()):
            raise IndexError(cell)
    except (ValueError, IndexError):
        raise ValueError(f"cell: got {cell!r}; allowed is one of the map") from None
    return place


def _cell(view: View, point: "xr.Dataset", cell: str) -> None:
    """The record behind a cell: its numbers, and its curves over time."""
    report = [(str(n), str(point[n].values)) for n in point.coords if point[n].ndim == 0]
    numbers = [(str(n), f"{float(v):.6g}") for n, v in point.data_vars.items()
               if v.ndim == 0 and v.dtype.kind in NUMBERS]  # fmt: skip
    view.tables.append(Table(f"Record of cell {cell}", ("", "value"), [*numbers, *report]))
    if "time" not in point.coords or str(point[STATUS].values) != "finished":
        return
    time = _labelled("time", point["time"])
    for name, curve in point.data_vars.items():
        if "time" in curve.dims and curve.dtype.kind in NUMBERS and curve.size:
            series = _series(str(name), curve)
            kept = thinned(*(each.y for each in series))
            for each in series:
                each.y = each.y[kept]
            axes = Axis(time), Axis(_labelled(str(name), curve))
            view.charts.append(Chart(str(name), *axes, point["time"].values[kept], series))


def _series(name: str, curve: "xr.DataArray") -> list[Series]:
    """A curve for each entry of an array over time."""
    import numpy as np

    values = curve.transpose("time", ...).values.astype(float)
    places = list(np.ndindex(values.shape[1:]))[:MOST_CURVES]
    label = lambda place: name + (f"[{', '.join(map(str, place))}]" if place else "")
    return [
        Series(label(place), values[(slice(None), *place)], "other", k)
        for k, place in enumerate(places)
    ]


def _labelled(name: str, array: Any) -> str:
    """What an axis says: the long name, and the unit if there is one."""
    unit = str(array.attrs.get("units", "1"))
    return str(array.attrs.get("long_name", name)) + (f", {unit}" if unit not in ("", "1") else "")
