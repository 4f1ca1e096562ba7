"""The tasks of workers: compute the points of one chunk, and write them."""

import contextlib
import dataclasses
import functools
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from learndyn.runtime.checks import a_kind
from learndyn.sweeping import store as storing
from learndyn.sweeping.errors import StoreError
from learndyn.sweeping.function import unpacked
from learndyn.sweeping.schema import Mismatch, Schema, differing
from learndyn.sweeping.store import FAILED, FINISHED, RUNNING, Status, Store

RETURNS = "an xarray.Dataset, a number, or a dict name → number"
LONGEST = 1000  # characters of a message that a store keeps
LATE = "took longer than the {:g} s that a point may take; its worker was ended"


def _worker() -> str:
    return f"{platform.node()}:{os.getpid()}"


@dataclasses.dataclass(frozen=True)
class Job:
    """What all tasks of a sweep share.

    Attributes:
        location: the location of the store.
        content: the function, as bytes.
        retries: further attempts at a point that raises an error.
        seconds: time limit of a point, or None.
        layout: identifies the present shapes of the arrays.
    """

    location: str
    content: bytes
    retries: int
    seconds: float | None
    layout: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)

    def grown(self) -> "Job":
        """The job after the arrays have been enlarged."""
        return dataclasses.replace(self, layout=uuid.uuid4().hex)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a point: a record, or the reason why there is none."""

    record: xr.Dataset | None
    message: str
    attempts: int
    seconds: float
    worker: str = dataclasses.field(default_factory=_worker)


@dataclasses.dataclass(frozen=True)
class Done:
    """The outcome of a chunk.

    Attributes:
        finished: the number of points that finished.
        failed: row → message of those that did not.
        known: what was computed but not written, because the arrays are too short.
        lengths: the lengths of padded dimensions that it needs.
    """

    finished: int = 0
    failed: Mapping[int, str] = dataclasses.field(default_factory=dict)
    known: Mapping[int, Outcome] = dataclasses.field(default_factory=dict)
    lengths: Mapping[str, int] = dataclasses.field(default_factory=dict)


def try_points(job: Job, points: Mapping[int, Mapping[str, Any]]) -> dict[int, Outcome]:
    """Computes points until one has finished, and writes nothing.

    Args:
        job: the sweep.
        points: row → arguments.

    Returns:
        Row → outcome.
    """
    outcomes: dict[int, Outcome] = {}
    for row, outcome in _computed(job, points):
        outcomes[row] = outcome
        if outcome.record is not None:
            break
    return outcomes


def run_chunk(
    job: Job, number: int, points: Mapping[int, Mapping[str, Any]], known: Mapping[int, Outcome]
) -> Done:
    """Computes the points of a chunk and writes them: data first, then statuses.

    Args:
        job: the sweep.
        number: the number of the chunk.
        points: row → arguments, of the points to compute.
        known: row → outcome, of points that are computed already.

    Returns:
        The outcome.
    """
    store = _store(job.location, job.layout)
    first = number * store.chunk
    statuses = store.statuses(slice(first, first + store.chunk))
    # A worker of a killed client may have finished some of them meanwhile.
    begun = {r: statuses[r - first] for r in points if statuses[r - first].status != FINISHED}
    wanted = {row: points[row] for row in begun if row not in known}
    if wanted:
        for row in wanted:
            statuses[row - first] = Status(RUNNING, begun[row].attempt + 1, worker=_worker())
        store.write_statuses(first, statuses)
    outcomes = {**known, **dict(_computed(job, wanted))}
    schema, shared, records = store.schema, store.shared(), {}
    for row, before in begun.items():
        attempt = before.attempt + outcomes[row].attempts
        record, statuses[row - first] = _judged(outcomes[row], attempt, schema, shared)
        if record is not None:
            records[row] = record
    missing = _missing_lengths(store, statuses)
    if missing:
        return Done(known=outcomes, lengths=missing)
    store.write_data(first, first + len(statuses), records)
    storing.between_data_and_status()
    store.write_statuses(first, statuses)
    failed = {r: statuses[r - first].message for r in begun if r not in records}
    return Done(len(points) - len(failed), failed)


@functools.lru_cache(maxsize=1)  # reads the description of a store once, not for every chunk
def _store(location: str, layout: str) -> Store:
    """The client's store; raises if this worker does not find it, having other disks."""
    del layout  # only a key of the cache: it changes when the arrays change
    try:
        opened = Store(location, "r+")
    except StoreError:
        opened = None
    if opened is None or "chunk" not in opened.attrs:
        raise StoreError(
            f"store: got {location!r}, which the worker {_worker()} does not find; allowed is "
            "a location that all workers reach"
        )
    return opened


