"""The direct engine: every step of the rule on the full weights.

Fresh examples are generated inside the compiled loop, so memory does not grow with the
number of steps. On CPUs each run is a task of its own in a pool of threads: as fast as
one batched kernel, and run 7 is bit for bit the same beside any other runs. On other
devices all runs are one batched kernel.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.random import Source, run_words
from learndyn.numerics.types import Array
from learndyn.system import System

CHUNK_SECONDS = 0.25  # between two looks at the progress bar and at Ctrl-C

Visit = Callable[[int, int, Weights], bool]
Advanced = Callable[[int], None]


def train(
    system: System,
    steps: np.ndarray,
    weights: Weights,
    teacher: Weights,
    *,
    runs: int,
    key: int,
    visit: Visit,
    advanced: Advanced,
) -> None:
    """Trains `runs` copies and shows their weights at the asked steps.

    Args:
        system: what learns.
        steps: non-decreasing step numbers.
        weights: the weights at step 0, in the precision of the run.
        teacher: the teacher's weights, likewise.
        runs: number of copies.
        key: seed; run r draws from (key, r) alone.
        visit: called as visit(run, index of the step, weights); False ends that run.
        advanced: called with the number of run·steps done since its last call.
    """
    stop = threading.Event()
    groups = _groups(runs)
    with jax.enable_x64(True):
        words = np.stack([run_words(key, run) for run in range(runs)])
        nothing = np.int64(0)
        # Compiles here, once, rather than in every thread.
        _advance(system, _copies(weights, groups[0]), teacher, words[groups[0]], nothing, nothing)

    def follow(group: slice) -> None:
        with jax.enable_x64(True):  # a thread has a configuration of its own
            batch, begin = _copies(weights, group), 0
            alive = dict.fromkeys(range(group.start, group.stop))
            for index, end in enumerate(steps):
                for first, count in _chunks(begin, int(end)):
                    if stop.is_set() or not alive:
                        return
                    batch = _advance(system, batch, teacher, words[group], first, count)
                    jax.block_until_ready(batch)
                    advanced(int(count) * (group.stop - group.start))
                begin = int(end)
                for run in list(alive):
                    if not visit(run, index, _pick(batch, run - group.start)):
                        del alive[run]

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            for _ in pool.map(follow, groups):
                pass
        except BaseException:
            stop.set()  # before the pool waits for its threads
            raise


@eqx.filter_jit
def _advance(
    system: System, weights: Weights, teacher: Weights, words: Array, first: Array, count: Array
) -> Weights:
    dtype = jax.tree.leaves(weights)[0].dtype
    step = system.rule.stepper(system.problem, system.network, teacher, dtype)

    def one(weights: Weights, words: Array) -> Weights:
        body = lambda i, w: step(w, Source(words, i))
        return jax.lax.fori_loop(first, first + count, body, weights)

    return jax.vmap(one)(weights, words)


def _groups(runs: int) -> list[slice]:
    size = 1 if jax.default_backend() == "cpu" else runs
    return [slice(i, min(i + size, runs)) for i in range(0, runs, size)]


def _copies(weights: Weights, group: slice) -> Weights:
    return jax.tree.map(lambda w: jnp.stack([jnp.asarray(w)] * (group.stop - group.start)), weights)


def _pick(batch: Weights, place: int) -> Weights:
    return jax.tree.map(lambda w: np.asarray(w[place]), batch)


def _chunks(begin: int, end: int) -> Iterator[tuple[np.int64, np.int64]]:
    """Cuts begin … end into pieces that take about CHUNK_SECONDS each.

    Pieces are NumPy numbers: Python's would be compiled in.
    """
    size = 64
    while begin < end:
        count = min(size, end - begin)
        clock = time.perf_counter()
        yield np.int64(begin), np.int64(count)
        begin += count
        size = max(1, int(size * min(8.0, CHUNK_SECONDS / (time.perf_counter() - clock + 1e-9))))
