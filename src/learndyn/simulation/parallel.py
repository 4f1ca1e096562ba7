"""Where runs are computed: in groups, on threads, and over all devices."""

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from learndyn.numerics.interruption import interrupted, left_behind
from learndyn.numerics.pieces import PIECE_SECONDS

LOOK_SECONDS = 0.1  # between two looks at what became of other threads
GRACE_SECONDS = 4 * PIECE_SECONDS  # that threads have to end in, once told to

Tree = TypeVar("Tree")
Part = TypeVar("Part")


def cores() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def on_one_cpu() -> bool:
    """Whether the only device is the CPU, where groups of runs go to threads."""
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def rounded_up(number: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-number // unit) * unit


def spread(tree: Tree, axis: int) -> Tree:
    """Puts the axis `axis` of every leaf across all devices, where there are several."""
    if jax.device_count() == 1:
        return tree
    mesh = Mesh(np.asarray(jax.devices()), ("runs",))

    def place(leaf):
        names: list[str | None] = [None] * leaf.ndim
        names[axis] = "runs"
        return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*names)))

    return jax.tree.map(place, tree)


def in_threads(follow: Callable[[Part, threading.Event], None], parts: Sequence[Part]) -> None:
    """Calls follow(part, stop) for every part of the work, a thread for each core.

    Ctrl-C ends it, and an error in one thread all of it, even where a thread never comes back:
    that one is left behind, and does not keep the interpreter from ending.

    Args:
        follow: the work; it should return soon after `stop` is set.
        parts: of the work.
    """
    stop, left, errors = threading.Event(), deque(parts), []

    def work(ended: threading.Event) -> None:
        try:
            while (part := _first_of(left)) is not None and not stop.is_set():
                follow(part, stop)
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # Not `join`, for a thread whose `join` is interrupted counts as ended; nor a pool, for whose
    # threads the interpreter would wait at its end.
    running: list[threading.Event] = []
    try:
        for _ in parts[: cores()]:
            running.append(threading.Event())
            threading.Thread(target=work, args=running[-1:], daemon=True).start()
        while not _ended(running, LOOK_SECONDS) and not errors and not interrupted():
            pass
        if errors:
            raise errors[0]
    finally:
        stop.set()
        if not _ended(running, GRACE_SECONDS):
            left_behind(functools.partial(_ended, running))


def _first_of(left: deque[Part]) -> Part | None:
    try:
        return left.popleft()
    except IndexError:  # another thread may have taken the last one just now
        return None


def _ended(running: list[threading.Event], seconds: float) -> bool:
    """Whether all threads have ended when the time is up, or before."""
    end = time.monotonic() + seconds
    return all(ended.wait(max(0.0, end - time.monotonic())) for ended in running)
