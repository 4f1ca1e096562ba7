"""Opens a store as one dataset on the axes of the sweep, with NaN for unfinished points."""

import collections
import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dask.array
import numpy as np
import xarray as xr

from learndyn.runtime.checks import path
from learndyn.sweeping.lock import is_held
from learndyn.sweeping.lost_data import lost_line, lost_rows
from learndyn.sweeping.points import Grid
from learndyn.sweeping.schema import PREFIX, Field, Schema
from learndyn.sweeping.store import FAILED, FINISHED, PENDING, RUNNING, STATUS, Status, Store

ABSENT = "left out"
INTERRUPTED = "interrupted"  # started by a client that is gone
LOST = "lost"  # finished, but its data are missing
REPORTED = ("status", "attempt", "seconds", "worker", "message")


def open_sweep(store: str | os.PathLike) -> xr.Dataset:
    """The data of a sweep; while it is running, those of the points finished so far.

    Args:
        store: the location of the store.

    Returns:
        A lazy dataset whose dimensions are the axes and then those of the records. Unfinished
        points are NaN, or empty strings; the coordinates `point_status`, `point_attempt`,
        `point_seconds`, `point_worker` and `point_message` describe each point.

    Warns:
        UserWarning: if data of finished points are missing.

    Raises:
        ValueError: for a location without a sweep, or with a damaged one; damaged data raise it
            when they are read.

    Example:
        >>> import pathlib, tempfile
        >>> from distributed import Client
        >>> import learndyn as ld
        >>> def power(base, exponent):
        ...     return base**exponent
        >>> axes = {"base": [2, 3], "exponent": [1, 2, 3]}
        >>> folder = tempfile.TemporaryDirectory()
        >>> store = pathlib.Path(folder.name) / "powers.zarr"
        >>> with Client(processes=False, dashboard_address=":0") as client:
        ...     data = ld.sweep(power, axes, store=store, client=client, progress=False)
        >>> ld.open_sweep(store)["point_status"].values.tolist()[0]
        ['finished', 'finished', 'finished']
        >>> folder.cleanup()
    """
    opened = Store(path("store", store))
    grid, statuses = _now(opened)
    lost = [row for row, status in enumerate(statuses) if status.status == LOST]
    if lost:
        again = "the next call of the sweep computes them again"
        warnings.warn(f"{lost_line(opened, lost)}; {again}", stacklevel=2)
    with opened.readable("zarr.json"):
        fold = _Fold(grid)
    schema = opened.schema
    data = _records(opened, schema, statuses, fold) if schema else xr.Dataset()
    reports = {
        PREFIX + name: fold.folded([getattr(s, name) for s in statuses]) for name in REPORTED
    }
    # Combinations of values that `where` leaves out are not pending points.
    reports[STATUS] = reports[STATUS].where(fold.place >= 0, ABSENT)
    attrs = {**_attributes(schema, statuses), **opened.about["attrs"]}
    attrs["wall_seconds"] = float(sum(status.seconds for status in statuses))
    return data.assign_coords({**fold.coords, **reports}).assign_attrs(attrs)


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failed point, in words, and the reason."""

    point: str
    message: str


def progress_of(store: str | os.PathLike) -> tuple[dict[str, int], list[Failure]]:
    """The number of points by status, and the failed points.

    Args:
        store: the location of the store.

    Returns:
        Status → number, and the failures.

    Raises:
        ValueError: for a location without a sweep, or with a damaged one.
    """
    grid, statuses = _now(Store(path("store", store)))
    tally = collections.Counter({PENDING: 0})
    tally.update(status.status for status in statuses)
    failed = [row for row, status in enumerate(statuses) if status.status == FAILED]
    return dict(tally), [Failure(grid.label(row), statuses[row].message) for row in failed]


def _now(store: Store) -> tuple[Grid, list[Status]]:
    """The points and their current statuses, including lost and interrupted ones."""
    grid = store.grid()
    statuses = store.statuses(count=len(grid))[: len(grid)]
    statuses += [Status()] * (len(grid) - len(statuses))
    for row in lost_rows(store, statuses):
        statuses[row] = dataclasses.replace(statuses[row], status=LOST)
    running = [row for row, status in enumerate(statuses) if status.status == RUNNING]
    if running and not is_held(store):
        for row in running:
            statuses[row] = dataclasses.replace(statuses[row], status=INTERRUPTED)
    return grid, statuses


class _Fold:
    """The position of each point on the axes."""

    def __init__(self, grid: Grid):
        groups = grid.groups()
        names = list(grid.axes)
        self.dims = [group[0] for group in groups]
        columns = [names.index(dim) for dim in self.dims]
        places = np.asarray(grid.points)[:, columns]
        rows = np.full(grid.sizes(), -1)  # -1: no such point
        rows[tuple(places.T)] = np.arange(len(grid))
        self.place = xr.DataArray(rows, dims=self.dims)
        self.coords = {
            name: (group[0], _labels(grid.axes[name].labels)) for group in groups for name in group
        }

    def folded(self, values: Sequence[Any]) -> xr.DataArray:
        """Values of points on the axes; points that are left out have arbitrary values."""
        flat = xr.DataArray(np.asarray(values), dims="point")
        return flat.isel(point=np.maximum(self.place, 0))


def _labels(labels: Sequence[Any]) -> np.ndarray:
    """The labels as an array; as strings if strings are mixed with numbers."""
    kinds = {type(label) for label in labels}
    return np.asarray(labels if len(kinds) == 1 or str not in kinds else list(map(str, labels)))


def _records(store: Store, schema: Schema, statuses: list[Status], fold: _Fold) -> xr.Dataset:
    coords = [name for name, field in schema.fields.items() if field.coordinate]
    flat = xr.Dataset({name: _lazy(store, name, field) for name, field in schema.fields.items()})
    flat = flat.set_coords(coords)
    finished = [status.status == FINISHED for status in statuses]
    data = flat.isel(point=np.maximum(fold.place, 0))
    there = fold.folded(finished) & (fold.place >= 0)
    if not bool(there.all()):
        data = data.map(lambda array: _masked(array, there), keep_attrs=True)
        own = [c for c in coords if not schema.fields[c].shared]
        data = data.assign_coords({c: _masked(data[c], there) for c in own})
    return _one_label(data, schema)


def _lazy(store: Store, name: str, field: Field) -> xr.Variable:
    if field.shared:
        return xr.Variable(field.dims, store.shared()[name], dict(field.attrs))
    array = store.guarded(name)
    lazy = dask.array.from_array(array, store.array(name).chunks, name=False, fancy=False)
    if array.dtype.kind == "T":  # NetCDF and comparisons need objects
        lazy = lazy.astype(object)
    return xr.Variable(("point", *field.dims), lazy, dict(field.attrs))


def _masked(array: xr.DataArray, there: xr.DataArray) -> xr.DataArray:
    if array.dtype == bool:  # a number, as integers are: objects are neither saved nor plotted
        array = array.astype(float)
    return array.where(there, "" if array.dtype == object else np.nan)


def _one_label(data: xr.Dataset, schema: Schema) -> xr.Dataset:
    """Gives a padded dimension common labels if those of all records agree."""
    for dim in schema.pad:
        own = PREFIX + dim
        if own not in data or schema.fields[own].dims != (dim,):
            continue
        values = data[own].transpose(..., dim).values.reshape(-1, data.sizes[dim])
        whole = values[np.argmax(np.isfinite(values).sum(1))] if values.dtype.kind == "f" else None
        if whole is not None and np.all(np.isnan(values) | (values == whole)):
            attrs = dict(schema.fields[own].attrs)
            data = data.drop_vars(own).assign_coords({dim: (dim, whole, attrs)})
    return data


def _attributes(schema: Schema | None, statuses: Sequence[Status]) -> Mapping[str, Any]:
    """The attributes that all records have in common."""
    differ = {name for status in statuses for name in status.differs}
    return {k: v for k, v in (schema.attrs if schema else {}).items() if k not in differ}
