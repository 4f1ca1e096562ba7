"""Philox against the published known answers, and the normal numbers it is turned into."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from learndyn.numerics.random import Source, philox, run_words


def words(*values):
    return tuple(jnp.uint32(v) for v in values)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        # Random123's known-answer file, philox4x32 with 10 rounds.
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter, key, answer):
    with jax.enable_x64(True):
        assert tuple(int(w) for w in philox(words(*counter), words(*key))) == answer


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_normal(dtype):
    with jax.enable_x64(True):
        draw = jax.jit(lambda w, s: Source(w, s).normal((1000,), dtype))
        x = np.concatenate([np.asarray(draw(run_words(3, 0), jnp.asarray(s))) for s in range(200)])
    assert x.dtype == dtype
    assert stats.kstest(x.astype(float), "norm").pvalue > 1e-3
    n = len(x)
    # Standard errors of the first four moments of a normal variable.
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(x.astype(float) ** power) - moment) < 4 * np.sqrt(variance / n)


def test_runs_steps_and_lanes_differ():
    with jax.enable_x64(True):
        first = Source(run_words(0, 0), jnp.asarray(5)).normal((8,), "float32")
        others = [
            Source(run_words(0, 1), jnp.asarray(5)).normal((8,), "float32"),
            Source(run_words(1, 0), jnp.asarray(5)).normal((8,), "float32"),
            Source(run_words(0, 0), jnp.asarray(6)).normal((8,), "float32"),
            Source(run_words(0, 0), jnp.asarray(5 + 2**32)).normal((8,), "float32"),
            Source(run_words(0, 0), jnp.asarray(5)).normal((8,), "float32", lane=1),
        ]
    for other in others:
        assert not np.any(np.asarray(first) == np.asarray(other))
