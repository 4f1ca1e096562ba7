"""Collects the values of trajectories at the requested times, for theories and for networks."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Values = Mapping[str, np.ndarray]


class Variable(NamedTuple):
    """The label of an observable in a record.

    Attributes:
        dims: the names of its dimensions besides time.
        long_name: what it is, in a few words.
        unit: its unit; "" for a number.

    Example:
        >>> from learndyn.theory import Variable
        >>> Variable(("student", "teacher"), "student-teacher overlap", "").dims
        ('student', 'teacher')
    """

    dims: tuple[str, ...]
    long_name: str
    unit: str


class Rows(NamedTuple):
    """What a simulation has recorded of some runs at some times.

    `record[name][start, runs, times] = values[name]` for every name, over all rows of a simulation,
    gives the record. Values are NaN from the time on at which a run has diverged.

    Attributes:
        start: the number of the start.
        runs: the runs.
        times: indices of the requested times.
        values: name → (runs, times, …).

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "erf"))
        >>> system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))
        >>> def show(rows):
        ...     print(rows.start, rows.runs, rows.times, rows.values["error"].shape)
        >>> record = ld.simulate(system, [0, 1], runs=3, method="reduced", on_rows=show)
        0 slice(0, 3, None) slice(0, 2, None) (3, 2)
    """

    start: int
    runs: slice
    times: slice
    values: dict[str, np.ndarray]


OnRows = Callable[[Rows], object]


class Outcome(NamedTuple):
    """How a trajectory ended: "finished", "diverged" or "tolerance not reached", and when.

    `at` is the time at which this was detected, NaN if it finished.
    """

    what: str
    at: float


FINISHED = Outcome("finished", float("nan"))


class Recording:
    """Values at the requested times; NaN from the time on at which a trajectory has diverged.

    Args:
        lead: dimension → size, for several trajectories: {"run": 10}, or {} for a single one.
        times: the requested times.
        labels: name → label; variables without one are labelled by their names.
        on_rows: called with what is taken of a simulation, one call at a time.
    """

    def __init__(
        self,
        lead: Mapping[str, int],
        times: np.ndarray,
        labels: Mapping[str, Variable],
        on_rows: OnRows | None = None,
    ):
        self.lead, self.times, self._labels = dict(lead), times, dict(labels)
        shape = tuple(lead.values())
        self._values: dict[str, np.ndarray] = {}
        self._lost = np.full(shape, len(times))  # the index of the first time without values
        self._ends = np.full(shape, np.nan)
        self._how = np.full(shape, "diverged", dtype=object)
        self._on_rows, self._telling = on_rows, threading.Lock()

    def take(self, place: tuple[Any, ...], first: int, values: Values, gone: np.ndarray) -> bool:
        """Stores the values of some trajectories at some of the times.

        Args:
            place: which trajectories: one index or slice per leading dimension.
            first: the index of the first of these times.
            values: name → (trajectories, times, …).
            gone: whether they have diverged, (trajectories, times).

        Returns:
            Whether any of them has not diverged.
        """
        lost, count = self._lost[place], gone.shape[-1]
        index = np.arange(first, first + count)
        earliest = np.min(np.where(gone, index, len(self.times)), axis=-1, initial=len(self.times))
        self._lost[place] = lost = np.minimum(lost, earliest)
        kept = index < np.asarray(lost)[..., None]
        at = (slice(None),) * (gone.ndim - 1) + (slice(first, first + count),)
        for name, value in values.items():
            self._of(name, value.shape[gone.ndim :])[place][at][kept] = np.where(
                np.isfinite(value[kept]), value[kept], np.nan
            )
        if self._on_rows is not None:
            start, runs = place
            self._tell(self._on_rows, start, runs, slice(first, first + count), list(values))
        return bool(np.any(lost == len(self.times)))

    def end(self, place: tuple[Any, ...], outcome: Outcome) -> None:
        """Sets how and when a trajectory ended, if that is known better than by the times."""
        self._how[place], self._ends[place] = outcome
        later = int(np.searchsorted(self.times, outcome.at, side="right"))
        self._lost[place] = min(self._lost[place], later)
        for values in self._values.values():
            values[place][later:] = np.nan

    def _tell(self, on_rows: OnRows, start: int, runs: Any, times: slice, names: list[str]) -> None:
        runs = runs if isinstance(runs, slice) else slice(runs, runs + 1)
        values = {name: self._values[name][start, runs, times].copy() for name in names}
        with self._telling:
            on_rows(Rows(start, runs, times, values))

    def _of(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in self._values:
            blank = np.full((*self._lost.shape, len(self.times), *shape), np.nan)
            return self._values.setdefault(
                name, blank
            )  # another thread may have added it meanwhile
        return self._values[name]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome of each trajectory, in C order of the leading dimensions."""
        outcomes = []
        for lost, end, how in zip(
            self._lost.ravel(), self._ends.ravel(), self._how.ravel(), strict=True
        ):
            if lost == len(self.times) and np.isnan(end):
                outcomes.append(FINISHED)
            else:
                at = self.times[lost] if np.isnan(end) else end
                outcomes.append(Outcome(str(how), float(at)))
        return outcomes

    def variables(self) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
        """The variables of the record: name → (dimensions, values, attributes)."""
        variables = {}
        for name, values in self._values.items():
            extra = values.ndim - self._lost.ndim - 1
            own = Variable(tuple(f"{name}_{i}" for i in range(extra)), name, "")
            label = self._labels.get(name, own)
            text = {"long_name": label.long_name, "units": label.unit}
            variables[name] = ((*self.lead, "time", *label.dims), values, text)
        return variables
