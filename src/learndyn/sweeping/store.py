"""The store of a sweep: a Zarr group, flat along `point`, with a status for every point.

The group is `point` at the location of the sweep, beside what `view.py` writes there for other
readers; in format 1 it was the location itself. The store stays consistent if a process is killed
at any moment: every object is written completely or not at all; the data of a chunk are written
before the statuses that refer to them; and only the one client that holds the lock (`lock.py`)
changes the description of the store.
"""

import contextlib
import dataclasses
import errno
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import zarr
from zarr.codecs import ZstdCodec
from zarr.errors import ContainsArrayError, GroupNotFoundError, NodeTypeValidationError

from learndyn.sweeping.errors import ALLOWED, Guarded, StoreError, damaged, one_line, readable
from learndyn.sweeping.points import OWN, Grid
from learndyn.sweeping.schema import LATE, PREFIX, TEXT, Schema, check_lengths

FORMAT = 2
STATUS = f"{PREFIX}status"
PENDING, RUNNING, FINISHED, FAILED = "pending", "running", "finished", "failed"
COMPLETE = "complete"  # attribute: blank chunks are written too, so a missing chunk is lost data
WRITTEN: Any = {"write_empty_chunks": True}


@dataclasses.dataclass(frozen=True)
class Status:
    """The status of a point.

    Attributes:
        status: pending, running, finished or failed.
        attempt: the number of attempts.
        seconds: the duration of the last attempt.
        worker: where it was computed.
        message: why it failed.
        differs: attributes of its record that differ from those of the first record.
        lengths: lengths of padded dimensions.
    """

    status: str = PENDING
    attempt: int = 0
    seconds: float = 0.0
    worker: str = ""
    message: str = ""
    differs: Sequence[str] = ()
    lengths: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def to_text(self) -> str:
        """The status as JSON."""
        return json.dumps(vars(self), ensure_ascii=False)

    @staticmethod
    def from_text(text: str) -> "Status":
        """The status that `to_text` wrote; pending for empty text."""
        return Status(**json.loads(text)) if text else Status()


def is_local(location: str) -> bool:
    """Whether a location is on this computer's own disks."""
    return "://" not in location or location.startswith("file://")


def local_path(location: str) -> pathlib.Path:
    """The folder of a store on disk."""
    return pathlib.Path(location.removeprefix("file://"))


def holds_files(folder: pathlib.Path) -> bool:
    """Whether a folder contains something other than Zarr; incomplete files do not count."""
    if not folder.is_dir():
        return False
    names = {entry.name for entry in folder.iterdir() if entry.suffix != ".partial"}
    return bool(names) and not names & {"zarr.json", ".zgroup", ".zarray"}


