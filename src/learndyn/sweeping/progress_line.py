"""The progress line of a sweep: done, failed, left, rate, time left."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich import progress as rich_progress

from learndyn.runtime.log import logged
from learndyn.runtime.progress import clock, is_live, lines

ShowCounts = Callable[[int, int, int], None]
Report = Callable[[float], None]
SILENT = 60.0  # seconds without a finished point after which no time left is estimated


@contextlib.contextmanager
def showing_progress(progress: bool | Report) -> Iterator[ShowCounts]:
    """Shows the progress of a sweep while the block runs, and logs its beginning and end.

    Args:
        progress: True shows a line, or one every half minute if the output is not a terminal;
            False shows nothing; a function is called with the fraction done.

    Yields:
        A function to call with the numbers of finished, failed and all points.
    """
    with logged("sweep"), _shown(progress) as show:
        yield show


@contextlib.contextmanager
def _shown(progress: bool | Report) -> Iterator[ShowCounts]:
    if callable(progress):
        yield lambda finished, failed, total: progress((finished + failed) / total)
    elif not progress:
        yield lambda finished, failed, total: None
    elif not is_live((shown := _line()).console):
        counts = _Counts()
        with lines(counts.line):
            yield counts
    else:
        with shown:
            yield _LiveLine(shown)


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


class _LiveLine:
    """Updates the line in a terminal or a notebook."""

    def __init__(self, shown: rich_progress.Progress):
        empty = {"done": 0, "failed": 0, "left": "?", "rate": ""}
        self._shown, self._task = shown, shown.add_task("sweep", total=None, **empty)
        self._pace = _Pace()

    def __call__(self, finished: int, failed: int, total: int) -> None:
        done = finished + failed
        self._pace(done)
        fields: dict[str, Any] = {"done": finished, "failed": failed, "left": total - done}
        fields["rate"] = self._pace.rate()
        self._shown.update(self._task, completed=done, total=total, **fields)


class _Pace:
    """The rate at which points end, without those done in earlier calls."""

    def __init__(self):
        self.began, self.before, self.done = time.monotonic(), -1, 0
        self.changed = self.began

    def __call__(self, done: int) -> None:
        if self.before < 0:
            self.began, self.before = time.monotonic(), done
        if done != self.done:
            self.done, self.changed = done, time.monotonic()

    def each(self) -> float | None:
        """Seconds per point; None if none has ended."""
        ended = self.done - self.before
        return (time.monotonic() - self.began) / ended if ended > 0 else None

    def rate(self) -> str:
        each = self.each()
        return "" if not each or time.monotonic() - self.began < 0.5 else f"{1 / each:.3g} points/s"


class _Counts:
    """Makes lines for an output that is not a terminal."""

    def __init__(self):
        self._counts, self._pace = (0, 0, 0), _Pace()

    def __call__(self, finished: int, failed: int, total: int) -> None:
        self._counts = finished, failed, total
        self._pace(finished + failed)

    def line(self) -> str:
        finished, failed, total = self._counts
        now, left, each = time.monotonic(), total - finished - failed, self._pace.each()
        words = [f"sweep: {finished} done, {failed} failed, {left} left", self._pace.rate()]
        words += [f"{clock(now - self._pace.began)} elapsed"]
        if left and now - self._pace.changed > SILENT:
            words += [f"none has ended for {clock(now - self._pace.changed)}"]
        else:
            words += [f"{clock(each * left if each else 0 if not left else None)} left"]
        return ", ".join(word for word in words if word)
