"""What a recorder keeps."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from learndyn.records import Outcome, Recording, make_record, save

SAVED_EVERY = 10.0  # seconds between two savings while the loop runs


class Log:
    """Rows of values, apart from the recorder, so that they can be saved when it is gone.

    Args:
        path: the file to save to, or None.
        attributes: of the record.
    """

    def __init__(self, path: str | os.PathLike | None, attributes: dict[str, Any]):
        self.path, self.attributes, self.rows, self.failed = path, attributes, [], {}
        self.outcome, self.seconds = Outcome("finished", float("nan")), 0.0
        self.began, self.ended = None, 0.0
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._saved, self._written = time.perf_counter(), -1

    def tick(self) -> None:
        """The loop is running."""
        self.ended = time.perf_counter()
        self.began = self.ended if self.began is None else self.began

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Adds the seconds of a block to those of the probes."""
        clock = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - clock

    def has(self, name: str) -> bool:
        """Whether there was a value of this name."""
        return name in self.shapes

    def add(self, step: int, values: dict[str, np.ndarray]) -> None:
        """Keeps the values of a step."""
        for name, value in values.items():
            before = self.shapes.setdefault(name, value.shape)
            if value.shape != before:
                raise ValueError(f"{name}: got shape {value.shape}; allowed is {before}, as before")
        self.rows.append((step, values))

    def diverge(self, step: int) -> None:
        """Nothing comes after this step."""
        self.outcome = Outcome("diverged", float(step))
        self.rows.append((step, {}))

    def interrupt(self) -> None:
        """The loop ended by an error."""
        if self.outcome.what == "finished":
            self.outcome = Outcome("interrupted", float("nan"))

    def record(self) -> xr.Dataset:
        """All rows as a record."""
        if not self.rows:
            raise ValueError("record: got no steps; allowed is a recorder that was called")
        steps = np.array([step for step, _ in self.rows])
        blank = {name: np.full(shape, np.nan) for name, shape in self.shapes.items()}
        recording = Recording({"run": 1}, steps.astype(np.float64), {})
        for i, (_, values) in enumerate(self.rows):
            row = {name: np.asarray(v)[None, None] for name, v in (blank | values).items()}
            gone = self.outcome.what == "diverged" and i == len(self.rows) - 1
            recording.take((slice(0, 1),), i, row, np.array([[gone]]))
        return make_record(
            recording.variables(),
            times=steps.astype(np.float64),
            steps=steps,
            time_unit="steps",
            lead=recording.lead,
            outcomes=[self.outcome],
            attributes=self._about(),
        )

    def _about(self) -> dict[str, Any]:
        wall = self.ended - (self.began or 0.0)
        about = {
            **self.attributes,
            "engine": "recorder",
            "wall_seconds": wall,
            "probe_seconds": self.seconds,
            "probe_share": self.seconds / max(wall, 1e-9),
        }
        gaps = "; ".join(f"{name} ({why})" for name, why in self.failed.items())
        return about | ({"failed": gaps} if gaps else {})

    def save_now_and_then(self) -> None:
        """Saves, if it was not done of late."""
        if time.perf_counter() - self._saved > SAVED_EVERY:
            self.save()

    def save(self) -> None:
        """Saves, if there is a path and anything new."""
        if self.path is not None and len(self.rows) and self._written != self._state():
            save(self.record(), self.path)
            self._saved, self._written = time.perf_counter(), self._state()

    def _state(self) -> tuple[int, str]:
        return len(self.rows), self.outcome.what
