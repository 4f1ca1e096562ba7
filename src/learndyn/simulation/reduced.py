"""The reduced engine: the exact Markov chain of a theory's state, at a cost independent of N.

Random numbers are drawn in blocks of steps, by one vectorised kernel outside the loop over the
steps, and always in float64: at N = 10⁷ a step in float32 would be lost in rounding. They depend on
(key, run, step) alone, not on the blocks. On a CPU, threads compute the runs in groups. Their width
is a multiple of the chain's `lanes`, padded with runs whose results are discarded: every run is
then computed by the same vector instructions, and its result is bit for bit independent of the
other runs. On other devices all runs of a start are one batched kernel, spread over all devices.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.random import Source, keys_of_runs
from learndyn.runtime.cores import cores
from learndyn.runtime.divergence import has_diverged
from learndyn.runtime.pieces import Piece
from learndyn.runtime.stepping import blank_rows, with_row
from learndyn.runtime.types import Array
from learndyn.simulation.following import Group
from learndyn.simulation.parallel import on_one_cpu, rounded_up, spread
from learndyn.theory import AbstractTheory
from learndyn.theory.chain import AbstractChain, Constants, Coordinates
from learndyn.theory.dynamics import State

WIDEST = 128  # runs in a group on a CPU: wider groups are not faster
BLOCK_STEPS = 2  # smallest number of steps in a block
NUMBERS = {True: 2**15, False: 2**24}  # random numbers in a block: on one CPU, or elsewhere


class Carried(NamedTuple):
    """The state of a group of runs: coordinates, runs last, and what no step changes."""

    y: Coordinates
    keys: Array
    constants: Constants
    bound: Array


class Reduced:
    """The engine.

    Args:
        theory: defines the observables.
        chain: the theory's chain.
        states: the state of every start, at step 0.
        key: seed of the first start; run r of start s depends on (key + s, r) alone.
        width: the number of runs computed together.
    """

    def __init__(
        self,
        theory: AbstractTheory,
        chain: AbstractChain,
        states: Sequence[State],
        key: int,
        width: int,
    ):
        self._theory, self._chain, self._states = theory, chain, states
        self._key, self._width, self._block = key, width, block_size(chain, width)

    def begin(self, group: Group) -> Carried:
        """Copies of the start's coordinates."""
        state = self._states[group.start]
        constants, y = self._chain.begin(state)
        copies = lambda leaf: jnp.asarray(np.repeat(leaf[..., None], self._width, axis=-1))
        y = jax.tree.map(copies, y)
        keys = np.asarray(keys_of_runs(self._key + group.start, group.filled(self._width)))
        keys = spread(keys, axis=-1)
        return Carried(spread(y, axis=-1), keys, constants, self._theory.bound(state))

    def record(self, carried: Carried, piece: Piece) -> tuple[Carried, Any]:
        """Takes the steps of a piece as one compiled loop."""
        at = piece.first, piece.targets, piece.number, np.int64(piece.kept)
        y, read = _record(self._theory, self._chain, carried, *at, self._block)
        return carried._replace(y=y), read

    def between(self, carried: Carried, place: int) -> None:
        """Reads nothing: all observables of a theory's state can be traced."""


def block_size(chain: AbstractChain, width: int) -> int:
    """The number of steps whose random numbers are drawn at once, a power of two.

    It limits the memory, whatever the number of steps. A block of one step would be compiled, and
    hence rounded, differently.

    Args:
        chain: says how many random numbers a step needs.
        width: the number of runs in a group.

    Returns:
        The number of steps.
    """
    steps = NUMBERS[on_one_cpu()] // (width * (chain.normals + len(chain.degrees)))
    return max(BLOCK_STEPS, 1 << (max(1, steps).bit_length() - 1))


