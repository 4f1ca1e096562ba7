"""Which examples each step sees."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.runtime.checks import a_kind
from learndyn.runtime.types import Array, Weights

SAMPLINGS = ("replacement", "epochs")


class Batches(NamedTuple):
    """Draws the examples of each step.

    Attributes:
        init: the carried state before the first step.
        draw: (state, source) → inputs, targets, the next state.
        seen: (state, source) → indices of the examples, (batch,), of the next step, or of the last
            step if the source is that of the last step; None if examples are fresh.
    """

    init: Callable[[], Any]
    draw: Callable[[Any, Source], tuple[Array, Array, Any]]
    seen: Callable[[Any, Source], Array] | None = None


def check_batches(problem: AbstractProblem, batch: int, sampling: str) -> None:
    """Raises a ValueError for epochs without a data set, or with one smaller than a batch."""
    if sampling != "epochs":
        return
    every = problem.examples()
    if every is None:
        raise ValueError(
            f"sampling: got 'epochs' for {a_kind(problem)}, which draws fresh examples; "
            "allowed is 'replacement', or 'epochs' with a Dataset"
        )
    if batch > len(every.x):
        raise ValueError(
            f"batch: got {batch} for epochs of {len(every.x)} examples; allowed are at most as many"
        )


def batches(
    problem: AbstractProblem,
    network: AbstractNetwork,
    teacher: Weights,
    dtype,
    batch: int,
    sampling: str,
) -> Batches:
    """The examples of every step.

    Args:
        problem: where examples come from.
        network: the student, which may accept a single example without a batch axis.
        teacher: the teacher's weights.
        dtype: precision.
        batch: examples per step.
        sampling: "replacement" draws each example independently; "epochs" goes through all
            examples in a new random order each time, without an incomplete last batch.

    Returns:
        The functions that draw them.
    """
    if sampling == "epochs":
        return _passes(problem, batch, dtype)
    sample = problem.sampler(teacher, dtype)
    # A batch axis of length one would turn matrix-vector products into slower matrix products.
    shape = () if batch == 1 and network.accepts_single_example else (batch,)
    draw = lambda carried, source: (*sample(source, shape), carried)
    index = problem.drawn
    # The same source draws the same indices again: nothing has to be remembered.
    seen = None if index is None else (lambda carried, source: index(source, (batch,)))
    return Batches(tuple, draw, seen)


def _passes(problem: AbstractProblem, batch: int, dtype) -> Batches:
    every = problem.examples()
    assert every is not None
    count = len(every.x)
    steps = count // batch

    def at(shuffled: Array, source: Source) -> tuple[Array, Array]:
        place = source.step % steps
        # The order is drawn at the first step of an epoch and carried along until its last one.
        shuffled = jax.lax.cond(place == 0, lambda: source.permutation(count), lambda: shuffled)
        return jax.lax.dynamic_slice(shuffled, (place * batch,), (batch,)), shuffled

    def draw(shuffled: Array, source: Source) -> tuple[Array, Array, Array]:
        index, shuffled = at(shuffled, source)
        return (*every.take(index, dtype), shuffled)

    seen = lambda shuffled, source: at(shuffled, source)[0]
    return Batches(lambda: jnp.zeros(count, jnp.int32), draw, seen)
