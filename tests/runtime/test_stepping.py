"""Steps in compiled pieces: what is read does not depend on how they are cut."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.runtime.pieces import SHORTEST, nothing, pieces
from learndyn.runtime.stepping import record_steps
from learndyn.simulation.reduced import record_in_blocks


def in_blocks(y, *at):
    """Adds to y the numbers 1, 2, … of the steps taken, and checks the block they came from."""
    body = lambda base, i, y: y + (base + i + 1)
    advance = lambda y, base, first, last: jax.lax.fori_loop(
        first, last, functools.partial(body, base), y
    )
    kept = {} if len(at) > 3 else {"kept": at[2]}
    options = {"random_numbers": lambda base: base, "block": 4, **kept}
    return record_in_blocks(advance, lambda y: y, y, *at, **options)


def step_by_step(y, *at):
    """Adds to y the numbers 1, 2, … of the steps taken."""
    return record_steps(lambda i, y: y + (i + 1), lambda _, y: (y, y), y, *at)


@pytest.mark.parametrize("record", [in_blocks, step_by_step])
@pytest.mark.parametrize("targets", [[0, 0, 3, 4, 4, 5, 13], [8], [4, 8], [1, 2, 3]])
def test_reads_at_every_target(record, targets):
    with jax.enable_x64(True):
        at = jnp.asarray(0), jnp.asarray(targets), jnp.asarray(len(targets))
        y, rows = record(jnp.asarray(0, jnp.int64), *at)
    sums = [t * (t + 1) // 2 for t in targets]
    np.testing.assert_array_equal(rows, sums)
    assert int(y) == sums[-1]


def test_a_piece_that_ends_between_the_requested_steps_reads_nothing():
    """A reading may take longer than the steps of a piece."""
    with jax.enable_x64(True):
        piece = next(pieces(np.array([10 * SHORTEST]), 3))
        at = [jnp.asarray(n) for n in (piece.first, piece.targets, piece.number, piece.kept)]
        y, rows = in_blocks(jnp.asarray(0, jnp.int64), *at)
    assert int(y) == SHORTEST * (SHORTEST + 1) // 2
    np.testing.assert_array_equal(rows, np.zeros(3))


def test_a_piece_goes_on_where_the_last_one_ended():
    steps = np.array([0, 2, 2, 7, 7 + 3 * SHORTEST])
    asked, last = [], 0
    for piece in pieces(steps, 2):
        assert piece.first == last and len(piece.targets) == 2
        assert piece.steps <= 8 * 3 * SHORTEST
        last = int(piece.targets[-1])
        asked += list(piece.targets[: piece.kept])
    assert asked == list(steps)
    assert nothing(3).number == 0 and len(nothing(3).targets) == 3
