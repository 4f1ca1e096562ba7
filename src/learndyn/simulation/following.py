"""The loop of all engines that take steps: in pieces, on threads, recording on the way."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from learndyn.records import Recording
from learndyn.runtime.pieces import Piece, nothing, pieces
from learndyn.runtime.precision import full_precision, products, to_numpy
from learndyn.simulation.parallel import in_threads

Advanced = Callable[[int], None]
Carried = Any  # the state that an engine carries from piece to piece
Values = dict[str, np.ndarray]
ROWS, ROW_NUMBERS = 256, 2**20  # largest number of times in a piece, and of values read in it


class Group(NamedTuple):
    """Runs of one start that are computed together, see `groups_of`."""

    start: int
    runs: slice

    def filled(self, width: int) -> slice:
        """The runs, padded to a width by further ones whose results are discarded."""
        return slice(self.runs.start, self.runs.start + width)


@runtime_checkable
class Engine(Protocol):
    """An engine that takes steps."""

    def begin(self, group: Group) -> Carried:
        """The state at step 0."""
        ...

    def record(self, carried: Carried, piece: Piece) -> tuple[Carried, tuple[Values, np.ndarray]]:
        """Takes the steps of a piece; reads values (runs, targets, …), and which have diverged."""
        ...

    def between(self, carried: Carried, place: int) -> tuple[Values, bool] | None:
        """Reads what can only be read between pieces, of the run at a place; None if nothing."""
        ...


def rows_of(values: Any, runs: int, between: bool) -> int:
    """The largest number of times in a piece.

    Args:
        values: what is read of one run, as shapes.
        runs: the number of runs read together.
        between: whether something is read between pieces, which then end at every time.

    Returns:
        The number. It limits the memory, and is independent of the requested times, so that other
        times do not compile again.
    """
    numbers = runs * sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(values))
    return 1 if between else min(ROWS, max(1, ROW_NUMBERS // max(numbers, 1)))


def follow(
    engine: Engine,
    groups: Iterator[Group],
    steps: np.ndarray,
    rows: int,
    recording: Recording,
    advanced: Advanced,
) -> float:
    """Takes all steps of all groups, and records at the requested ones.

    Args:
        engine: takes the steps.
        groups: the runs.
        steps: the requested step numbers, non-decreasing.
        rows: the largest number of them in a piece.
        recording: receives the values.
        advanced: called with the number of steps, of all runs, since its last call.

    Returns:
        Steps of all runs per second, without compilation.
    """
    with full_precision():  # compile once here rather than in every thread
        first = next(groups)
        jax.block_until_ready(engine.record(engine.begin(first), nothing(rows)))

    taken: list[int] = []
    precision = products()  # read in this thread: new threads have a configuration of their own

    def work(group: Group, stop: threading.Event) -> None:
        with full_precision(precision):
            runs, last = group.runs.stop - group.runs.start, int(steps[-1])
            carried = engine.begin(group)
            for piece in pieces(steps, rows):
                if stop.is_set():
                    return
                carried, read = jax.block_until_ready(engine.record(carried, piece))
                taken.append(piece.steps * runs)
                advanced(piece.steps * runs)
                # Once all runs have diverged nothing is left to do; the steps count as done, so
                # that the progress still ends at 100 %.
                if not _recorded(engine, recording, group, piece, carried, read):
                    advanced((last - int(piece.targets[-1])) * runs)
                    return

    clock = time.perf_counter()
    in_threads(work, itertools.chain([first], groups))
    return sum(taken) / max(time.perf_counter() - clock, 1e-9)


def _recorded(engine, recording: Recording, group: Group, piece: Piece, carried, read) -> bool:
    """Records what was read in a piece; returns whether any run has not diverged."""
    if not piece.kept:
        return True
    count = group.runs.stop - group.runs.start
    cut = lambda rows: np.asarray(rows)[:count, : piece.kept]
    values, gone = to_numpy(jax.tree.map(cut, read))
    for place in range(count):
        # Functions of users may fail on weights that have diverged.
        more = None if np.any(gone[place]) else engine.between(carried, place)
        if more is not None:
            values, gone = _joined(values, gone, place, *more)
    return recording.take((group.start, group.runs), piece.asked, values, gone)


def _joined(values: Values, gone: np.ndarray, place: int, more: dict, lost: bool):
    """Adds the values of one run that were read between pieces; a piece then has one time."""
    gone = gone.copy()  # arrays from JAX are read-only
    gone[place, 0] |= lost
    for name, value in more.items():
        blank = np.full((*gone.shape, *np.shape(value)), np.nan)
        values.setdefault(name, blank)[place, 0] = value
    return values, gone


def groups_of(starts: int, runs: int, width: int) -> Iterator[Group]:
    """Cuts the runs of every start into groups of at most `width` runs."""
    for start in range(starts):
        for first in range(0, runs, width):
            yield Group(start, slice(first, min(first + width, runs)))