class Store:
    """A sweep's Zarr group.

    Args:
        location: a path, or a location that fsspec has a driver for.
        mode: "r" to read, "r+" to write as well, "a" to create it if there is none.
    """

    def __init__(self, location: str, mode: str = "r"):
        self.location = location
        self._arrays: dict[str, Any] = {}
        self._shared: dict[str, np.ndarray] = {}
        if is_local(location) and holds_files(local_path(location)):
            raise self._something_else()
        with one_line(location, ALLOWED if mode == "a" else "the store of a sweep"):
            self.group, self.prefix = self._opened(mode)
            self.attrs: dict[str, Any] = dict(self.group.attrs)
            empty = not self.attrs and not any(True for _ in self.group.members())
        if "sweep" not in self.attrs and not (empty and mode == "a"):
            raise self._something_else()
        if "sweep" in self.attrs:
            with self.readable("zarr.json"):
                self._check_description()

    def _opened(self, mode: str) -> tuple[Any, str]:
        """The group of the sweep, and where it is at the location."""
        root = self._group("", mode)
        if root is None:
            raise FileNotFoundError(errno.ENOENT, "no store")
        prefix = f"{OWN}/"
        group = self._group(prefix, "r" if mode == "r" else "r+")
        if group is None and "sweep" in root.attrs:
            return root, ""  # of format 1
        if group is None and mode == "a" and not root.attrs and not any(root.members()):
            group = self._group(prefix, mode)
        if group is None:
            raise self._something_else()
        return group, prefix

    def _group(self, place: str, mode: str) -> Any:
        """The Zarr group at a place of the location; None if there is none."""
        try:
            # Consolidated metadata, which are for other readers, may be older than the group.
            given: Any = {"store": self.location, "path": place.strip("/"), "mode": mode}
            group = zarr.open_group(**given, use_consolidated=False)
        except (FileNotFoundError, GroupNotFoundError):
            return None
        except (ContainsArrayError, NodeTypeValidationError):
            raise StoreError(
                f"store: {self.location!r} holds an array; allowed is {ALLOWED}"
            ) from None
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise damaged(self.location, f"{place}zarr.json", str(error)) from None
        except ValueError as error:  # fsspec has no driver for it
            raise StoreError(
                f"store: got {self.location!r} ({error}); allowed is {ALLOWED}"
            ) from None
        # Arrays of format 2 may name a filter that unpickles what they contain.
        if group.metadata.zarr_format != 3:
            raise self._something_else()
        return group

    def _something_else(self) -> StoreError:
        return StoreError(f"store: {self.location!r} holds something else; allowed is {ALLOWED}")

    def readable(self, part: str) -> contextlib.AbstractContextManager[None]:
        """Turns an error that a damaged part causes when it is read into one line."""
        return readable(self.location, self.prefix + part)

    def _check_description(self) -> None:
        """Raises if the description of the sweep has a newer format, or is incomplete."""
        written = self.about.get("format", FORMAT)
        if written > FORMAT:
            raise StoreError(
                f"store: {self.location!r} was written in format {written}, by a newer version; "
                f"allowed are formats up to {FORMAT}: install that version"
            )
        parts = {"grid": ("axes", "zipped", "points"), "identity": ("version", "pad"), "attrs": ()}
        # A missing or wrong part raises here, where `readable` reports a damaged store.
        for part, names in parts.items():
            for name in names:
                self.about[part][name]
            self.about[part].keys()
        self.about["function"]
        if int(self.attrs.get("chunk", 1)) < 1:
            raise ValueError(f"it has chunks of {self.chunk} points")

    @property
    def about(self) -> Mapping[str, Any]:
        """The description of the sweep; empty for a new store."""
        return self.attrs.get("sweep", {})

    @property
    def format(self) -> int:
        """The format in which it is written."""
        return FORMAT if self.prefix else 1

    @property
    def schema(self) -> Schema | None:
        """The schema of its records; None before the first point has finished."""
        text = self.attrs.get("schema")
        with self.readable("zarr.json"):
            return None if text is None else Schema.from_json(text)

    def grid(self) -> Grid:
        """The points of the sweep, without the values of the axes."""
        with self.readable("zarr.json"):
            return Grid.from_json(self.about["grid"], rebuild=False)

    def describe(self, **attrs: Any) -> None:
        """Writes attributes that describe the store, all at once."""
        with one_line(self.location, "one that can be written"):
            self.group.update_attributes(attrs)
        self.attrs |= attrs

    def lay_out(self, schema: Schema | None, count: int, chunk: int) -> None:
        """Creates the arrays; those that a killed client left incomplete are created anew.

        Args:
            schema: the schema of the records; None if no point has finished, so that there are
                only statuses.
            count: the number of points.
            chunk: the number of points written together.
        """
        with one_line(self.location, "one that can be written"):
            # `chunk` is written after the array of statuses: who finds it, finds the array too.
            if "chunk" not in self.attrs:
                self._make(STATUS, (count,), (chunk,), TEXT, "", ("point",))
                self.describe(chunk=chunk)
            if schema is not None:
                for name, field in schema.fields.items():
                    shape = tuple(schema.sizes[dim] for dim in field.dims)
                    lead = () if field.shared else (count,)
                    chunks = (*(min(self.chunk, n) for n in lead), *(max(n, 1) for n in shape))
                    dims = field.dims if field.shared else ("point", *field.dims)
                    self._make(name, (*lead, *shape), chunks, field.dtype, field.fill, dims)

    def _make(self, name: str, shape, chunks, dtype: str, fill: Any, dims) -> None:
        self._arrays[name] = self.group.create_array(
            name,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            fill_value=fill,
            dimension_names=dims,
            compressors=ZstdCodec(checksum=True),  # without a checksum, damage may go unnoticed
            config=WRITTEN,
            overwrite=True,
        )

    def share(self, arrays: Mapping[str, np.ndarray], schema: Schema) -> None:
        """Writes the shared arrays, and then the schema, which marks the store as complete."""
        with one_line(self.location, "one that can be written"):
            for name, values in arrays.items():
                self.array(name)[...] = values
        self.describe(schema=schema.to_json(), **{COMPLETE: True})

    def shared(self) -> dict[str, np.ndarray]:
        """The arrays that all points share."""
        schema = self.schema
        for name in [n for n, f in schema.fields.items() if f.shared] if schema else []:
            if name not in self._shared:
                with self.readable(f"{name}/c"):
                    self._shared[name] = np.asarray(self.array(name)[...])
        return self._shared

    @property
    def chunk(self) -> int:
        """The number of points written together."""
        return int(self.attrs["chunk"])

    def array(self, name: str) -> Any:
        """An array of the store, with the shape it had when it was first requested."""
        if name not in self._arrays:
            with self.readable(f"{name}/zarr.json"):
                array: Any = self.group[name]
                schema = self.schema
                if schema is not None and name in schema.fields:
                    check_lengths(array, schema.fields[name], schema)
                self._arrays[name] = array.with_config(WRITTEN)
        return self._arrays[name]

    def guarded(self, name: str) -> Guarded:
        """An array to read from, whose errors name the damaged part."""
        return Guarded(self.location, self.prefix + name, self.array(name), COMPLETE in self.attrs)

    def grow(self, count: int, lengths: Mapping[str, int]) -> None:
        """Enlarges the arrays for more points, or for longer padded dimensions.

        Args:
            count: the number of points.
            lengths: dimension → length; shorter lengths than the present ones change nothing.
        """
        fields = {STATUS: ("point",)}
        if self.schema is not None:
            own = self.schema.fields.items()
            fields |= {name: ("point", *f.dims) for name, f in own if not f.shared}
        with one_line(self.location, "one that can be written"):
            for name, dims in fields.items() if "chunk" in self.attrs else ():
                array = self.array(name)
                wanted = [{"point": count, **lengths}.get(dim, 0) for dim in dims]
                shape = tuple(map(max, zip(array.shape, wanted, strict=True)))
                if shape != array.shape:
                    array.resize(shape)

    def statuses(self, rows: slice = slice(None), count: int | None = None) -> list[Status]:
        """The statuses of points; all pending before the arrays are created."""
        if "chunk" not in self.attrs:
            return [Status()] * (count or 0)
        if count is not None:  # the length of the array may be another than that of the grid
            rows = slice(*rows.indices(count))
        texts = self.guarded(STATUS)[rows]
        with self.readable(STATUS):
            return [Status.from_text(str(text)) for text in texts]

    def write_statuses(self, first: int, statuses: Sequence[Status]) -> None:
        """Writes the statuses of neighbouring points."""
        texts = np.array([status.to_text() for status in statuses], dtype=object)
        with one_line(self.location, "one that can be written"):
            self.array(STATUS)[first : first + len(texts)] = texts

    def write_data(self, first: int, stop: int, records: Mapping[int, Mapping[str, Any]]) -> None:
        """Writes records of points in a range of rows, and leaves the other rows unchanged.

        Args:
            first: the first row of the range.
            stop: the row after the last.
            records: row → name → array.
        """
        if not records:
            return
        with one_line(self.location, "one that can be written"):
            for name in next(iter(records.values())):
                array = self.array(name)
                # Zarr writes whole chunks. Rows that are not replaced have to be read first.
                if len(records) == stop - first:
                    block = np.full((stop - first, *array.shape[1:]), array.fill_value, array.dtype)
                else:
                    block = np.asarray(self.guarded(name)[first:stop]).copy()
                for row, record in records.items():
                    block[row - first] = array.fill_value
                    block[(row - first, *map(slice, record[name].shape))] = record[name]
                array[first:stop] = block

    def late(self) -> set[int]:
        """The rows of points that exceeded their time limit in this call."""
        if LATE not in self.group:
            return set()
        return {int(name) for name, _ in self.group[LATE].members()}  # pyright: ignore

    def mark_late(self, row: int) -> None:
        """Notes that a point exceeded its time limit, before its worker is killed."""
        self.group.create_group(f"{LATE}/{row}", overwrite=True)

    def forget_late(self) -> None:
        """Removes these marks."""
        with one_line(self.location, "one that can be written"):
            if LATE in self.group:
                del self.group[LATE]


def between_data_and_status() -> None:
    """Does nothing: tests kill the process here, where it would do most harm."""
