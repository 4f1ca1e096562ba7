"""Progress of long work, with the time left."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from rich import progress as rich_progress

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
    elif not progress:
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
