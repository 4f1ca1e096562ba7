"""The store of a sweep: a Zarr group, flat along `point`, with a status for every point.

Whatever is killed at whatever moment, what is there is true: every object is written whole or
not at all; data of a chunk are written before the statuses that say so; and only the one client
that holds the store (`lock.py`) changes what describes it.
"""

import contextlib
import dataclasses
import errno
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import zarr
from zarr.errors import ContainsArrayError, GroupNotFoundError, NodeTypeValidationError

from learndyn.sweeping.schema import LATE, PREFIX, TEXT, Schema

FORMAT = 1
STATUS = f"{PREFIX}status"
PENDING, RUNNING, FINISHED, FAILED = "pending", "running", "finished", "failed"
ALLOWED = "a new location, or the store of a sweep"


@dataclasses.dataclass(frozen=True)
class Status:
    """What became of a point.

    Attributes:
        status: pending, running, finished or failed.
        attempt: how often it was begun.
        seconds: that its last attempt took.
        worker: where.
        message: why it failed.
        differs: attributes of its record that are not those of the first.
        lengths: of padded dimensions.
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
        """The status that `to_text` wrote; pending where nothing was."""
        return Status(**json.loads(text)) if text else Status()


def is_local(location: str) -> bool:
    """Whether a location is on this computer's own disks."""
    return "://" not in location or location.startswith("file://")


def local_path(location: str) -> pathlib.Path:
    """The folder of a store on disk."""
    return pathlib.Path(location.removeprefix("file://"))


def holds_files(folder: pathlib.Path) -> bool:
    """Whether a folder is used for something that is no Zarr; what is half written is no use."""
    if not folder.is_dir():
        return False
    names = {entry.name for entry in folder.iterdir() if entry.suffix != ".partial"}
    return bool(names) and not names & {"zarr.json", ".zgroup", ".zarray"}


@contextlib.contextmanager
def one_line(location: str, allowed: str = ALLOWED) -> Iterator[None]:
    """Turns what a disk or a driver says into one line."""
    try:
        yield
    except (OSError, ImportError) as error:
        number = getattr(error, "errno", None)
        why = os.strerror(number) if number else str(error).partition("\n")[0]
        raise StoreTrouble(f"store: got {location!r} ({why}); allowed is {allowed}") from None


class StoreTrouble(ValueError):
    """A store that cannot be read or written: one line."""


