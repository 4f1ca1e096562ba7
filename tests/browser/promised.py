"""Times that are promised on a machine that does nothing else."""

import time
from collections.abc import Callable

ATTEMPTS = 4
BUSY_SECONDS = 0.05  # of the processor, to see how long that takes


def held_up() -> float:
    """How much longer than alone something takes now, because others use the processors."""
    wall, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < BUSY_SECONDS:
        pass
    return max(1.0, (time.monotonic() - wall) / BUSY_SECONDS)


def soon(seconds: float, measure: Callable[[], float]) -> None:
    """That something takes at most so long, in one of a few attempts.

    On a machine that others use too, each process of those that hand work to one another takes
    longer by as much as anything does, and begins as much later.
    """
    tries = []
    for _ in range(ATTEMPTS):
        before = held_up()
        tries.append((measure(), max(before, held_up())))
        if tries[-1][0] <= seconds * tries[-1][1] ** 2:
            return
    raise AssertionError(f"promised within {seconds} s; seconds, and times held up: {tries}")
