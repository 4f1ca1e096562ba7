"""The direct engine: every step of the rule on the full weights.

Fresh examples are generated inside the compiled loop, so memory does not grow with the
number of steps. On a CPU each run is a task of its own in a pool of threads: as fast as
one batched kernel, and run 7 is bit for bit the same beside any other runs. Elsewhere
all runs of a start are one batched kernel, spread over all devices.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Model
from learndyn.networks.base import Weights
from learndyn.numerics.jaxprs import equations
from learndyn.numerics.pieces import Piece
from learndyn.numerics.random import Source, keys_of_runs
from learndyn.numerics.stepping import record_steps
from learndyn.numerics.types import Array
from learndyn.rules import Bound
from learndyn.rules.base import Memory
from learndyn.rules.watching import step_of
from learndyn.simulation.following import Group
from learndyn.simulation.parallel import on_one_cpu, rounded_up, spread
from learndyn.simulation.reading import Reader, Reading
from learndyn.system import System

Moving = tuple[Weights, Memory]  # with a leading axis of runs
Begin = Callable[[int], tuple[Weights, Weights, Reading]]


class Carried(NamedTuple):
    """What a group of runs carries: weights and memory, and what no step changes."""

    moving: Moving
    keys: Array
    teacher: Weights
    reading: Reading


class Direct:
    """The engine.

    Args:
        system: what learns.
        begin: number of a start → its weights in the precision of the run, its teacher, and how
            it is read.
        key: seed of the first start; run r of start s draws from (key + s, r) alone.
        width: how many runs are computed together.
    """

    def __init__(self, system: System, begin: Begin, key: int, width: int):
        self._system = _on_device(system)
        # Runs of one start share it, and a few starts are followed at a time.
        self._begin = functools.lru_cache(maxsize=4)(lambda number: _placed(*begin(number)))
        self._key, self._width = key, width
        self._stepwise = on_one_cpu() and _convolves(system, self._begin(0)[0])

    def begin(self, group: Group) -> Carried:
        """Copies of the start's weights, with the memory before the first step."""
        weights, teacher, reading = self._begin(group.start)
        moving = _copies((weights, _memory(self._system, weights, teacher)), self._width)
        keys = np.asarray(keys_of_runs(self._key + group.start, group.filled(self._width))).T
        return Carried(spread(moving, 0), spread(keys, 0), teacher, reading)

    def record(self, carried: Carried, piece: Piece) -> tuple[Carried, Any]:
        """Takes the steps as one compiled loop, or one by one where that is faster."""
        take = self._by_single_steps if self._stepwise else self._by_a_loop
        moving, read = take(carried, piece)
        return carried._replace(moving=moving), read

    def between(self, carried: Carried, place: int) -> Any:
        """What could not be traced."""
        outside = carried.reading.outside
        if not outside.names:
            return None
        weights = jax.tree.map(lambda w: np.asarray(w[place]), carried.moving[0])
        return outside(weights, jax.tree.map(np.asarray, carried.teacher))

    def _by_a_loop(self, carried: Carried, piece: Piece) -> tuple[Moving, Any]:
        moving, keys, teacher, reading = carried
        at = piece.first, piece.targets, piece.number
        return _record(self._system, reading.inside, moving, teacher, keys, *at)

    def _by_single_steps(self, carried: Carried, piece: Piece) -> tuple[Moving, Any]:
        """Every step is a call, as a loop in Python would make it.

        XLA's CPU compiler has no fast convolution inside of a loop (a factor 28 for 3 × 3
        windows over digits).
        """
        moving, keys, teacher, (inside, *_) = carried
        arrays, held = _held((self._system, teacher))
        at, read = int(piece.first), []
        for target in piece.targets[: max(int(piece.number), 1)]:
            for index in range(at, int(target) + (not piece.number)):
                moved = _single(held, arrays, moving, keys, np.int64(index))
                moving = moved if piece.number else moving  # no step: only compiled
            at = int(target)
            weights = moving_of(moving)[0]
            watched = _watched(self._system, inside, moving, teacher, keys, np.int64(at))
            losses = inside.on_examples(weights, watched, looped=False)
            read.append(_read(inside, weights, teacher, losses, watched))
        stacked = jax.tree.map(lambda *rows: np.stack([np.asarray(r) for r in rows])[None], *read)
        return moving, stacked


def _convolves(system: System, weights: Weights) -> bool:
    """Whether the network has convolutions, which its gradients then have too."""
    dtype = jnp.dtype(system.problem.input_dtype)
    dtype = jax.tree.leaves(weights)[0].dtype if jnp.issubdtype(dtype, jnp.floating) else dtype
    x = jax.ShapeDtypeStruct((1, *system.problem.input_shape), dtype)
    jaxpr = jax.make_jaxpr(system.network)(weights, x)
    return any(e.primitive.name == "conv_general_dilated" for e in equations(jaxpr))


