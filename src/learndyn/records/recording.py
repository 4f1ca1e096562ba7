"""What is kept of trajectories at the asked times: one way for theories and for networks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Values = Mapping[str, np.ndarray]


class Variable(NamedTuple):
    """How a record labels an observable."""

    dims: tuple[str, ...]
    long_name: str
    unit: str


class Outcome(NamedTuple):
    """How a trajectory ended: "finished", "diverged" or "tolerance not reached", and when.

    `at` is the time at which it was found so, NaN for one that finished.
    """

    what: str
    at: float


FINISHED = Outcome("finished", float("nan"))


class Recording:
    """Values at the asked times; from where a trajectory has diverged on there are none.

    Args:
        lead: dimension → size, of trajectories side by side: {"run": 10}, or {} for one alone.
        times: the asked times.
        labels: name → label; what has none is labelled by its name.
    """

    def __init__(self, lead: Mapping[str, int], times: np.ndarray, labels: Mapping[str, Variable]):
        self.lead, self.times, self._labels = dict(lead), times, dict(labels)
        shape = tuple(lead.values())
        self._values: dict[str, np.ndarray] = {}
        self._lost = np.full(shape, len(times))  # the index from which on there is nothing
        self._ends = np.full(shape, np.nan)
        self._how = np.full(shape, "diverged", dtype=object)

    def take(self, place: tuple[Any, ...], first: int, values: Values, gone: np.ndarray) -> bool:
        """Keeps what was read of some trajectories at some of the times.

        Args:
            place: which trajectories: indices or slices, as many as there are leading dimensions.
            first: the index of the first of the times.
            values: name → (trajectories, times, …).
            gone: where they have diverged, (trajectories, times).

        Returns:
            Whether one of them goes on.
        """
        lost, count = self._lost[place], gone.shape[-1]
        index = np.arange(first, first + count)
        found = np.min(np.where(gone, index, len(self.times)), axis=-1, initial=len(self.times))
        self._lost[place] = lost = np.minimum(lost, found)
        kept = index < np.asarray(lost)[..., None]
        at = (slice(None),) * (gone.ndim - 1) + (slice(first, first + count),)
        for name, value in values.items():
            self._of(name, value.shape[gone.ndim :])[place][at][kept] = np.where(
                np.isfinite(value[kept]), value[kept], np.nan
            )
        return bool(np.any(lost == len(self.times)))

    def end(self, place: tuple[Any, ...], outcome: Outcome) -> None:
        """Says how and when a trajectory ended, where that is known better than by its times."""
        self._how[place], self._ends[place] = outcome
        later = int(np.searchsorted(self.times, outcome.at, side="right"))
        self._lost[place] = min(self._lost[place], later)
        for values in self._values.values():
            values[place][later:] = np.nan

    def _of(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in self._values:
            blank = np.full((*self._lost.shape, len(self.times), *shape), np.nan)
            return self._values.setdefault(name, blank)  # another thread may have been faster
        return self._values[name]

    @property
    def outcomes(self) -> list[Outcome]:
        """How each trajectory ended, the last dimension fastest."""
        found = []
        for lost, end, how in zip(
            self._lost.ravel(), self._ends.ravel(), self._how.ravel(), strict=True
        ):
            if lost == len(self.times) and np.isnan(end):
                found.append(FINISHED)
            else:
                at = self.times[lost] if np.isnan(end) else end
                found.append(Outcome(str(how), float(at)))
        return found

    def variables(self) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
        """The variables of the record: name → (dimensions, values, attributes)."""
        found = {}
        for name, values in self._values.items():
            extra = values.ndim - self._lost.ndim - 1
            own = Variable(tuple(f"{name}_{i}" for i in range(extra)), name, "")
            label = self._labels.get(name, own)
            text = {"long_name": label.long_name, "units": label.unit}
            found[name] = ((*self.lead, "time", *label.dims), values, text)
        return found
