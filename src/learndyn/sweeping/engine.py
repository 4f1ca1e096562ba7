"""Submits chunks to workers, a few at a time, until every point has finished or failed."""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dask.base import get_annotations
from distributed import Client, KilledWorker, as_completed

from learndyn.sweeping.points import Grid
from learndyn.sweeping.schema import Schema
from learndyn.sweeping.store import FINISHED, Store
from learndyn.sweeping.task import Done, Job, Outcome, run_chunk, try_points

SECONDS, BYTES = 2.0, 2**26  # of a chunk
PIECES = 8  # chunks a worker, at least, where there are points enough
FIRST = 16  # points that one task may try, to find one that finishes
AHEAD = 4  # chunks a thread that are submitted before they can run
DIED = "its worker died, each time that it was tried (killed, for want of memory perhaps)"

Told = Callable[[int, int, int], None]  # finished, failed, all


@dataclasses.dataclass
class Engine:
    """One call of a sweep.

    Attributes:
        store: held by this process.
        grid: its points.
        job: what workers are told.
        seeded: whether points get a key of their own.
        client: to submit to.
        told: takes the numbers of points that finished, that failed, and of all.
        renew: says from time to time that this process still holds the store.
    """

    store: Store
    grid: Grid
    job: Job
    seeded: bool
    client: Client
    told: Told
    renew: Callable[[Store], None]

    def run(self, chunk: int | None, pad: Sequence[str]) -> None:
        """Computes what is missing; points that failed in an earlier call are tried again."""
        statuses = self.store.statuses(count=len(self.grid))
        self.store.forget_late()
        self.finished = sum(status.status == FINISHED for status in statuses)
        self.failed: dict[int, str] = {}
        missing = [row for row, status in enumerate(statuses) if status.status != FINISHED]
        self._tell()
        if missing:
            known = self._begin(missing, chunk, pad) if self.store.schema is None else {}
            self._chunks(missing, known)
            self.store.forget_late()

    def _points(self, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
        seed = lambda row: {"key": self.grid.key(row)} if self.seeded else {}
        return {row: {**self.grid.point(row), **seed(row)} for row in rows}

    def _submit(self, task: Callable[..., Any], *arguments: Any) -> Any:
        resources = get_annotations().get("resources")
        # A key of its own: Dask would else take a call like an earlier one for the same.
        return self.client.submit(task, self.job, *arguments, pure=False, resources=resources)

    def _begin(self, missing: list[int], chunk: int | None, pad) -> dict[int, Outcome]:
        """Tries points until one finishes, which fixes the schema and the size of a chunk."""
        known: dict[int, Outcome] = {}
        rows = iter(missing)
        # The first finished one compiles, a second one tells the time, where that matters.
        enough = 2 if chunk is None and self._largest() > 1 else 1
        while batch := list(itertools.islice(rows, FIRST)):
            while batch and not _records(known):
                known |= self._tried(batch, enough)
                batch = [row for row in batch if row not in known]
            if _records(known):
                break
        records = _records(known)
        schema = None
        if records:
            schema = Schema.of(records[0], pad, list(self.grid.axes))
        self.store.lay_out(schema, len(self.grid), chunk or self._size(known, schema))
        if schema:
            fields = schema.fields.items()
            shared = {name: records[0][name].values for name, f in fields if f.shared}
            self.store.share(shared, schema)
        return known

    def _size(self, known: Mapping[int, Outcome], schema: Schema | None) -> int:
        """Points a chunk: about two seconds of them, as the fastest of the first says."""
        fastest = min((o.seconds for o in known.values() if o.record is not None), default=1.0)
        largest = self._largest()
        room = BYTES // max(schema.point_bytes(), 1) if schema else largest
        return max(1, min(round(SECONDS / max(fastest, 1e-6)), largest, room))

    def _largest(self) -> int:
        """Points a chunk with which every worker still has its share of chunks."""
        return -(-len(self.grid) // (PIECES * max(self._threads(), 1)))

    def _tried(self, rows: list[int], enough: int) -> dict[int, Outcome]:
        """Points that are not written yet; one that ends its workers is found and has failed."""
        found = self._outcomes(rows, enough)
        if found is None:
            found = self._outcomes(rows[:1], enough)
        return {rows[0]: Outcome(None, DIED, 0, 0.0, "")} if found is None else found

    def _outcomes(self, rows: list[int], enough: int) -> dict[int, Outcome] | None:
        """What points gave; None where their worker died."""
        try:
            return self._submit(try_points, self._points(rows), enough).result()
        except KilledWorker:
            return None

    def _threads(self) -> int:
        threads: Any = self.client.nthreads()
        return sum(threads.values())

    def _chunks(self, missing: list[int], known: dict[int, Outcome]) -> None:
        size = self.store.chunk
        queue = collections.deque(
            (number, list(rows)) for number, rows in itertools.groupby(missing, lambda r: r // size)
        )
        suspects = []
        for rows, future in self._flying(queue, known):
            if future.status == "error" and isinstance(future.exception(), KilledWorker):
                suspects.append(rows)
                continue
            self._take(future.result(), rows)
        for rows in suspects:  # one point at a time: no other chunk dies with it
            found = {row: self._tried([row], 1)[row] for row in rows}
            self._take(self._written(rows, found).result(), rows)

    def _flying(self, queue: Any, known: dict[int, Outcome]) -> Iterator[tuple[list[int], Any]]:
        """Futures as they are done, a few for each thread submitted ahead."""
        flying: dict[Any, list[int]] = {}
        done = as_completed(raise_errors=False)
        try:
            while queue or flying:
                room = AHEAD * max(self._threads(), 1) - len(flying)
                for _ in range(min(room, len(queue))):
                    _, rows = queue.popleft()
                    mine = {row: known.pop(row) for row in rows if row in known}
                    future = self._written(rows, mine)
                    flying[future] = rows
                    done.add(future)
                future = next(done)
                yield flying.pop(future), future
        finally:
            self.client.cancel(list(flying), force=True)

    def _written(self, rows: list[int], known: Mapping[int, Outcome]) -> Any:
        return self._submit(run_chunk, rows[0] // self.store.chunk, self._points(rows), known)

    def _take(self, done: Done, rows: list[int]) -> None:
        while done.lengths:
            self.store.grow(len(self.grid), done.lengths)
            self.job = self.job.grown()
            done = self._written(rows, done.known).result()
        self.finished += done.finished
        self.failed |= done.failed
        self.renew(self.store)
        self._tell()

    def _tell(self) -> None:
        self.told(self.finished, len(self.failed), len(self.grid))


def _records(known: Mapping[int, Outcome]) -> list[Any]:
    return [outcome.record for outcome in known.values() if outcome.record is not None]