def _on_device(tree: Any) -> Any:
    """Arrays on the device: a data set is not to be copied at every call."""
    place = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf
    return jax.tree.map(place, tree)


def _placed(weights: Weights, teacher: Weights, reading: Reading):
    inside = _on_device(reading.inside)
    return _on_device(weights), _on_device(teacher), reading._replace(inside=inside)


def width_of(runs: int) -> int:
    """How many runs are computed together."""
    return 1 if on_one_cpu() else rounded_up(runs, jax.device_count())


@eqx.filter_jit
def _memory(system: System, weights: Weights, teacher: Weights) -> Memory:
    return bound(system, weights, teacher).init(weights)


@eqx.filter_jit
def _record(
    system: System,
    reader: Reader,
    moving: Moving,
    teacher: Weights,
    keys: Array,
    first: Array,
    targets: Array,
    count: Array,
) -> tuple[Moving, Any]:
    """Steps of every run, whose weights and memory have a leading axis of runs."""

    def one(moving: Moving, key: Array) -> tuple[Moving, Any]:
        rule = bound(system, moving[0], teacher)
        body = lambda i, now: rule.step(now[0], now[1], Source(key, i))
        advance = lambda now, _, at, end: (jax.lax.fori_loop(at, end, body, now[0]), end)

        def read(now: tuple[Moving, Array]) -> Any:
            watched = _watch(system, reader, rule, now[0], key, now[1])
            return reader(now[0][0], teacher, watched=watched)

        begin = moving, jnp.asarray(first)
        (moving, _), rows = record_steps(advance, read, begin, first, targets, count)
        return moving, rows

    # Steps on one vector are 5 % faster mapped over one run than without the axis; products and
    # convolutions of batches would become batched and grouped ones, which are slower.
    if len(keys) > 1 or system.network.takes_one:
        return jax.vmap(one)(moving, keys)
    return jax.tree.map(lambda leaf: leaf[None], one(moving_of(moving), keys[0]))


@eqx.filter_jit
def _read(reader: Reader, weights: Weights, teacher: Weights, losses: Any, watched: Any) -> Any:
    return reader(weights, teacher, losses, watched)


@eqx.filter_jit
def _watched(
    system: System, reader: Reader, moving: Moving, teacher: Weights, keys: Array, index: Array
) -> Any:
    moving = moving_of(moving)
    return _watch(system, reader, bound(system, moving[0], teacher), moving, keys[0], index)


def _watch(
    system: System, reader: Reader, rule: Bound, moving: Moving, key: Array, index: Array
) -> Any:
    """What is read of the step that follows."""
    if not reader.watching:
        return {}
    step = step_of(system.problem, rule, moving[1], key, index)
    return reader.watch(Model(system.network, moving[0]), step)


def _held(tree: Any) -> tuple[list[Array], Any]:
    """The arrays of a tree, and what of it is no array, apart: a call then costs less."""
    leaves, structure = jax.tree.flatten(tree)
    is_array = lambda leaf: isinstance(leaf, jax.Array | np.ndarray | np.generic)
    arrays = [jnp.asarray(leaf) for leaf in leaves if is_array(leaf)]
    return arrays, (structure, tuple(None if is_array(leaf) else leaf for leaf in leaves))


@functools.partial(jax.jit, static_argnums=0)
def _single(held: Any, arrays: list[Array], moving: Moving, keys: Array, index: Array) -> Moving:
    """One step of one run."""
    structure, rest = held
    given = iter(arrays)
    leaves = [next(given) if leaf is None else leaf for leaf in rest]
    system, teacher = jax.tree.unflatten(structure, leaves)
    step = bound(system, moving_of(moving)[0], teacher).step
    moved = step(*moving_of(moving), Source(keys[0], index))
    return jax.tree.map(lambda leaf: leaf[None], moved)


def moving_of(moving: Moving) -> Moving:
    """Weights and memory of the first run."""
    return jax.tree.map(lambda leaf: leaf[0], moving)


def bound(system: System, weights: Weights, teacher: Weights) -> Bound:
    """The rule of a system, in the precision of the weights."""
    dtype = jax.tree.leaves(weights)[0].dtype
    return system.rule.bind(system.problem, system.network, teacher, dtype)


def _copies(tree: Any, number: int) -> Any:
    return jax.tree.map(lambda w: np.stack([np.asarray(w)] * number), tree)
