"""The direct engine: every step of the rule on the full weights.

Fresh examples are generated inside the compiled loop, so memory does not grow with the
number of steps. On a CPU each run is a task of its own in a pool of threads: as fast as
one batched kernel, and run 7 is bit for bit the same beside any other runs. Elsewhere
all runs are one batched kernel, spread over all devices.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.jaxprs import equations
from learndyn.numerics.random import Source, words_of_runs
from learndyn.numerics.types import Array
from learndyn.rules import Bound
from learndyn.rules.base import Memory
from learndyn.simulation.placing import Pace, groups, in_threads, on_one_cpu, rounded_up, spread
from learndyn.system import System

Carried = tuple[Weights, Memory]
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
        system = _placed(system)
        weights = jax.tree.map(jnp.asarray, weights)
        begin = spread(_copies((weights, _memory(system, weights, teacher)), width), axis=0)
        nothing = np.int64(0)
        advance = _advancer(system, begin, teacher, spread(words[parts[0]], 0))
        # Compiles here, once, rather than in every thread.
        advance(begin, spread(words[parts[0]], 0), nothing, nothing)

    def follow(group: slice, stop: threading.Event) -> None:
        with jax.enable_x64(True):  # a thread has a configuration of its own
            batch, last, pace = begin, 0, Pace()
            own = spread(words[group], axis=0)
            alive = dict.fromkeys(range(group.start, min(group.stop, runs)))
            for index, end in enumerate(steps):
                for first, count in pace.pieces(last, int(end)):
                    if stop.is_set() or not alive:
                        return
                    batch = advance(batch, own, first, count)
                    jax.block_until_ready(batch)
                    advanced(int(count) * (min(group.stop, runs) - group.start))
                last = int(end)
                for run in list(alive):
                    if not visit(run, index, _pick(batch[0], run - group.start)):
                        del alive[run]

    in_threads(follow, parts)


@eqx.filter_jit
def _memory(system: System, weights: Weights, teacher: Weights) -> Memory:
    return _bound(system, weights, teacher).init(weights)


Advance = Callable[[Carried, Array, np.int64, np.int64], Carried]


def _advancer(system: System, carried: Carried, teacher: Weights, words: Array) -> Advance:
    """Takes `count` steps: as one compiled loop, or step by step where that is faster.

    XLA's CPU compiler has no fast convolution inside of a loop (a factor 28 for 3 × 3 windows
    over digits): there every step is a call, as a loop in Python would make it.
    """
    loop = lambda *given: _advance(system, given[0], teacher, *given[1:])
    if not (on_one_cpu() and _convolves(loop, carried, words)):
        return loop

    leaves, structure = jax.tree.flatten((system, teacher))
    held = [isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves]
    arrays = [jnp.asarray(leaf) for leaf, is_ in zip(leaves, held, strict=True) if is_]
    rest = tuple(None if is_ else leaf for leaf, is_ in zip(leaves, held, strict=True))

    def stepwise(carried: Carried, words: Array, first: np.int64, count: np.int64) -> Carried:
        for index in range(first, first + max(count, 1)):
            moved = _single((structure, rest), arrays, carried, words, np.int64(index))
            carried = moved if count else carried  # no step: only compiled
        return carried

    return stepwise


def _convolves(loop: Callable[..., Any], carried: Carried, words: Array) -> bool:
    jaxpr = jax.make_jaxpr(loop)(carried, words, np.int64(0), np.int64(1))
    return any(e.primitive.name == "conv_general_dilated" for e in equations(jaxpr))


@functools.partial(jax.jit, static_argnums=0)
def _single(held: Any, arrays: list[Array], carried: Carried, words: Array, index: Array):
    """One step; `held` is what of system and teacher is no array, apart, for a call costs less."""
    structure, rest = held
    given = iter(arrays)
    leaves = [next(given) if leaf is None else leaf for leaf in rest]
    system, teacher = jax.tree.unflatten(structure, leaves)
    step = _bound(system, _first(carried)[0], teacher).step
    return jax.tree.map(lambda leaf: leaf[None], step(*_first(carried), Source(words[0], index)))


def _first(carried: Carried) -> Carried:
    return jax.tree.map(lambda leaf: leaf[0], carried)


@eqx.filter_jit
def _advance(
    system: System, carried: Carried, teacher: Weights, words: Array, first: Array, count: Array
) -> Carried:
    """Steps of every run, whose weights and memory have a leading axis of runs."""

    def one(carried: Carried, words: Array) -> Carried:
        step = _bound(system, carried[0], teacher).step
        body = lambda i, now: step(now[0], now[1], Source(words, i))
        return jax.lax.fori_loop(first, first + count, body, carried)

    # Steps on one vector are 5 % faster mapped over one run than without the axis; products and
    # convolutions of batches would become batched and grouped ones, which are slower.
    if len(words) > 1 or system.network.takes_one:
        return jax.vmap(one)(carried, words)
    moved = one(_first(carried), words[0])
    return jax.tree.map(lambda leaf: leaf[None], moved)


def _bound(system: System, weights: Weights, teacher: Weights) -> Bound:
    dtype = jax.tree.leaves(weights)[0].dtype
    return system.rule.bind(system.problem, system.network, teacher, dtype)


def _placed(system: System) -> System:
    """The system with its arrays on the device: a data set is not to be copied at every call."""
    place = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf
    return jax.tree.map(place, system)


def _copies(weights: Weights, number: int) -> Weights:
    return jax.tree.map(lambda w: np.stack([np.asarray(w)] * number), weights)


def _pick(batch: Weights, place: int) -> Weights:
    return jax.tree.map(lambda w: np.asarray(w[place]), batch)
