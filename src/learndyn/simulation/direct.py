"""The direct engine: every step of the rule on the full weights.

Fresh examples are generated inside the compiled loop, so memory does not grow with the
number of steps. On a CPU each run is a task of its own in a pool of threads: as fast as
one batched kernel, and run 7 is bit for bit the same beside any other runs. Elsewhere
all runs are one batched kernel, spread over all devices.
"""

import threading
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.random import Source, words_of_runs
from learndyn.numerics.types import Array
from learndyn.simulation.placing import Pace, groups, in_threads, on_one_cpu, rounded_up, spread
from learndyn.system import System

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
    width = 1 if on_one_cpu() else rounded_up(runs, jax.device_count())
    parts = groups(runs, width)
    with jax.enable_x64(True):
        words = np.asarray(words_of_runs(key, parts[-1].stop)).T
        begin = spread(_copies(weights, width), axis=0)
        system = _placed(system)
        nothing = np.int64(0)
        # Compiles here, once, rather than in every thread.
        _advance(system, begin, teacher, spread(words[parts[0]], 0), nothing, nothing)

    def follow(group: slice, stop: threading.Event) -> None:
        with jax.enable_x64(True):  # a thread has a configuration of its own
            batch, last, pace = begin, 0, Pace()
            own = spread(words[group], axis=0)
            alive = dict.fromkeys(range(group.start, min(group.stop, runs)))
            for index, end in enumerate(steps):
                for first, count in pace.pieces(last, int(end)):
                    if stop.is_set() or not alive:
                        return
                    batch = _advance(system, batch, teacher, own, first, count)
                    jax.block_until_ready(batch)
                    advanced(int(count) * (min(group.stop, runs) - group.start))
                last = int(end)
                for run in list(alive):
                    if not visit(run, index, _pick(batch, run - group.start)):
                        del alive[run]

    in_threads(follow, parts)


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


def _placed(system: System) -> System:
    """The system with its arrays on the device: a data set is not to be copied at every call."""
    place = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf
    return jax.tree.map(place, system)


def _copies(weights: Weights, number: int) -> Weights:
    return jax.tree.map(lambda w: jnp.stack([jnp.asarray(w)] * number), weights)


def _pick(batch: Weights, place: int) -> Weights:
    return jax.tree.map(lambda w: np.asarray(w[place]), batch)
