"""The direct engine: every step of the rule on the full weights.

Fresh examples are generated inside the compiled loop, so memory does not grow with the number of
steps. On a CPU each run is a task of its own in a pool of threads. This is as fast as one batched
kernel, and the result of a run is bit for bit independent of the other runs. On other devices all
runs of a start are one batched kernel, spread over all devices.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import Model
from learndyn.numerics.random import Source, keys_of_runs
from learndyn.rules import Bound
from learndyn.rules.base import Memory
from learndyn.rules.watching import step_of
from learndyn.runtime.jaxprs import equations
from learndyn.runtime.pieces import Piece
from learndyn.runtime.stepping import blank_rows, record_steps, with_row
from learndyn.runtime.types import Array, Weights
from learndyn.simulation.following import Group
from learndyn.simulation.parallel import on_one_cpu, rounded_up, spread
from learndyn.simulation.reading import Reader, Reading
from learndyn.system import System

# Weights, the rule's memory, and what probes of steps carry; with a leading axis of runs.
Moving = tuple[Weights, Memory, tuple[Any, ...]]
Begin = Callable[[int], tuple[Weights, Weights, Reading]]


class Carried(NamedTuple):
    """The state of a group of runs: weights and memory, and what no step changes."""

    moving: Moving
    keys: Array
    teacher: Weights
    reading: Reading


class Direct:
    """The engine.

    Args:
        system: the system.
        begin: number of a start → its weights in the precision of the run, its teacher, and what
            to read.
        key: seed of the first start; run r of start s depends on (key + s, r) alone.
        width: the number of runs computed together.
    """

    def __init__(self, system: System, begin: Begin, key: int, width: int):
        self._system = _on_device(system)
        # Runs of one start share these arrays, and only a few starts are under way at a time.
        self._begin = functools.lru_cache(maxsize=4)(lambda number: _placed(*begin(number)))
        self._key, self._width = key, width
        self._stepwise = on_one_cpu() and _convolves(system, self._begin(0)[0])

    def begin(self, group: Group) -> Carried:
        """Copies of the start's weights, with the memory before the first step."""
        weights, teacher, reading = self._begin(group.start)
        memory = _memory(self._system, reading.inside, weights, teacher)
        copies = lambda leaf: np.stack([np.asarray(leaf)] * self._width)
        moving = jax.tree.map(copies, (weights, *memory))
        keys = np.asarray(keys_of_runs(self._key + group.start, group.filled(self._width))).T
        return Carried(spread(moving, 0), spread(keys, 0), teacher, reading)

    def record(self, carried: Carried, piece: Piece) -> tuple[Carried, Any]:
        """Takes the steps of a piece as one compiled loop, or one by one if that is faster."""
        if self._stepwise:
            moving, rows = self._by_single_steps(carried, piece)
        else:
            moving, keys, teacher, reading = carried
            at = piece.first, piece.targets, piece.number
            moving, rows = _record(self._system, reading.inside, moving, teacher, keys, *at)
        if carried.reading.inside.watching:
            rows = _finished(carried.reading.inside, rows, piece.number), rows[1]
        return carried._replace(moving=moving), rows

    def between(self, carried: Carried, place: int) -> Any:
        """Reads what cannot be traced."""
        outside = carried.reading.outside
        if not outside.names:
            return None
        weights, memory = jax.tree.map(lambda w: np.asarray(w[place]), carried.moving[:2])
        teacher = teacher_of(self._system, memory, carried.teacher)
        return outside(weights, jax.tree.map(np.asarray, teacher))

    def _by_single_steps(self, carried: Carried, piece: Piece) -> tuple[Moving, Any]:
        """Takes every step by a call from Python.

        On CPUs XLA has no fast convolution inside a compiled loop (a factor of 28 for 3 × 3
        windows over digits).
        """
        moving, keys, teacher, (inside, *_) = carried
        arrays, held = _held((self._system, teacher))
        at, read = int(piece.first), []
        for target in piece.targets[: max(int(piece.number), 1)]:
            for index in range(at, int(target) + (not piece.number)):
                moved = _single(held, arrays, moving, keys, np.int64(index))
                # An empty piece compiles the step and discards its result.
                moving = moved if piece.number else moving
            at = int(target)
            weights, memory, _ = moving_of(moving)
            now = teacher_of(self._system, memory, teacher)
            seen, moving = _watched(self._system, inside, moving, teacher, keys, np.int64(at))
            known = {name: value for each in seen for name, value in each.items()}
            losses = inside.on_examples(weights, known, looped=False)
            read.append(_read(inside, weights, now, losses, seen))
        stacked = jax.tree.map(lambda *rows: np.stack([np.asarray(r) for r in rows])[None], *read)
        return moving, stacked


