"""The reduced engine: the exact chain of a theory's state, at a cost without N.

Random numbers are drawn in blocks of steps, by one vectorised kernel outside the loop over
the steps, and always in float64: at N = 10⁷ a step in float32 would be lost in rounding.
A draw is a function of (key, run, step) alone, whatever the block. On a CPU the runs go to
threads in groups, whose width is a multiple of the chain's `lanes`, filled up with runs that
nobody asked for: every run is then computed by the same vector instructions, bit for bit the
same beside any other runs. Elsewhere all runs of a start are one batched kernel, spread over
all devices.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.divergence import bound_of, has_diverged
from learndyn.numerics.pieces import Piece
from learndyn.numerics.random import Source, keys_of_runs
from learndyn.numerics.stepping import record_steps
from learndyn.numerics.types import Array
from learndyn.simulation.following import Group
from learndyn.simulation.parallel import cores, on_one_cpu, rounded_up, spread
from learndyn.theory import AbstractTheory
from learndyn.theory.chain import AbstractChain, Constants, Coordinates
from learndyn.theory.dynamics import State

WIDEST = 128  # runs in a group on a CPU: wider ones gain nothing
BLOCK_STEPS = 2  # the least steps of a block
NUMBERS = {True: 2**15, False: 2**24}  # random numbers in a block, on a CPU and elsewhere


class Carried(NamedTuple):
    """What a group of runs carries: coordinates, runs last, and what no step changes."""

    y: Coordinates
    keys: Array
    constants: Constants
    bound: Array


class Reduced:
    """The engine.

    Args:
        theory: which observes the states.
        chain: the theory's chain.
        states: the state of every start, at step 0.
        key: seed of the first start; run r of start s draws from (key + s, r) alone.
        width: how many runs are computed together.
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
        y = jax.tree.map(lambda leaf: _copies(leaf, self._width), y)
        keys = np.asarray(keys_of_runs(self._key + group.start, group.filled(self._width)))
        keys = spread(keys, axis=-1)
        return Carried(spread(y, axis=-1), keys, constants, bound_of(state))

    def record(self, carried: Carried, piece: Piece) -> tuple[Carried, Any]:
        """Takes the steps as one compiled loop."""
        at = piece.first, piece.targets, piece.number
        y, read = _record(self._theory, self._chain, carried, *at, self._block)
        return carried._replace(y=y), read

    def between(self, carried: Carried, place: int) -> None:
        """Nothing: all can be traced."""


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
    return max(BLOCK_STEPS, 1 << (max(1, steps).bit_length() - 1))


def width_of(runs: int, chain: AbstractChain) -> int:
    """How many runs are computed together."""
    if not on_one_cpu():
        return rounded_up(runs, jax.device_count())
    if chain.lanes == 1:
        return 1  # always: in a wider group a run would be rounded differently
    return rounded_up(min(-(-runs // cores()), WIDEST), chain.lanes)


@eqx.filter_jit
def _record(
    theory: AbstractTheory,
    chain: AbstractChain,
    carried: Carried,
    first: Array,
    targets: Array,
    count: Array,
    block: int,
) -> tuple[Coordinates, Any]:
    y, keys, constants, bound = carried

    def advance(y: Coordinates, drawn: Any, at: Array, end: Array) -> Coordinates:
        normals, chi_squares = drawn
        base = at - at % block
        return chain.steps(constants, y, normals, chi_squares, at - base, end - base)

    def read(y: Coordinates) -> tuple[dict[str, Any], Array]:
        state = lambda y: chain.state(constants, y)
        one = lambda y: (theory.observe(state(y)), has_diverged(state(y), bound))
        return jax.vmap(one, in_axes=-1)(y)

    draw = lambda base: _draw(chain, keys, base + jnp.arange(block))
    y, rows = record_steps(advance, read, y, first, targets, count, draw=draw, block=block)
    return y, jax.tree.map(lambda row: jnp.moveaxis(row, 1, 0), rows)


def _draw(chain: AbstractChain, keys: Array, steps: Array) -> tuple[Array, Array]:
    """What the steps read: normals (steps, normals, runs), chi-squares (steps, degrees, runs)."""
    source = Source(jnp.asarray(keys)[:, None, None, :], steps[:, None, None])
    index = lambda size: jnp.arange(size, dtype=jnp.uint32)[:, None]
    degrees = jnp.asarray(chain.degrees)[:, None]
    normals = source.normal_at(index(chain.normals), jnp.float64)
    return normals, source.chi_square_at(index(len(degrees)), degrees)


def _copies(leaf: np.ndarray, width: int) -> Array:
    return jnp.asarray(np.repeat(leaf[..., None], width, axis=-1))
