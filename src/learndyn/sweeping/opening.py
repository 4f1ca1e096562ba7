"""A store as one dataset: its points folded into the axes, what is not finished left blank."""

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from learndyn.numerics.checks import path
from learndyn.sweeping.points import Grid
from learndyn.sweeping.schema import PREFIX, Schema
from learndyn.sweeping.store import FAILED, FINISHED, PENDING, STATUS, Status, Store, one_line

ABSENT = "left out"
SAID = ("status", "attempt", "seconds", "worker", "message")


def open_sweep(store: str | os.PathLike) -> xr.Dataset:
    """The data of a sweep, also while it runs: what has finished by now.

    Args:
        store: its location.

    Returns:
        A lazy dataset whose dimensions are the axes and then those of the records. What is not
        finished is NaN, or an empty text; the coordinates `point_status`, `point_attempt`,
        `point_seconds`, `point_worker` and `point_message` say what became of each point.

    Raises:
        ValueError: for a location that holds no sweep.
    """
    found = Store(path("store", store))
    grid = Grid.from_json(found.about["grid"], rebuild=False)
    statuses = found.statuses(count=len(grid))[: len(grid)]
    statuses += [Status()] * (len(grid) - len(statuses))
    fold = _Fold(grid)
    schema = found.schema
    with one_line(found.location, "the store of a sweep"):
        data = _records(found, schema, statuses, fold) if schema else xr.Dataset()
    said = {PREFIX + name: fold.folded([getattr(s, name) for s in statuses]) for name in SAID}
    # Not a point at all, rather than one that waits.
    said[STATUS] = said[STATUS].where(fold.place >= 0, ABSENT)
    attrs = {**_attributes(schema, statuses), **found.about["attrs"]}
    attrs["wall_seconds"] = float(sum(status.seconds for status in statuses))
    return data.assign_coords({**fold.coords, **said}).assign_attrs(attrs)


@dataclasses.dataclass(frozen=True)
class Failure:
    """A point that failed, in words, and why."""

    point: str
    message: str


def progress_of(store: str | os.PathLike) -> tuple[dict[str, int], list[Failure]]:
    """How many points are in which status, and the failed ones.

    Args:
        store: its location.

    Returns:
        Status → number, and the failures.

    Raises:
        ValueError: for a location that holds no sweep.
    """
    found = Store(path("store", store))
    grid = Grid.from_json(found.about["grid"], rebuild=False)
    statuses = found.statuses(count=len(grid))
    tally = collections.Counter(status.status for status in statuses)
    tally[PENDING] += len(grid) - len(statuses)
    failed = [row for row, status in enumerate(statuses) if status.status == FAILED]
    return dict(tally), [Failure(grid.label(row), statuses[row].message) for row in failed]


class _Fold:
    """Where on the axes each point stands."""

    def __init__(self, grid: Grid):
        groups = grid.groups()
        names = list(grid.axes)
        self.dims = [group[0] for group in groups]
        shape = [len(grid.axes[dim].values) for dim in self.dims]
        columns = [names.index(dim) for dim in self.dims]
        places = np.asarray(grid.points)[:, columns]
        rows = np.full(shape, -1)
        rows[tuple(places.T)] = np.arange(len(grid))
        self.place = xr.DataArray(rows, dims=self.dims)
        self.coords = {
            name: (group[0], _labels(grid.axes[name].labels)) for group in groups for name in group
        }

    def folded(self, values: Sequence[Any]) -> xr.DataArray:
        """Values of points, on the axes; those of points that are left out are another's."""
        flat = xr.DataArray(np.asarray(values), dims="point")
        return flat.isel(point=np.maximum(self.place, 0))


def _labels(labels: Sequence[Any]) -> np.ndarray:
    kinds = {type(label) for label in labels}
    return np.asarray(labels if len(kinds) == 1 or str not in kinds else list(map(str, labels)))


def _records(store: Store, schema: Schema, statuses: list[Status], fold: _Fold) -> xr.Dataset:
    opened = xr.open_zarr(store.location, consolidated=False, chunks={})
    coords = [name for name, field in schema.fields.items() if field.coordinate]
    flat = opened.reset_coords()[list(schema.fields)].set_coords(coords).drop_attrs()
    for name, field in schema.fields.items():
        flat[name].attrs = dict(field.attrs)
        if flat[name].dtype.kind == "T":  # NetCDF and comparisons know objects
            flat[name] = flat[name].astype(object)
    finished = [status.status == FINISHED for status in statuses]
    data = flat.isel(point=np.maximum(fold.place, 0))
    there = fold.folded(finished) & (fold.place >= 0)
    if not bool(there.all()):
        data = data.map(lambda array: _masked(array, there), keep_attrs=True)
        own = [c for c in coords if not schema.fields[c].shared]
        data = data.assign_coords({c: _masked(data[c], there) for c in own})
    return _one_label(data, schema)


def _masked(array: xr.DataArray, there: xr.DataArray) -> xr.DataArray:
    return array.where(there, "" if array.dtype == object else np.nan)


def _one_label(data: xr.Dataset, schema: Schema) -> xr.Dataset:
    """Labels of a padded dimension, where the longest records agree with all others."""
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
    """Those that all records have in common."""
    differ = {name for status in statuses for name in status.differs}
    return {k: v for k, v in (schema.attrs if schema else {}).items() if k not in differ}
