"""Sweeps: a store on two of its axes, and the record behind each cell."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from learndyn.explorer.controls import Control, Text, Values
from learndyn.explorer.pages.base import AbstractPage, missing
from learndyn.explorer.pages.stores import (
    DONE,
    NUMBERS,
    STATUS,
    Map,
    axes_of,
    counts_of,
    curves_of,
    map_of,
    opened,
    stores_below,
)
from learndyn.explorer.pages.thinning import thinned
from learndyn.explorer.views import Axis, Chart, Heat, Series, Table, View

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

MOST_CELLS = 2500
MOST_CURVES = 12
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
        stores = stores_below(pathlib.Path(folders["sweeps"]))
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
        heat = _heat(map_, values["cell"])
        # The first of those offered is the one that is shown where none was chosen.
        first = lambda chosen, among: [chosen, *(each for each in among if each != chosen)]
        axes = axes_of(map_.data)
        view.offers |= {"x": first(map_.x, axes), "y": first(map_.y, axes)}
        view.offers["value"] = first(map_.value, curves_of(map_.data))
        view.offers["cell"] = ["", *(lead["cell"] for row in heat.leads for lead in row)]
        view.links = {"Back to all stores": dict.fromkeys(self.controls, "")}
        counts = counts_of(map_.data)
        if not counts.keys() <= DONE:
            view.links["Look again"] = {}
        sizes = ", ".join(f"{axis} × {map_.data.sizes[axis]}" for axis in axes)
        statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
        view.status = f"{values['store']}: {sizes}; {statuses}"
        view.heats.append(heat)
        store = str(pathlib.Path(folders["sweeps"]) / values["store"])
        about = {"store": store, "value": map_.array.name, "place": map_.rest}
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
        map_ = map_of(records["sweep"], values)
        if map_.x == map_.y or not map_.value:
            return None
        drawn = map_.data[[map_.value]].isel(map_.rest)
        return ld.plot(drawn, x=map_.x, y=map_.y, value=map_.value)

    def _map(self, values: Values, folders: Mapping[str, str]) -> "Map":
        stores = stores_below(pathlib.Path(folders["sweeps"]))
        if values["store"] not in stores:
            raise ValueError(f"store: got {values['store']!r}; allowed is one of those offered")
        return map_of(opened(stores[values["store"]]), values)


def _title(map_: Map) -> str:
    """Which part of the value a map shows, if it has further dimensions."""
    label = lambda dim: map_.data[dim].values if dim in map_.data.coords else range(sizes[dim])
    sizes = map_.data.sizes
    at = [f"{dim} {label(dim)[index]}" for dim, index in map_.rest.items()]
    return (map_.value or "status") + f" at {', '.join(at)}" * bool(at)


def _heat(map_: Map, cell: str) -> Heat:
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
    columns = [""] if x == y else _labels(map_.data[x].values)
    rows = _labels(map_.data[y].values)
    leads = [[{"cell": f"{i}, {j}"} for j in range(len(columns))] for i in range(len(rows))]
    across = "" if x == y else x
    return Heat(_title(map_), across, y, columns, rows, numbers, texts.tolist(), leads, cell)


def _labels(values: Iterable[Any]) -> list[str]:
    """The values of an axis in four digits, or in all of them if they would be the same then."""
    short = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in values]
    return short if len(set(short)) == len(short) else [str(v) for v in values]


def _place(map_: Map, cell: str) -> dict[str, int]:
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