def width_of(runs: int, chain: AbstractChain) -> int:
    """The number of runs computed together."""
    if not on_one_cpu():
        return rounded_up(runs, jax.device_count())
    if chain.lanes == 1:
        return 1  # never more: in a wider group a run would be rounded differently
    return rounded_up(min(-(-runs // cores()), WIDEST), chain.lanes)


@eqx.filter_jit
def _record(
    theory: AbstractTheory,
    chain: AbstractChain,
    carried: Carried,
    first: Array,
    targets: Array,
    count: Array,
    kept: Array,
    block: int,
) -> tuple[Coordinates, Any]:
    y, keys, constants, bound = carried

    def advance(y: Coordinates, random_numbers: Any, first: Array, last: Array) -> Coordinates:
        normals, chi_squares = random_numbers
        return chain.steps(constants, y, normals, chi_squares, first, last)

    def read(y: Coordinates) -> tuple[dict[str, Any], Array]:
        state = lambda y: chain.state(constants, y)
        one = lambda y: (theory.observe(state(y)), has_diverged(state(y), bound))
        return jax.vmap(one, in_axes=-1)(y)

    random_numbers = lambda base: _random_numbers(chain, keys, base + jnp.arange(block))
    at = first, targets, count, kept
    y, rows = record_in_blocks(advance, read, y, *at, random_numbers=random_numbers, block=block)
    return y, jax.tree.map(lambda row: jnp.moveaxis(row, 1, 0), rows)


def record_in_blocks(
    advance: Callable[[Any, Any, Array, Array], Any],
    read: Callable[[Any], Any],
    y: Any,
    first: Array,
    targets: Array,
    count: Array,
    kept: Array,
    *,
    random_numbers: Callable[[Array], Any],
    block: int,
) -> tuple[Any, Any]:
    """As `record_steps`, with the random numbers of a block of steps drawn at once.

    Blocks begin at multiples of `block`, and one draw serves all targets in a block.

    Args:
        advance: (y, the block's random numbers, first step, last step) → y before the last step;
            both steps are counted from the beginning of the block.
        read: y → the pytree to record.
        y: the state at step `first`.
        first: the step number of y.
        targets: non-decreasing step numbers, at least `first`, (targets,).
        count: how many of the targets to visit; those after them are padding.
        kept: how many of them to read at. A piece that ends between the requested steps has a
            target to go to and none to read at, which may take longer than its steps.
        random_numbers: first step of a block → its random numbers.
        block: the number of steps in a block.

    Returns:
        y at the last target, and the recorded rows, (targets, …), zero beyond `kept`.
    """
    like = jax.eval_shape(read, y)
    rows = blank_rows(like, len(targets))
    blank = lambda _: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)

    def one_block(carry):
        base = carry[1] - carry[1] % block
        drawn, stop = random_numbers(base), base + block

        def segment(carry):
            y, at, done, rows = carry
            goal = jnp.minimum(targets[done], stop)
            y = advance(y, drawn, at - base, goal - base)
            # A row at the end of a block, before its target, is written over in the next one.
            reached = targets[done] == goal
            row = jax.lax.cond(reached & (done < kept), read, blank, y)
            return y, goal, done + reached, with_row(rows, done, row)

        left = lambda carry: (carry[2] < count) & ((carry[1] < stop) | (targets[carry[2]] <= stop))
        return jax.lax.while_loop(left, segment, carry)

    begin = (y, jnp.asarray(first), jnp.zeros((), jnp.asarray(count).dtype), rows)
    y, _, _, rows = jax.lax.while_loop(lambda carry: carry[2] < count, one_block, begin)
    return y, rows


def _random_numbers(chain: AbstractChain, keys: Array, steps: Array) -> tuple[Array, Array]:
    """Normal numbers (steps, normals, runs) and chi-square numbers (steps, degrees, runs)."""
    source = Source(jnp.asarray(keys)[:, None, None, :], steps[:, None, None])
    index = lambda size: jnp.arange(size, dtype=jnp.uint32)[:, None]
    degrees = jnp.asarray(chain.degrees)[:, None]
    normals = source.normal_at(index(chain.normals), jnp.float64)
    return normals, source.chi_square_at(index(len(degrees)), degrees)
