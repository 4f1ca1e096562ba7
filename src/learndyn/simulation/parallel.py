"""Where runs are computed: in groups, on threads, and over all devices."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

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

    def work() -> None:
        try:
            while (part := _first_of(left)) is not None and not stop.is_set():
                follow(part, stop)
        except BaseException as error:
            errors.append(error)
            stop.set()

    # Not a pool: the interpreter would wait for its threads at the end.
    threads = [threading.Thread(target=work, daemon=True) for _ in parts[: cores()]]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not errors:
            _join(threads, LOOK_SECONDS)
        if errors:
            raise errors[0]
    except BaseException:
        stop.set()
        _join(threads, GRACE_SECONDS)
        raise


def _first_of(left: deque[Part]) -> Part | None:
    try:
        return left.popleft()
    except IndexError:  # another thread may have taken the last one just now
        return None


def _join(threads: list[threading.Thread], seconds: float) -> None:
    """Waits until all threads have ended, or until the time is up."""
    end = time.monotonic() + seconds
    for thread in threads:
        if thread.is_alive():
            thread.join(max(0.0, end - time.monotonic()))
