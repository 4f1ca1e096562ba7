"""Sweeps: a store on two of its axes, and the record behind each cell."""

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from learndyn.explorer.controls import Control, Text, Values
from learndyn.explorer.pages.base import AbstractPage
from learndyn.explorer.views import Axis, Chart, Heat, Series, Table, View

if TYPE_CHECKING:
    import xarray as xr

DEPTH = 3  # folders below the given one in which stores are looked for
MOST_CELLS = 2500
MOST_CURVES = 12


class Sweeps(AbstractPage):
    """A map of a value over two axes, with the status of what is missing."""

    name = "sweeps"
    title = "Sweeps"
    about = (
        "Stores of `ld.sweep` below the folder that the explorer was started with. A cell leads to "
        "its record."
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
        view.status = f"{len(stores)} stores below {folders['sweeps']}"
        if not values["store"]:
            leads = [{"store": name} for name in stores]
            view.tables.append(Table("Stores", ("store",), [(name,) for name in stores], leads))
            return view
        if values["store"] not in stores:
            raise ValueError(f"store: got {values['store']!r}; allowed is one of those offered")
        data = _opened(stores[values["store"]])
        axes, curves = (
            _axes(data),
            [str(n) for n, v in data.data_vars.items() if v.dtype.kind in "fiub"],
        )
        if not curves:
            raise ValueError("store: got one without a finished point; allowed is at least one")
        pick = lambda name, among, other: (
            values[name] if values[name] in among else among[other % len(among)]
        )
        x, y, value = pick("x", axes, 0), pick("y", axes, 1), pick("value", curves, 0)
        view.offers |= {"x": axes, "y": axes, "value": curves}
        view.status = f"{values['store']}: {', '.join(f'{a} × {data.sizes[a]}' for a in axes)}"
        view.heats.append(_heat(data, x, y, value))
        view.offers["cell"] = ["", *(lead["cell"] for row in view.heats[0].leads for lead in row)]
        if values["cell"]:
            _cell(view, data, (x, y), values["cell"])
        return view


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
        raise ValueError(f"store: {str(error).partition(chr(10))[0]}") from None


def _axes(data: "xr.Dataset") -> list[str]:
    return [str(dim) for dim in data["point_status"].dims]


def _flat(data: "xr.Dataset", name: str, axes: tuple[str, ...]) -> "xr.DataArray":
    """A variable on some axes: at the first value of other axes, and at the end of the rest."""
    array, own = data[name], _axes(data)
    rest = {d: 0 if d in own else -1 for d in array.dims if d not in axes}
    return array.isel(rest).transpose(*[axis for axis in axes if axis in array.dims])


def _heat(data: "xr.Dataset", x: str, y: str, value: str) -> Heat:
    axes = (y,) if x == y else (y, x)
    cells = _flat(data, value, axes)
    status = _flat(data, "point_status", axes)
    if cells.size > MOST_CELLS:
        raise ValueError(
            f"x, y: got {cells.size} cells; allowed are axes with at most {MOST_CELLS}"
        )
    numbers, texts = cells.values.astype(float), status.values.astype(str)
    if x == y:
        numbers, texts = numbers[:, None], texts[:, None]
    columns = [""] if x == y else [str(v) for v in data[x].values]
    leads = [[{"cell": f"{i}, {j}"} for j in range(len(columns))] for i in range(len(numbers))]
    rows = [str(v) for v in data[y].values]
    return Heat(value, x, y, columns, rows, numbers, texts.tolist(), leads)


def _cell(view: View, data: "xr.Dataset", axes: tuple[str, str], cell: str) -> None:
    """The record behind a cell: its numbers, and its curves over time."""
    x, y = axes
    try:
        i, j = (int(text) for text in cell.split(","))
        place: dict[str, Any] = {y: i} | ({} if x == y else {x: j})
        point = data.isel({**{axis: 0 for axis in _axes(data)}, **place})
    except (ValueError, IndexError):
        raise ValueError(f"cell: got {cell!r}; allowed is one of the map") from None
    report = [(str(n), str(point[n].values)) for n in point.coords if point[n].ndim == 0]
    numbers = [(str(n), f"{float(v):.6g}") for n, v in point.data_vars.items()
               if v.ndim == 0 and v.dtype.kind in "fiub"]  # fmt: skip
    view.tables.append(Table(f"Record of cell {cell}", ("", "value"), [*numbers, *report]))
    if "time" not in point.coords:
        return
    for name, curve in point.data_vars.items():
        if "time" not in curve.dims or curve.dtype.kind not in "fiub":
            continue
        flat = curve.transpose("time", ...).values.reshape(curve.sizes["time"], -1)
        series = [
            Series(str(name), flat[:, k], "other", k)
            for k in range(min(flat.shape[1], MOST_CURVES))
        ]
        view.charts.append(
            Chart(str(name), Axis("time"), Axis(str(name)), point["time"].values, series)
        )