def _judged(
    outcome: Outcome, attempt: int, schema: Schema | None, shared: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray] | None, Status]:
    """The arrays of a record to store, and the status of its point."""
    status = Status(FAILED, attempt, outcome.seconds, outcome.worker, outcome.message)
    if outcome.record is None or schema is None:
        return None, status
    try:
        arrays = schema.arrays(outcome.record, shared)
    except Mismatch as error:
        return None, dataclasses.replace(status, message=str(error))
    lengths = {dim: int(outcome.record.sizes[dim]) for dim in schema.pad}
    differs = differing(outcome.record.attrs, schema.attrs)
    return arrays, dataclasses.replace(status, status=FINISHED, differs=differs, lengths=lengths)


def _missing_lengths(store: Store, statuses: list[Status]) -> dict[str, int]:
    """Dimension → length, of padded dimensions for which the store is too short."""
    schema, missing = store.schema, {}
    for dim in schema.pad if schema else ():
        length = max((status.lengths.get(dim, 0) for status in statuses), default=0)
        name, dims = next((n, f.dims) for n, f in schema.fields.items() if dim in f.dims)  # pyright: ignore
        if length > store.array(name).shape[1 + dims.index(dim)]:
            missing[dim] = length
    return missing


def _computed(job: Job, points: Mapping[int, Mapping[str, Any]]) -> Iterator[tuple[int, Outcome]]:
    function = unpacked(job.content)
    late = Store(job.location).late() if job.seconds is not None and points else set()
    for row, point in points.items():
        if row in late:
            yield row, Outcome(None, LATE.format(job.seconds), 0, float(job.seconds or 0))
            continue
        with _limited(job, row):
            outcome = _outcome(function, point, job.retries)
        yield row, outcome


def _outcome(function: Any, point: Mapping[str, Any], retries: int) -> Outcome:
    began = time.perf_counter()
    message = ""
    for attempt in range(1, retries + 2):  # a first attempt, and `retries` more
        try:
            record = function(**point)
            seconds = time.perf_counter() - began
            dataset = _dataset(record)
        except BaseException as error:  # of any kind: only this point fails
            message = _said(error)
            continue
        if dataset is not None:
            return Outcome(dataset, "", attempt, seconds)
        # Not retried: the next attempt would return the same type.
        return Outcome(None, f"returned {a_kind(record)}; allowed is {RETURNS}", attempt, seconds)
    return Outcome(None, message, retries + 1, time.perf_counter() - began)


def _said(error: BaseException) -> str:
    """The kind of an error and its first line, as far as it has one and UTF-8 can hold it."""
    try:
        text = str(error).strip()
    except Exception:  # users' own errors may have any fault
        text = ""
    line = ": ".join(filter(None, (type(error).__name__, text.partition("\n")[0])))
    return line[:LONGEST].encode(errors="replace").decode()


def _dataset(record: Any) -> xr.Dataset | None:
    """What a function returned, as a dataset; None if it is of a kind that is not allowed."""
    if isinstance(record, xr.Dataset):
        return record
    named = record if isinstance(record, Mapping) else {"value": record}
    # A masked number is missing; NumPy would make 0 of it.
    plain = {name: np.nan if value is np.ma.masked else value for name, value in named.items()}
    arrays = {name: np.asarray(value) for name, value in plain.items()}
    if not arrays or any(
        array.ndim or array.dtype.kind not in "biufU" for array in arrays.values()
    ):
        return None
    # One type for all numbers: a count may be NaN at another point.
    return xr.Dataset(
        {str(k): v.astype(float) if v.dtype.kind in "iuf" else v for k, v in arrays.items()}
    )


@contextlib.contextmanager
def _limited(job: Job, row: int) -> Iterator[None]:
    """Ends this process if a point takes too long: nothing else stops compiled code."""
    if job.seconds is None:
        yield
        return

    def expire() -> None:
        # First the mark: without it, the client would not know why the worker died, and would
        # try the point again.
        Store(job.location, "r+").mark_late(row)
        os._exit(1)

    timer = threading.Timer(job.seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
