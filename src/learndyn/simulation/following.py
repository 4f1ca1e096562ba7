"""One loop for every engine that takes steps: in pieces, on threads, recording on the way."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from learndyn.numerics.pieces import Piece, nothing, pieces
from learndyn.numerics.precision import full_precision, products, to_numpy
from learndyn.records import Recording
from learndyn.simulation.parallel import in_threads

Advanced = Callable[[int], None]
Carried = Any  # what an engine carries from piece to piece
Values = dict[str, np.ndarray]
ROWS, ROW_NUMBERS = 256, 2**20  # times, and numbers of all of them, that one piece may hold


class Group(NamedTuple):
    """Runs of one start that are computed together."""

    start: int
    runs: slice

    def filled(self, width: int) -> slice:
        """The runs, filled up to a width by some that nobody asked for."""
        return slice(self.runs.start, self.runs.start + width)


@runtime_checkable
class Engine(Protocol):
    """What takes the steps."""

    def begin(self, group: Group) -> Carried:
        """What is carried, at step 0."""
        ...

    def record(self, carried: Carried, piece: Piece) -> tuple[Carried, tuple[Values, np.ndarray]]:
        """The steps of a piece: values (runs, targets, …), and which have diverged."""
        ...

    def between(self, carried: Carried, place: int) -> tuple[Values, bool] | None:
        """What can only be read between pieces, of the run at a place, where there is such."""
        ...


def rows_of(values: Any, runs: int, between: bool) -> int:
    """How many times one piece may hold.

    Args:
        values: what is read of one run, as shapes.
        runs: that are read together.
        between: whether something is read between pieces, which then end at every time.

    Returns:
        The number: it bounds the memory, and does not depend on the times that are asked for.
    """
    numbers = runs * sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(values))
    return 1 if between else min(ROWS, max(1, ROW_NUMBERS // max(numbers, 1)))


def follow(
    engine: Engine,
    groups: Sequence[Group],
    steps: np.ndarray,
    rows: int,
    recording: Recording,
    advanced: Advanced,
) -> float:
    """Takes all steps of all groups, and records at the asked ones.

    Args:
        engine: which takes the steps.
        groups: the runs.
        steps: non-decreasing step numbers.
        rows: how many of them one piece may hold.
        recording: takes what was read.
        advanced: called with the number of run·steps done since its last call.

    Returns:
        Steps of all runs a second, what was compiled before left out.
    """
    with full_precision():  # compiles here, once, rather than in every thread
        jax.block_until_ready(engine.record(engine.begin(groups[0]), nothing(rows)))

    taken: list[int] = []
    asked = products()  # in this thread: one that is begun has a configuration of its own

    def work(group: Group, stop: threading.Event) -> None:
        with full_precision(asked):
            runs, last = group.runs.stop - group.runs.start, int(steps[-1])
            for piece, carried, read in _pieces(engine, group, steps, rows, stop):
                taken.append(piece.steps * runs)
                advanced(piece.steps * runs)
                if not _kept(engine, recording, group, piece, carried, read):
                    advanced((last - int(piece.targets[-1])) * runs)
                    return

    clock = time.perf_counter()
    in_threads(work, groups)
    return sum(taken) / max(time.perf_counter() - clock, 1e-9)


def _pieces(engine: Engine, group: Group, steps: np.ndarray, rows: int, stop: threading.Event):
    carried = engine.begin(group)
    for piece in pieces(steps, rows):
        if stop.is_set():
            return
        carried, read = jax.block_until_ready(engine.record(carried, piece))
        yield piece, carried, read


def _kept(engine, recording: Recording, group: Group, piece: Piece, carried, read) -> bool:
    """Records what a piece gave; whether one of the runs goes on."""
    if not piece.kept:
        return True
    asked = group.runs.stop - group.runs.start
    cut = lambda rows: np.asarray(rows)[:asked, : piece.kept]
    values, gone = to_numpy(jax.tree.map(cut, read))
    for place in range(asked):
        # What has diverged is not shown to functions that may not bear it.
        more = None if np.any(gone[place]) else engine.between(carried, place)
        if more is not None:
            values, gone = _joined(values, gone, place, *more)
    return recording.take((group.start, group.runs), piece.asked, values, gone)


def _joined(values: Values, gone: np.ndarray, place: int, more: dict, lost: bool):
    """The same with what was read between pieces, of which each holds one time."""
    gone = gone.copy()  # what comes from JAX is read-only
    gone[place, 0] |= lost
    for name, value in more.items():
        blank = np.full((*gone.shape, *np.shape(value)), np.nan)
        values.setdefault(name, blank)[place, 0] = value
    return values, gone


def groups_of(starts: int, runs: int, width: int) -> Iterator[Group]:
    """Cuts the runs of every start into groups of a width."""
    for start in range(starts):
        for first in range(0, runs, width):
            yield Group(start, slice(first, min(first + width, runs)))
