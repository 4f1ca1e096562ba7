"""Steps in compiled pieces: what is read does not depend on how they are cut."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics.pieces import SHORTEST, nothing, pieces
from learndyn.numerics.stepping import record_steps


def advance(y, drawn, at, end):
    """Adds to y the numbers 1, 2, … of the steps taken, and checks the block they came from."""
    body = lambda i, y: y + (i + 1) + (0 if drawn is None else drawn - i // 4)
    return jax.lax.fori_loop(at, end, body, y)


@pytest.mark.parametrize("block", [4, 2**62])
@pytest.mark.parametrize("targets", [[0, 0, 3, 4, 4, 5, 13], [8], [4, 8], [1, 2, 3]])
def test_reads_at_every_target(block, targets):
    draw = (lambda base: base // 4) if block == 4 else (lambda base: None)
    with jax.enable_x64(True):
        begin = jnp.asarray(0, jnp.int64)
        y, rows = record_steps(
            advance, lambda y: y, begin, jnp.asarray(0), jnp.asarray(targets),
            jnp.asarray(len(targets)), draw=draw,
            block=block,
        )  # fmt: skip
    sums = [t * (t + 1) // 2 for t in targets]
    np.testing.assert_array_equal(rows, sums)
    assert int(y) == sums[-1]


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