class Store:
    """A sweep's Zarr group.

    Args:
        location: a path, or a location that fsspec has a driver for.
        mode: "r" to read, "r+" to write too, "a" to make it where there is none.
    """

    def __init__(self, location: str, mode: str = "r"):
        self.location = location
        self._arrays: dict[str, Any] = {}
        self._shared: dict[str, np.ndarray] = {}
        if is_local(location) and holds_files(local_path(location)):
            raise StoreTrouble(f"store: {location!r} holds something else; allowed is {ALLOWED}")
        with one_line(location, ALLOWED if mode == "a" else "the store of a sweep"):
            try:
                self.group = zarr.open_group(store=location, mode=mode)  # pyright: ignore
            except (FileNotFoundError, GroupNotFoundError):
                raise FileNotFoundError(errno.ENOENT, "no store") from None
            except (ContainsArrayError, NodeTypeValidationError):
                raise StoreTrouble(
                    f"store: {location!r} holds an array; allowed is {ALLOWED}"
                ) from None
            except ValueError as error:  # fsspec's, where it has no such driver
                raise StoreTrouble(
                    f"store: got {location!r} ({error}); allowed is {ALLOWED}"
                ) from None
            self.attrs: dict[str, Any] = dict(self.group.attrs)
            empty = not self.attrs and not any(True for _ in self.group.members())
        if "sweep" not in self.attrs and not (empty and mode == "a"):
            raise StoreTrouble(f"store: {location!r} holds something else; allowed is {ALLOWED}")
        found = self.attrs.get("sweep", {}).get("format", FORMAT)
        if found > FORMAT:
            raise StoreTrouble(
                f"store: {location!r} was written in format {found}, by a newer version; "
                f"allowed are formats up to {FORMAT}: install that version"
            )

    @property
    def about(self) -> Mapping[str, Any]:
        """What the sweep is; nothing in a new store."""
        return self.attrs.get("sweep", {})

    @property
    def schema(self) -> Schema | None:
        """Of its records; None before the first point has finished."""
        text = self.attrs.get("schema")
        return None if text is None else Schema.from_json(text)

    def describe(self, **attrs: Any) -> None:
        """Writes what describes the store, all of it at once."""
        with one_line(self.location, "one that can be written"):
            self.group.update_attributes(attrs)
        self.attrs |= attrs

    def lay_out(self, schema: Schema | None, count: int, chunk: int) -> None:
        """Makes the arrays; what a killed client left half made is made anew.

        Args:
            schema: of the records; None where no point finished, and only statuses are kept.
            count: of points.
            chunk: points that are written together.
        """
        with one_line(self.location, "one that can be written"):
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
            overwrite=True,
        )

    def share(self, arrays: Mapping[str, np.ndarray], schema: Schema) -> None:
        """Writes what all points have in common, then the schema, which says that all is there."""
        with one_line(self.location, "one that can be written"):
            for name, values in arrays.items():
                self.array(name)[...] = values
        self.describe(schema=schema.to_json())

    def shared(self) -> dict[str, np.ndarray]:
        """What all points have in common."""
        schema = self.schema
        for name in [n for n, f in schema.fields.items() if f.shared] if schema else []:
            if name not in self._shared:
                self._shared[name] = np.asarray(self.array(name)[...])
        return self._shared

    @property
    def chunk(self) -> int:
        """Points that are written together."""
        return int(self.attrs["chunk"])

    def array(self, name: str) -> Any:
        """An array of the store, with the shape that it had when it was first asked for."""
        if name not in self._arrays:
            self._arrays[name] = self.group[name]
        return self._arrays[name]

    def grow(self, count: int, lengths: Mapping[str, int]) -> None:
        """Makes room for more points, or for longer padded dimensions.

        Args:
            count: of points.
            lengths: dimension → length; shorter ones than there are change nothing.
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
        """The statuses of points, all pending before the arrays are made."""
        if "chunk" not in self.attrs:
            return [Status()] * (count or 0)
        with one_line(self.location, "the store of a sweep"):
            return [Status.from_text(str(text)) for text in self.array(STATUS)[rows]]

    def write_statuses(self, first: int, statuses: Sequence[Status]) -> None:
        """Writes the statuses of neighbouring points."""
        texts = np.array([status.to_text() for status in statuses], dtype=object)
        with one_line(self.location, "one that can be written"):
            self.array(STATUS)[first : first + len(texts)] = texts

    def write_data(self, first: int, stop: int, records: Mapping[int, Mapping[str, Any]]) -> None:
        """Writes records of points among neighbours, and leaves the neighbours as they are.

        Args:
            first: row of the first neighbour.
            stop: row after the last.
            records: row → name → array.
        """
        if not records:
            return
        with one_line(self.location, "one that can be written"):
            for name in next(iter(records.values())):
                array = self.array(name)
                if len(records) == stop - first:
                    block = np.full((stop - first, *array.shape[1:]), array.fill_value, array.dtype)
                else:
                    block = np.asarray(array[first:stop]).copy()
                for row, record in records.items():
                    block[row - first] = array.fill_value
                    block[(row - first, *map(slice, record[name].shape))] = record[name]
                array[first:stop] = block

    def late(self) -> set[int]:
        """Rows of points that went over their time limit in this call."""
        if LATE not in self.group:
            return set()
        return {int(name) for name, _ in self.group[LATE].members()}  # pyright: ignore

    def mark_late(self, row: int) -> None:
        """Says that a point went over its time limit, before its worker is ended."""
        self.group.create_group(f"{LATE}/{row}", overwrite=True)

    def forget_late(self) -> None:
        """Removes these marks."""
        with one_line(self.location, "one that can be written"):
            if LATE in self.group:
                del self.group[LATE]


def between_data_and_status() -> None:
    """Where a kill does most harm; tests put it here."""
