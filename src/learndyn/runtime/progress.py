"""Progress of long computations, with the time left."""

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Iterator

from rich import progress as rich_progress
from rich.console import Console

from learndyn.runtime.checks import flag
from learndyn.runtime.interruption import on_interruption, was_interrupted
from learndyn.runtime.log import logged

Report = Callable[[float], None]
EVERY = 30.0  # seconds between two lines if the output is not a terminal


@contextlib.contextmanager
def reporting(progress: bool | Report, what: str) -> Iterator[Report]:
    """Shows progress while the block runs, and logs its beginning and end.

    Args:
        progress: True shows a bar, or a line every half minute if the output is not a terminal;
            False shows nothing; a function is called with the fraction done.
        what: the work, in a word or two.

    Yields:
        A function to call with the fraction done.
    """
    with logged(what), _shown(progress, what) as report:
        yield report


def check_progress(progress: bool | Report) -> None:
    """Raises a ValueError for what is neither a function nor True or False."""
    if not callable(progress):
        flag("progress", progress)


@contextlib.contextmanager
def _shown(progress: bool | Report, what: str) -> Iterator[Report]:
    if callable(progress):
        yield progress
    elif not flag("progress", progress):
        yield lambda fraction: None
    elif not is_live((shown := bar()).console):
        state = _Fraction(what)
        with lines(state.line):
            yield state
    else:
        with shown:
            on_interruption(shown.stop)
            task = shown.add_task(what, total=1.0)
            yield lambda fraction: shown.update(task, completed=fraction)


def is_live(console: Console) -> bool:
    """Whether a console can redraw what it shows: a terminal or a notebook can, a file cannot."""
    return console.is_terminal or console.is_jupyter


@contextlib.contextmanager
def lines(line: Callable[[], str]) -> Iterator[None]:
    """Prints a line every half minute, and one at the end unless the work raised an error.

    Args:
        line: returns the line to print.
    """
    over = threading.Event()

    def print_lines() -> None:
        # If the output was closed, the work continues all the same.
        with contextlib.suppress(OSError, ValueError):
            while not over.wait(EVERY):
                print(f"{line()}\n", end="", flush=True)

    on_interruption(over.set)
    threading.Thread(target=print_lines, daemon=True).start()
    try:
        yield
    finally:
        over.set()
    if not was_interrupted():
        print(line(), flush=True)


def clock(seconds: float | None) -> str:
    """A duration as hours, minutes and seconds."""
    return "-:--:--" if seconds is None else str(datetime.timedelta(seconds=round(seconds)))


class _Fraction:
    """Takes the fraction done, and describes the time elapsed and the time left."""

    def __init__(self, what: str):
        self._what, self._done, self._began = what, 0.0, time.monotonic()

    def __call__(self, fraction: float) -> None:
        self._done = float(fraction)

    def line(self) -> str:
        passed, done = time.monotonic() - self._began, self._done
        left = passed * (1 - done) / done if done > 0 else None
        return f"{self._what}: {done:.0%}, {clock(passed)} elapsed, {clock(left)} left"


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
