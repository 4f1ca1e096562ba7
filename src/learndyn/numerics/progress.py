"""Progress of long work, with the time left."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from rich import progress as rich_progress

from learndyn.numerics.checks import flag
from learndyn.numerics.types import Array

Report = Callable[[float], None]


@contextlib.contextmanager
def reporting(progress: bool | Report, what: str) -> Iterator[Report]:
    """A function that takes the fraction done.

    Args:
        progress: True shows a bar, False shows nothing, a function is called itself.
        what: the work, in a word or two.

    Yields:
        The function.
    """
    if callable(progress):
        yield progress
    elif not flag("progress", progress):
        yield lambda fraction: None
    else:
        with bar() as shown:
            task = shown.add_task(what, total=1.0)
            yield lambda fraction: shown.update(task, completed=fraction)


def bar() -> rich_progress.Progress:
    """A progress bar with elapsed time and time left."""
    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("elapsed,"),
        rich_progress.TimeRemainingColumn(),
        rich_progress.TextColumn("left"),
    )


class Counter:
    """Counts work from several threads and reports the fraction done."""

    def __init__(self, total: int, report: Report):
        self._total, self._report = max(total, 1), report
        self._done, self._lock = 0, threading.Lock()

    def __call__(self, amount: int) -> None:
        with self._lock:
            self._done += amount
            self._report(self._done / self._total)


_REPORTS: dict[int, Report] = {}
_NUMBERS = itertools.count()
SHOWN = 0.01  # the least increase of the fraction done that is shown


class Meter(diffrax.AbstractProgressMeter):
    """Reports how far an integration is, out of the compiled program.

    Args:
        number: of a report, as `metered` gives it: traced, so that nothing compiles anew.
    """

    number: Array

    def init(self) -> Array:
        """The fraction that was last shown."""
        return jnp.zeros(())

    def step(self, state: Array, progress: Array) -> Array:
        """Shows the fraction done where it has grown enough."""
        show = lambda: jax.debug.callback(_show, self.number, progress)
        jax.lax.cond(progress - state > SHOWN, show, lambda: None)
        return jnp.where(progress - state > SHOWN, progress, state)

    def close(self, state: Array) -> None:
        """Nothing is left open."""


@contextlib.contextmanager
def metered(report: Report | None) -> Iterator[Meter | None]:
    """A meter for an integration, where there is someone to report to."""
    if report is None:
        yield None
        return
    number = next(_NUMBERS)
    _REPORTS[number] = report
    try:
        yield Meter(np.asarray(number))
        jax.effects_barrier()  # the last word of a compiled program may come late
    finally:
        del _REPORTS[number]


def _show(number: Any, progress: Any) -> None:
    _REPORTS.get(int(number), lambda fraction: None)(float(progress))