def _convolves(system: System, weights: Weights) -> bool:
    """Whether the network has convolutions, and hence its gradient too."""
    dtype = jnp.dtype(system.problem.input_dtype)
    dtype = jax.tree.leaves(weights)[0].dtype if jnp.issubdtype(dtype, jnp.floating) else dtype
    x = jax.ShapeDtypeStruct((1, *system.problem.input_shape), dtype)
    jaxpr = jax.make_jaxpr(system.network)(weights, x)
    return any(e.primitive.name == "conv_general_dilated" for e in equations(jaxpr))


def _on_device(tree: Any) -> Any:
    """Puts NumPy arrays on the device, so that a data set is not copied at every call."""
    place = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf
    return jax.tree.map(place, tree)


def _placed(weights: Weights, teacher: Weights, reading: Reading):
    inside = _on_device(reading.inside)
    return _on_device(weights), _on_device(teacher), reading._replace(inside=inside)


def width_of(runs: int) -> int:
    """The number of runs computed together."""
    return 1 if on_one_cpu() else rounded_up(runs, jax.device_count())


@eqx.filter_jit
def _memory(
    system: System, reader: Reader, weights: Weights, teacher: Weights
) -> tuple[Memory, tuple[Any, ...]]:
    """The memory of the rule, and what probes of steps carry to their first reading."""
    carried = reader.begin(Model(system.network, weights), system.problem)
    carried = jax.tree.map(jnp.asarray, carried)
    return bound(system, weights, teacher).init(weights), carried


def like_of(system: System, reader: Reader, weights: Weights, teacher: Weights) -> Any:
    """The shapes of what is read of one run, before and after it is finished."""
    if not reader.watching:
        like = jax.eval_shape(reader, weights, teacher)[0]
        return like, like
    return eqx.filter_eval_shape(_first_reading, system, reader, weights, teacher)


@eqx.filter_jit  # so that it is traced once
def _first_reading(
    system: System, reader: Reader, weights: Weights, teacher: Weights
) -> tuple[Any, Any]:
    moving = weights, *_memory(system, reader, weights, teacher)
    rule, key = bound(system, weights, teacher), jnp.zeros(2, jnp.uint32)
    seen, _ = _watch(system, reader, rule, moving, key, jnp.asarray(0))
    values, _ = reader(weights, teacher, seen=seen)
    return values, reader.finished(values)


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
    """Takes the steps of every run; weights and memory have a leading axis of runs."""

    def one(moving: Moving, key: Array) -> tuple[Moving, Any]:
        rule = bound(system, moving[0], teacher)

        def step(index: Array, moving: Moving) -> Moving:
            weights, memory, carried = moving
            return *rule.step(weights, memory, Source(key, index)), carried

        def read(index: Array, moving: Moving) -> tuple[Any, Moving]:
            seen, carried = _watch(system, reader, rule, moving, key, index)
            now = teacher_of(system, moving[1], teacher)
            return reader(moving[0], now, seen=seen), (*moving[:2], carried)

        return record_steps(step, read, moving, first, targets, count)

    # With inputs of one example, steps are 5 % faster mapped over a single run than without that
    # axis. With batches, products would become batched and convolutions grouped, which is slower.
    if len(keys) > 1 or system.network.accepts_single_example:
        return jax.vmap(one)(moving, keys)
    return jax.tree.map(lambda leaf: leaf[None], one(moving_of(moving), keys[0]))


