"""A line that lives: done, failed, left, rate, time left."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich import progress as rich_progress

Told = Callable[[int, int, int], None]
Report = Callable[[float], None]


@contextlib.contextmanager
def telling(progress: bool | Report) -> Iterator[Told]:
    """A function that takes the numbers of points that finished, that failed, and of all.

    Args:
        progress: True shows a line, False nothing; a function takes the fraction done.

    Yields:
        The function.
    """
    if callable(progress):
        yield lambda finished, failed, total: progress((finished + failed) / total)
    elif not progress:
        yield lambda finished, failed, total: None
    else:
        with _line() as shown:
            yield _Told(shown)


def _line() -> rich_progress.Progress:
    text = "done {task.fields[done]}  failed {task.fields[failed]}  left {task.fields[left]}"
    return rich_progress.Progress(
        rich_progress.BarColumn(bar_width=24),
        rich_progress.TextColumn(f"{text}  {{task.fields[rate]}}"),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("elapsed,"),
        rich_progress.TimeRemainingColumn(),
        rich_progress.TextColumn("left"),
    )


class _Told:
    def __init__(self, shown: rich_progress.Progress):
        empty = {"done": 0, "failed": 0, "left": "?", "rate": ""}
        self._shown, self._task = shown, shown.add_task("sweep", total=None, **empty)
        self._began: tuple[float, int] | None = None

    def __call__(self, finished: int, failed: int, total: int) -> None:
        done, now = finished + failed, time.monotonic()
        self._began = self._began or (now, done)
        passed = now - self._began[0]
        rate = f"{(done - self._began[1]) / passed:.3g} points/s" if passed > 0.5 else ""
        fields = {"done": finished, "failed": failed, "left": total - done, "rate": rate}
        self._shown.update(self._task, completed=done, total=total, **fields)
