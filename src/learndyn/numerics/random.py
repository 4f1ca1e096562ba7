"""Counter-based random numbers, generated inside compiled loops.

Philox4x32-10 (Salmon et al., SC 2011): the draw at (key, step, lane, index) is a pure
function of the four, so a run can be cut, resumed or placed beside others without
changing its numbers. It is used in place of `jax.random` because the direct engine
spends nearly all of its time on random numbers, and Philox needs a third of the
integer operations of Threefry. Needs 64-bit integers: call it under `jax.enable_x64`.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

Word = UInt32[Array, "..."]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]) -> tuple[Word, ...]:
    """Ten rounds of Philox4x32 on one counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = _multiply(c0, _MULTIPLIERS[0])
        high1, low1 = _multiply(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + jnp.uint32(_WEYL[0]), k1 + jnp.uint32(_WEYL[1])
    return c0, c1, c2, c3


class Source(eqx.Module):
    """The random numbers of one step of one run.

    Args:
        words: the run's key, two 32-bit words.
        step: index of the step, below 2^63.
    """

    words: UInt32[Array, "2"]
    step: Array

    def normal(self, shape: tuple[int, ...], dtype, lane: int = 0) -> Array:
        """Standard normal numbers; each `lane` is an independent stream."""
        double = jnp.dtype(dtype) == jnp.float64
        size = math.prod(shape)
        words = self._words(2 * size if double else size, lane)
        uniform = _unit53(words[:size], words[size:]) if double else _unit23(words)
        return (math.sqrt(2) * jax.lax.erf_inv(2 * uniform - 1)).astype(dtype).reshape(shape)

    def integers(self, shape: tuple[int, ...], bound: int, lane: int = 0) -> Array:
        """Integers 0 … bound − 1, uniform up to a bias of bound / 2^32."""
        words = self._words(math.prod(shape), lane).astype(jnp.uint64)
        return ((words * jnp.uint64(bound)) >> 32).astype(jnp.int32).reshape(shape)

    def _words(self, size: int, lane: int) -> Word:
        index = jnp.arange((size + 3) // 4, dtype=jnp.uint32)
        step = self.step.astype(jnp.uint64)
        low, high = step.astype(jnp.uint32), (step >> 32).astype(jnp.uint32)
        counter = (index, low, high, jnp.asarray(lane, jnp.uint32))
        return jnp.concatenate(philox(counter, (self.words[0], self.words[1])))[:size]


def run_words(key: int, run: int) -> UInt32[Array, "2"]:
    """The two key words of one run: they depend on `key` and `run` alone."""
    return jax.random.key_data(jax.random.fold_in(jax.random.key(key), run))


def _multiply(a: Word, b: int) -> tuple[Word, Word]:
    product = a.astype(jnp.uint64) * jnp.uint64(b)
    return (product >> 32).astype(jnp.uint32), product.astype(jnp.uint32)


def _unit23(words: Word) -> Array:
    # Midpoints of 2^23 cells: never 0 or 1, so erf_inv stays finite.
    return ((words >> 9).astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-23)


def _unit53(high: Word, low: Word) -> Array:
    joined = (high.astype(jnp.uint64) << 20) | (low.astype(jnp.uint64) >> 12)
    return (joined.astype(jnp.float64) + 0.5) * 2.0**-52
