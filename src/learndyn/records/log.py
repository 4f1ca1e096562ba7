"""The log of a recorder: rows of values, saved to a file now and then."""

import contextlib
import os
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from learndyn.records import Outcome, load, make_record, require_writable, save
from learndyn.records.table import Table

SAVED_EVERY = 10.0  # seconds between two saves while the loop runs
FINISHED = Outcome("finished", float("nan"))
_LOGS: "weakref.WeakValueDictionary[str, Log]" = (
    weakref.WeakValueDictionary()
)  # by file, to save the rest of a log before its file is opened again


class Log:
    """Rows of values, separate from the recorder, so that they can be saved after it is deleted.

    Args:
        path: the file to save to, or None.
        mode: "x" for a new file, "a" to continue the log in it, "w" to replace it.
        attributes: attributes of the record.
    """

    def __init__(self, path: str | None, mode: str, attributes: dict[str, Any]):
        self.path, self.attributes = path, attributes
        self.table, self.outcome, self.failed = Table(), FINISHED, {}
        self.probe_seconds, self._began, self._ended, self._earlier = 0.0, None, 0.0, 0.0
        if path is not None:
            self._open(path, mode)
        self.continues = len(self.table) > 0
        self._saved, self._written = time.perf_counter(), self._state()

    def _open(self, path: str, mode: str) -> None:
        require_writable(path)
        place = os.path.realpath(path)
        if place in _LOGS:  # another recorder that has not saved everything yet
            _LOGS[place].save()
        if mode == "x" and os.path.exists(path):
            raise ValueError(
                f"path: got {path!r}, which exists; allowed is a new file, mode='a' to continue "
                "the log in it, or mode='w' to replace it"
            )
        if mode == "a" and os.path.exists(path):
            self._continue(path, load(path))
        _LOGS[place] = self

    def _continue(self, path: str, record: xr.Dataset) -> None:
        if record.attrs.get("engine") != "recorder":
            came = f"path: got {path!r}, which no Recorder wrote, with mode='a'"
            raise ValueError(f"{came}; allowed is the log of a Recorder")
        self.table = Table.of(record)
        self.outcome = Outcome(str(record["outcome"][0].item()), record["diverged_at"][0].item())
        self.attributes = {**record.attrs, **self.attributes}
        self.probe_seconds = record.attrs["probe_seconds"]
        self._earlier = record.attrs["wall_seconds"]
        self.failed = {"": record.attrs["failed"]} if "failed" in record.attrs else {}

    def go_on(self, step: int) -> None:
        """Continues the log at a step; rows recorded from there on are dropped.

        Raises:
            ValueError: for a step that would leave no rows in the log.
        """
        first = self.table.steps[0]
        if step <= first:
            allowed = f"a step above {first}, the first in the log, or mode='w' to replace it"
            raise ValueError(f"step: got {step} with mode='a'; allowed is {allowed}")
        self.table.cut(step)
        if not self.outcome.at < step:  # it was interrupted, or diverged in the dropped rows
            self.outcome = FINISHED
        self.continues = False

    def tick(self) -> None:
        """Notes that the loop is running."""
        self._ended = time.perf_counter()
        self._began = self._ended if self._began is None else self._began

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Adds the duration of a block to that of the probes."""
        clock = time.perf_counter()
        try:
            yield
        finally:
            self.probe_seconds += time.perf_counter() - clock

    def interrupt(self) -> None:
        """Notes that the loop ended by an error."""
        if self.outcome.what == "finished":
            self.outcome = Outcome("interrupted", float("nan"))

    def record(self) -> xr.Dataset:
        """All rows as a record."""
        if not len(self.table):
            raise ValueError("record: got no steps; allowed is a recorder that was called")
        steps = np.array(self.table.steps)
        record = make_record(
            self.table.variables(),
            times=steps.astype(np.float64),
            steps=steps,
            time_unit="steps",
            lead={"run": 1},
            outcomes=[self.outcome],
            attributes=self._about(),
        )
        return record.assign_attrs({**self.attributes, **record.attrs})

    def _about(self) -> dict[str, Any]:
        wall = self._earlier + self._ended - (self._began or 0.0)
        about = {
            "engine": "recorder",
            "wall_seconds": wall,
            "probe_seconds": self.probe_seconds,
            "probe_share": self.probe_seconds / max(wall, 1e-9),
        }
        gaps = "; ".join(self.failed.values())
        return about | ({"failed": gaps} if gaps else {})

    def save_now_and_then(self) -> None:
        """Saves, unless that was done within the last seconds."""
        if time.perf_counter() - self._saved > SAVED_EVERY:
            self.save()

    def save(self) -> None:
        """Saves, if there is a path and something new."""
        if self.path is not None and len(self.table) and self._written != self._state():
            save(self.record(), self.path)
            self._saved, self._written = time.perf_counter(), self._state()

    def _state(self) -> tuple[int, int, str]:
        rows = len(self.table)
        return rows, self.table.steps[-1] if rows else -1, self.outcome.what
