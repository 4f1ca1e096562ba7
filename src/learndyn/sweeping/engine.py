"""Submits chunks to workers, a few at a time, until every point has finished or failed.

The first points are computed by *scouts*: tasks that write nothing, because the schema and the size
of a chunk are only known once a point has finished.
"""

import collections
import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dask.base import get_annotations
from distributed import Client, KilledWorker, as_completed, wait

from learndyn.sweeping.points import Grid
from learndyn.sweeping.schema import Schema
from learndyn.sweeping.store import FINISHED, RUNNING, Store
from learndyn.sweeping.task import Done, Job, Outcome, run_chunk, try_points

SECONDS, BYTES = 2.0, 2**26  # intended duration and largest size of a chunk
PIECES = 8  # smallest number of chunks per worker, if there are enough points
FIRST = 16  # points that one scout may try, to find one that finishes
PATIENCE = 10.0  # seconds to wait for a first point before others are tried at the same time
DIED = "its worker died, each time that it was tried (killed, for want of memory perhaps)"

ShowCounts = Callable[[int, int, int], None]  # finished, failed, all


@dataclasses.dataclass
class Engine:
    """One call of a sweep.

    Attributes:
        store: the store, locked by this process.
        grid: its points.
        job: what all tasks share.
        seeded: whether every point gets a key of its own.
        client: the client to submit to.
        show_counts: called with the numbers of finished, failed and all points.
        renew: renews the lock of the store from time to time.
    """

    store: Store
    grid: Grid
    job: Job
    seeded: bool
    client: Client
    show_counts: ShowCounts
    renew: Callable[[Store], None]

    def run(self, chunk: int | None, pad: Sequence[str]) -> None:
        """Computes all points that have not finished; failed ones are tried again."""
        statuses = self.store.statuses(count=len(self.grid))
        self.store.forget_late()
        self.finished = sum(status.status == FINISHED for status in statuses)
        self.failed: dict[int, str] = {}
        self.scouts: dict[Any, list[int]] = {}  # task → rows; see the top of the file
        self.compiled: Sequence[str] = ()  # addresses of the workers that computed the last point
        missing = [row for row, status in enumerate(statuses) if status.status != FINISHED]
        self._tell()
        if missing:
            known = self._begin(missing, chunk, pad) if self.store.schema is None else {}
            scouted = self._scouted()
            self._chunks([row for row in missing if row not in scouted], known)
            self._rest()
            self.store.forget_late()

    def _points(self, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
        seed = lambda row: {"key": self.grid.key(row)} if self.seeded else {}
        return {row: {**self.grid.point(row), **seed(row)} for row in rows}

    def _submit(self, task: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        options["resources"] = get_annotations().get("resources")
        # Not pure: Dask would otherwise reuse the result of an equal earlier call.
        return self.client.submit(task, self.job, *arguments, pure=False, **options)

    def _begin(self, missing: list[int], chunk: int | None, pad) -> dict[int, Outcome]:
        """Tries points until one finishes, which fixes the schema and the size of a chunk."""
        known = self._first(collections.deque(missing))
        tried = (known[row].record for row in sorted(known))
        records = [record for record in tried if record is not None]
        if records and chunk is None and self._largest() > 1:
            rest = [row for row in missing if row not in known and row not in self._scouted()]
            known |= self._timed(rest[:FIRST])
        schema = None
        if records:
            schema = Schema.of(records[0], pad, list(self.grid.axes))
        self.store.lay_out(schema, len(self.grid), chunk or self._size(known, schema))
        if schema:
            fields = schema.fields.items()
            shared = {name: records[0][name].values for name, f in fields if f.shared}
            self.store.share(shared, schema)
        return known

    def _first(self, left: collections.deque[int]) -> dict[int, Outcome]:
        """Tries points one after the other until one finishes; in parallel if that takes long.

        Args:
            left: rows to try.

        Returns:
            Row → outcome. Tasks that have not ended are in `scouts`.
        """
        known: dict[int, Outcome] = {}
        together = 1
        while (left or self.scouts) and not _finished(known):
            while left and len(self.scouts) < together:
                size = FIRST if known else 1  # once some have failed, which is fast, many per task
                self._scout([left.popleft() for _ in range(min(size, len(left)))])
            ended = self._ended(PATIENCE)
            known |= ended
            together = 1 if ended else max(self._threads(), 1)
        return known

    def _timed(self, rows: list[int]) -> dict[int, Outcome]:
        """Times points on a worker that has compiled, for as long as a chunk should take."""
        known: dict[int, Outcome] = {}
        end = time.monotonic() + SECONDS
        for row in rows:
            if _finished(known) or time.monotonic() > end:
                break
            self._scout([row], self.compiled)
            known |= self._ended(SECONDS)
        return known

    def _scout(self, rows: list[int], workers: Sequence[str] = ()) -> None:
        options = {"workers": list(workers), "allow_other_workers": True} if workers else {}
        self.scouts[self._submit(try_points, self._points(rows), **options)] = rows

    def _scouted(self) -> set[int]:
        return {row for rows in self.scouts.values() for row in rows}

    def _ended(self, seconds: float) -> dict[int, Outcome]:
        """The outcomes of scouts that end within some seconds."""
        with contextlib.suppress(TimeoutError):
            wait(list(self.scouts), timeout=seconds, return_when="FIRST_COMPLETED")
        outcomes: dict[int, Outcome] = {}
        for future in [future for future in self.scouts if future.done()]:
            self.compiled = next(iter(self.client.who_has([future]).values()), ())  # pyright: ignore
            outcomes |= self._outcomes(future, self.scouts.pop(future))
        return outcomes

    def _outcomes(self, future: Any, rows: list[int]) -> dict[int, Outcome]:
        """The outcomes of points; one that kills its worker is identified, and has failed."""
        try:
            return future.result()
        except KilledWorker:
            return {row: self._alone(row, rounds=1 if len(rows) == 1 else 2) for row in rows}

    def _alone(self, row: int, rounds: int = 2) -> Outcome:
        """Computes a point in a task of its own, so that no other point dies with it.

        It is tried more than once: its worker may be one that another point was just killing.
        """
        for _ in range(rounds):
            with contextlib.suppress(KilledWorker):
                return self._submit(try_points, self._points([row])).result()[row]
        return Outcome(None, DIED, 0, 0.0, "")

    def _size(self, known: Mapping[int, Outcome], schema: Schema | None) -> int:
        """Points per chunk: about two seconds' worth, by the fastest of the first points."""
        fastest = min((o.seconds for o in known.values() if o.record is not None), default=1.0)
        largest = self._largest()
        fit = BYTES // max(schema.point_bytes(), 1) if schema else largest
        return max(1, min(round(SECONDS / max(fastest, 1e-6)), largest, fit))

    def _largest(self) -> int:
        """The largest number of points per chunk that leaves PIECES chunks for every worker."""
        return -(-len(self.grid) // (PIECES * max(self._threads(), 1)))

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
        for rows in suspects:  # one point at a time, so that no other point dies with it
            outcomes = {row: self._alone(row) for row in rows}
            self._take(self._written(rows, outcomes).result(), rows)

    def _rest(self) -> None:
        """Writes the outcomes of slow scouts, now that no worker writes to their chunks."""
        if self.scouts:
            statuses = self.store.statuses()
            for row in self._scouted():
                statuses[row] = dataclasses.replace(statuses[row], status=RUNNING)
            self.store.write_statuses(0, statuses)
        while self.scouts:
            begun = list(self.scouts.values())
            outcomes = self._ended(PATIENCE)
            for rows in [rows for rows in begun if rows not in self.scouts.values()]:
                for _, part in itertools.groupby(rows, lambda row: row // self.store.chunk):
                    mine = list(part)
                    known = {row: outcomes[row] for row in mine if row in outcomes}
                    self._take(self._written(mine, known).result(), mine)

    def _flying(self, queue: Any, known: dict[int, Outcome]) -> Iterator[tuple[list[int], Any]]:
        """Futures as they complete, at most one per thread: none waits behind one that hangs."""
        flying: dict[Any, list[int]] = {}
        done = as_completed(raise_errors=False)
        try:
            while queue or flying:
                free = max(self._threads() - len(self.scouts), 1) - len(flying)
                for _ in range(min(free, len(queue))):
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
        self.show_counts(self.finished, len(self.failed), len(self.grid))


def _finished(known: Mapping[int, Outcome]) -> bool:
    return any(outcome.record is not None for outcome in known.values())
