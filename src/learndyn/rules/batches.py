"""Which examples a step sees."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.checks import a_kind
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array
from learndyn.problems import AbstractProblem

SAMPLINGS = ("replacement", "epochs")


class Batches(NamedTuple):
    """Draws examples, step by step.

    Attributes:
        init: what is carried, before the first step.
        draw: (carried, source) → inputs, targets, carried.
        seen: (carried, source) → which examples these are, (batch,), of the step that comes or,
            of the same source, that came last; None where examples are fresh.
    """

    init: Callable[[], Any]
    draw: Callable[[Any, Source], tuple[Array, Array, Any]]
    seen: Callable[[Any, Source], Array] | None = None


def check_batches(problem: AbstractProblem, batch: int, sampling: str) -> None:
    """Raises a ValueError for passes over examples that are drawn fresh, or too few."""
    if sampling != "epochs":
        return
    every = problem.examples()
    if every is None:
        raise ValueError(
            f"sampling: got 'epochs' for {a_kind(problem)}, whose examples are fresh; "
            "allowed with a Dataset, or 'replacement'"
        )
    if batch > len(every.x):
        raise ValueError(
            f"batch: got {batch} for passes over {len(every.x)} examples; allowed are at most those"
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
        network: which says whether one example may come without a batch axis.
        teacher: the teacher's weights.
        dtype: precision.
        batch: examples a step.
        sampling: "replacement": each is drawn anew; "epochs": shuffled passes over all, of which
            a last batch that is too short is left out.

    Returns:
        What draws them.
    """
    if sampling == "epochs":
        return _passes(problem, batch, dtype)
    sample = problem.sampler(teacher, dtype)
    # A batch axis of length one would turn products of vectors into slower ones of matrices.
    shape = () if batch == 1 and network.takes_one else (batch,)
    draw = lambda carried, source: (*sample(source, shape), carried)
    index = problem.drawn
    seen = None if index is None else (lambda carried, source: index(source, (batch,)))
    return Batches(tuple, draw, seen)


def _passes(problem: AbstractProblem, batch: int, dtype) -> Batches:
    every = problem.examples()
    assert every is not None
    count = len(every.x)
    steps = count // batch

    def at(shuffled: Array, source: Source) -> tuple[Array, Array]:
        place = source.step % steps
        shuffled = jax.lax.cond(place == 0, lambda: source.permutation(count), lambda: shuffled)
        return jax.lax.dynamic_slice(shuffled, (place * batch,), (batch,)), shuffled

    def draw(shuffled: Array, source: Source) -> tuple[Array, Array, Array]:
        index, shuffled = at(shuffled, source)
        return (*every.take(index, dtype), shuffled)

    seen = lambda shuffled, source: at(shuffled, source)[0]
    return Batches(lambda: jnp.zeros(count, jnp.int32), draw, seen)
