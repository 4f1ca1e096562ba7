"""The reduced engine: the exact chain of a theory's state, at a cost without N.

Random numbers are drawn in blocks of steps, by one vectorised kernel outside the loop over
the steps, and always in float64: at N = 10⁷ a step in float32 would be lost in rounding.
A draw is a function of (key, run, step) alone, whatever the block. On a CPU the runs go to
threads in groups, whose width is a multiple of LANES, filled up with runs that nobody asked
for: every run is then computed by the same vector instructions, bit for bit the same beside
any other runs. Elsewhere all runs are one batched kernel, spread over all devices.
"""

import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.precision import to_numpy
from learndyn.numerics.random import Source, words_of_runs
from learndyn.numerics.types import Array
from learndyn.simulation.measuring import Measurement
from learndyn.simulation.placing import (
    Pace,
    cores,
    groups,
    in_threads,
    on_one_cpu,
    rounded_up,
    spread,
)
from learndyn.theory import AbstractTheory
from learndyn.theory.base import DIVERGED
from learndyn.theory.chain import AbstractChain, Fixed, Moving
from learndyn.theory.dynamics import State

LANES = 8  # float64 numbers in the widest vector register
WIDEST = 128  # runs in a group on a CPU: wider ones gain nothing
NUMBERS = {True: 2**15, False: 2**24}  # random numbers in a block, on a CPU and elsewhere


def follow_chain(
    theory: AbstractTheory,
    chain: AbstractChain,
    steps: np.ndarray,
    state: State,
    *,
    runs: int,
    key: int,
    measure: Measurement,
    advanced: Callable[[int], None],
) -> None:
    """Follows `runs` copies of the chain and measures them at the asked steps.

    Args:
        theory: which observes the states.
        chain: the theory's chain.
        steps: non-decreasing step numbers.
        state: the state at step 0.
        runs: number of copies.
        key: seed; run r draws from (key, r) alone.
        measure: takes the observables of all runs of a group at every time.
        advanced: called with the number of run·steps done since its last call.
    """
    width = _width(runs)
    parts = groups(runs, width)
    fixed, first_moving = chain.begin(state)
    bound = DIVERGED * np.max([np.max(np.abs(leaf)) for leaf in jax.tree.leaves(state)])
    block = block_size(chain, width)
    words = np.asarray(words_of_runs(key, parts[-1].stop))

    def advance(moving: Moving, own: Array, first: np.int64, count: np.int64) -> Moving:
        return _advance(chain, fixed, moving, own, first, count, block)

    with jax.enable_x64(True):
        begin = jax.tree.map(lambda leaf: _copies(leaf, width), first_moving)
        begin = spread(begin, axis=-1)
        nothing = np.int64(0)
        # Compiles here, once, rather than in every thread.
        advance(begin, spread(words[:, parts[0]], axis=-1), nothing, nothing)

    def follow(group: slice, stop: threading.Event) -> None:
        with jax.enable_x64(True):  # a thread has a configuration of its own
            moving, last, pace = begin, 0, Pace()
            own, asked = spread(words[:, group], axis=-1), min(group.stop, runs) - group.start
            shown = slice(group.start, group.start + asked)
            for index, end in enumerate(steps):
                for first, count in pace.pieces(last, int(end)):
                    if stop.is_set():
                        return
                    moving = jax.block_until_ready(advance(moving, own, first, count))
                    advanced(int(count) * asked)
                last = int(end)
                values, gone = to_numpy(_observe(theory, chain, fixed, moving, bound))
                values = {name: value[:asked] for name, value in values.items()}
                if not measure.visit_many(shown, index, values, gone[:asked]):
                    return

    in_threads(follow, parts)


def block_size(chain: AbstractChain, width: int) -> int:
    """Steps whose random numbers are drawn at once, a power of two.

    It bounds the memory, whatever the number of steps. A block of one step would be compiled
    differently, and round differently.

    Args:
        chain: which says how many numbers a step reads.
        width: runs in a group.

    Returns:
        The number of steps.
    """
    steps = NUMBERS[on_one_cpu()] // (width * (chain.normals + len(chain.degrees)))
    return max(2, 1 << (max(1, steps).bit_length() - 1))


@eqx.filter_jit
def _advance(
    chain: AbstractChain,
    fixed: Fixed,
    moving: Moving,
    words: Array,
    first: Array,
    count: Array,
    block: int,
) -> Moving:
    def many(index: Array, moving: Moving) -> Moving:
        done = index * block
        normals, chi_squares = _draw(chain, words, first + done + jnp.arange(block))
        one = lambda i, moving: chain.step(fixed, moving, normals[i], chi_squares[i])
        return jax.lax.fori_loop(0, jnp.minimum(block, count - done), one, moving)

    return jax.lax.fori_loop(0, (count + block - 1) // block, many, moving)


def _draw(chain: AbstractChain, words: Array, steps: Array) -> tuple[Array, Array]:
    """What the steps read: normals (steps, normals, runs), chi-squares (steps, degrees, runs)."""
    source = Source(jnp.asarray(words)[:, None, None, :], steps[:, None, None])
    index = lambda size: jnp.arange(size, dtype=jnp.uint32)[:, None]
    degrees = jnp.asarray(chain.degrees)[:, None]
    normals = source.normal_at(index(chain.normals), jnp.float64)
    return normals, source.chi_square_at(index(len(degrees)), degrees)


@eqx.filter_jit
def _observe(
    theory: AbstractTheory, chain: AbstractChain, fixed: Fixed, moving: Moving, bound: Array
) -> tuple[dict[str, Any], Array]:
    """Observables of every run, and whether it has diverged: runs first."""

    def one(moving: Moving) -> tuple[dict[str, Any], Array]:
        state = chain.state(fixed, moving)
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(state)]))
        return theory.observe(state), ~(largest <= bound)  # NaN has diverged too

    return jax.vmap(one, in_axes=-1)(moving)


def _width(runs: int) -> int:
    if not on_one_cpu():
        return rounded_up(runs, jax.device_count())
    return rounded_up(min(-(-runs // cores()), WIDEST), LANES)


def _copies(leaf: np.ndarray, width: int) -> Array:
    return jnp.asarray(np.repeat(leaf[..., None], width, axis=-1))
