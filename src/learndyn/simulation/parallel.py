"""Distributes runs: in groups, over threads, and over all devices."""

import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from learndyn.runtime.cores import cores
from learndyn.runtime.interruption import exit_despite, was_interrupted
from learndyn.runtime.pieces import PIECE_SECONDS

POLL_SECONDS = 0.1  # between two checks of the other threads
GRACE_SECONDS = 4 * PIECE_SECONDS  # how long to wait for threads that were told to stop

Tree = TypeVar("Tree")
Part = TypeVar("Part")


def on_one_cpu() -> bool:
    """Whether the CPU is the only device; groups of runs are then computed on threads."""
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def rounded_up(number: int, unit: int) -> int:
    """`number`, rounded up to a multiple of `unit`."""
    return -(-number // unit) * unit


def spread(tree: Tree, axis: int) -> Tree:
    """Spreads the axis `axis` of every leaf over all devices, if there are several."""
    if jax.device_count() == 1:
        return tree
    mesh = Mesh(np.asarray(jax.devices()), ("runs",))

    def place(leaf):
        names: list[str | None] = [None] * leaf.ndim
        names[axis] = "runs"
        return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*names)))

    return jax.tree.map(place, tree)


def in_threads(follow: Callable[[Part, threading.Event], None], parts: Iterable[Part]) -> None:
    """Calls follow(part, stop) for every part of the work, on one thread per core.

    Ctrl-C ends the work, and so does an error in any thread. A thread that does not stop in time is
    abandoned, and does not keep the interpreter from ending.

    Args:
        follow: the work; it should return soon after `stop` is set.
        parts: the parts of the work, generated as needed, since there may be very many.
    """
    stop, left, errors = threading.Event(), iter(parts), []
    taking = threading.Lock()

    def work(ended: threading.Event) -> None:
        try:
            while not stop.is_set():
                with taking:  # generators cannot be advanced by two threads at once
                    part = next(left, None)
                if part is None:
                    return
                follow(part, stop)
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # Events rather than `join`, since a thread whose `join` is interrupted counts as ended; and no
    # pool, since the interpreter would wait for its threads at exit.
    running: list[threading.Event] = []
    try:
        for _ in range(cores()):
            running.append(threading.Event())
            threading.Thread(target=work, args=running[-1:], daemon=True).start()
        while not _ended(running, POLL_SECONDS) and not errors and not was_interrupted():
            pass
        if errors:
            raise errors[0]
    finally:
        stop.set()
        if not _ended(running, GRACE_SECONDS):
            exit_despite(functools.partial(_ended, running))


def _ended(running: list[threading.Event], seconds: float) -> bool:
    """Whether all threads end within the time."""
    end = time.monotonic() + seconds
    return all(ended.wait(max(0.0, end - time.monotonic())) for ended in running)