@eqx.filter_jit
def _finished(reader: Reader, rows: Any, count: Array) -> Any:
    """The values of the record, (runs, targets, …), of which those beyond `count` have no meaning.

    On a CPU one after the other, as many as there are; elsewhere all together.
    """
    values, _ = rows

    def looped(values: Any) -> Any:
        at = lambda values, i: jax.tree.map(lambda leaf: leaf[i], values)

        def one(values: Any) -> Any:
            made = blank_rows(jax.eval_shape(reader.finished, at(values, 0)), length)
            fill = lambda i, made: with_row(made, i, reader.finished(at(values, i)))
            return jax.lax.fori_loop(0, count, fill, made)

        return jax.lax.map(one, values)

    length = jax.tree.leaves(values)[0].shape[1]
    together = jax.vmap(jax.vmap(reader.finished))
    return jax.lax.platform_dependent(values, cpu=looped, default=together)


@eqx.filter_jit
def _read(reader: Reader, weights: Weights, teacher: Weights, losses: Any, seen: Any) -> Any:
    return reader(weights, teacher, losses, seen)


@eqx.filter_jit
def _watched(
    system: System, reader: Reader, moving: Moving, teacher: Weights, keys: Array, index: Array
) -> tuple[Any, Moving]:
    one = moving_of(moving)
    rule = bound(system, one[0], teacher)
    seen, carried = _watch(system, reader, rule, one, keys[0], index)
    return seen, (*moving[:2], jax.tree.map(lambda leaf: leaf[None], carried))


def _watch(
    system: System, reader: Reader, rule: Bound, moving: Moving, key: Array, index: Array
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What the probes of steps read of the next step, and what they carry to the next reading."""
    weights, memory, carried = moving
    if not reader.watching:
        return (), carried
    step = step_of(system.problem, system.rule, rule, memory, key, index)
    return reader.watch(Model(system.network, weights), step, carried)


def _held(tree: Any) -> tuple[list[Array], Any]:
    """The arrays of a tree, and the rest of it as a hashable.

    `jax.jit` with the rest as a static argument has less overhead per call than filtering the
    tree at every call.
    """
    leaves, structure = jax.tree.flatten(tree)
    is_array = lambda leaf: isinstance(leaf, jax.Array | np.ndarray | np.generic)
    arrays = [jnp.asarray(leaf) for leaf in leaves if is_array(leaf)]
    return arrays, (structure, tuple(None if is_array(leaf) else leaf for leaf in leaves))


@functools.partial(jax.jit, static_argnums=0)
def _single(held: Any, arrays: list[Array], moving: Moving, keys: Array, index: Array) -> Moving:
    """One step of one run."""
    structure, rest = held
    remaining = iter(arrays)
    leaves = [next(remaining) if leaf is None else leaf for leaf in rest]
    system, teacher = jax.tree.unflatten(structure, leaves)
    weights, memory, carried = moving_of(moving)
    moved = bound(system, weights, teacher).step(weights, memory, Source(keys[0], index))
    return jax.tree.map(lambda leaf: leaf[None], (*moved, carried))


def moving_of(moving: Moving) -> Moving:
    """Weights and memories of the first run."""
    return jax.tree.map(lambda leaf: leaf[0], moving)


def bound(system: System, weights: Weights, teacher: Weights) -> Bound:
    """The rule of a system, bound to its problem and network in the precision of the weights.

    A teacher that moves is the second part of the memory.
    """
    dtype, problem = jax.tree.leaves(weights)[0].dtype, system.problem
    at = lambda teacher: system.rule.bind(problem, system.network, teacher, dtype)
    if not problem.moves_teacher:
        return at(teacher)

    def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
        own, teacher = memory
        weights, own = at(teacher).step(weights, own, source)
        return weights, (own, problem.moved_teacher(teacher, source))

    begin = lambda weights: (at(teacher).init(weights), jax.tree.map(jnp.asarray, teacher))
    return Bound(begin, step, lambda memory, step: at(memory[1]).rate(memory[0], step))


def teacher_of(system: System, memory: Memory, teacher: Weights) -> Weights:
    """The teacher when a rule has this memory."""
    return memory[1] if system.problem.moves_teacher else teacher
