"""Counter-based random bits: pure functions of (key, step, stream, index).

A run can therefore be cut, resumed or placed beside others without changing its numbers. There are
two generators:

- "SplitMix64", the default: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over a
  Weyl sequence, whose increment and offset Philox draws once per step and stream. Most of the cost
  of a simulated step is its random numbers, and these take a third of the time of Philox.
- "Philox4x32-10" (Salmon et al., SC 2011): ten rounds per four words. It was the only one in
  version 0.1.0, so that records of that version are reproduced with it.

`with generator(name):` selects one. `jax.random` is not used for these numbers: its Threefry needs
three times as many operations as Philox. All of this needs 64-bit integers: call it under
`jax.enable_x64`.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

from learndyn.runtime.checks import one_of
from learndyn.runtime.jax_versions import set_globally

Word = UInt32[Array, "..."]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_STAFFORD = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_KEYING = 0x5EED  # the counter at which Philox draws the keys of SplitMix64; any would do


class Philox(NamedTuple):
    """The bits of one stream of one step, by Philox; axes of key and step are broadcast."""

    key: tuple[Word, Word]
    step: tuple[Word, Word]
    stream: int

    @classmethod
    def of(cls, key: UInt32[Array, "2 ..."], step: Array, stream: int) -> "Philox":
        """The bits of a stream."""
        return cls((key[0], key[1]), _halves(step.astype(jnp.uint64)), stream)

    def words(self, index: Word) -> Word:
        """32 bits at each index."""
        a, b, c, d = self.call(index >> 2)
        first, second = (index & 1).astype(bool), (index & 2).astype(bool)
        return jnp.where(second, jnp.where(first, d, c), jnp.where(first, b, a))

    def long_words(self, index: Word) -> Array:
        """64 bits at each index."""
        a, b, _, _ = self.call(index)
        return join(a, b)

    def pairs(self, index: Word) -> tuple[Word, Word]:
        """Two independent words of 32 bits at each index."""
        a, b, c, d = self.call(index >> 1)
        second = (index & 1).astype(bool)
        return jnp.where(second, c, a), jnp.where(second, d, b)

    def long_pairs(self, index: Word) -> tuple[Array, Array]:
        """Two independent words of 64 bits at each index."""
        a, b, c, d = self.call(index)
        return join(a, b), join(c, d)

    def call(self, index: Word) -> tuple[Word, ...]:
        """The four words of one call."""
        low, high = self.step
        stream = jnp.asarray(int(self.stream), jnp.uint32)
        return philox((index, low, high, stream), self.key)


class SplitMix(NamedTuple):
    """The bits of one stream of one step, by SplitMix64; axes of key and step are broadcast."""

    increment: Array
    offset: Array

    @classmethod
    def of(cls, key: UInt32[Array, "2 ..."], step: Array, stream: int) -> "SplitMix":
        """The bits of a stream, whose increment and offset are drawn here."""
        draw = lambda: jnp.stack(Philox.of(key, step, stream).call(jnp.uint32(_KEYING)))
        a, b, c, d = drawn_once(draw, jnp.all(step >= 0))
        return cls(join(a, b) | jnp.uint64(1), join(c, d))  # odd, so that it visits all words

    def words(self, index: Word) -> Word:
        """32 bits at each index."""
        return self.pairs(index)[0]

    def long_words(self, index: Array) -> Array:
        """64 bits at each index."""
        z = index.astype(jnp.uint64) * self.increment + self.offset
        for shift, multiplier in _STAFFORD:
            z = (z ^ (z >> shift)) * jnp.uint64(multiplier)
        return z ^ (z >> 31)

    def pairs(self, index: Word) -> tuple[Word, Word]:
        """Two independent words of 32 bits at each index."""
        low, high = _halves(self.long_words(index))
        return high, low

    def long_pairs(self, index: Word) -> tuple[Array, Array]:
        """Two independent words of 64 bits at each index."""
        first = index.astype(jnp.uint64) * jnp.uint64(2)
        return self.long_words(first), self.long_words(first + jnp.uint64(1))


GENERATORS = {"SplitMix64": SplitMix, "Philox4x32-10": Philox}
# Part of the key of JAX's caches: a function compiled with one generator is compiled again.
_selected = jax.make_user_context("SplitMix64")


@contextlib.contextmanager
def generator(name: str) -> Iterator[None]:
    """Selects the generator of all simulations within the block, in the whole process.

    Records name it in their attribute `generator`. Processes that are started within the block, as
    by a sweep, do not inherit the choice.

    Args:
        name: "SplitMix64", which is the default, or "Philox4x32-10".

    Yields:
        Nothing.

    Example:
        >>> from learndyn.numerics.generators import generator, selected
        >>> with generator("Philox4x32-10"):
        ...     selected()
        'Philox4x32-10'
        >>> selected()
        'SplitMix64'
    """
    one_of("name", name, tuple(GENERATORS))
    before = selected()
    # Global, not of this thread: public calls and groups of runs have threads of their own.
    set_globally(_selected, name)
    try:
        yield
    finally:
        set_globally(_selected, before)


def selected() -> str:
    """The name of the generator in use."""
    return _selected.value


def bits_of(key: UInt32[Array, "2 ..."], step: Array, stream: int) -> Philox | SplitMix:
    """The bits of a stream, by the generator in use."""
    return GENERATORS[selected()].of(key, step, stream)


def philox(counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]) -> tuple[Word, ...]:
    """Ten rounds of Philox4x32 on a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = _multiply(c0, _MULTIPLIERS[0])
        high1, low1 = _multiply(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + jnp.uint32(_WEYL[0]), k1 + jnp.uint32(_WEYL[1])
    return c0, c1, c2, c3


def drawn_once(draw: Callable[[], Array], true: Array) -> Array:
    """draw(), computed once: otherwise XLA's CPU compiler repeats the draw at every use.

    The compiler fuses elementwise operations into each of their uses, but not across a branch.
    `true` is a condition that always holds, which the compiler does not know.
    """
    like = jax.eval_shape(draw)
    branch = lambda: jax.lax.cond(true, draw, lambda: jnp.zeros(like.shape, like.dtype))
    return jax.lax.platform_dependent(cpu=branch, default=draw)


def join(high: Word, low: Word) -> Array:
    """The words of 64 bits with the given halves."""
    return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)


def _halves(word: Array) -> tuple[Word, Word]:
    """The lower and the upper half of 64 bits."""
    return word.astype(jnp.uint32), (word >> 32).astype(jnp.uint32)


def _multiply(a: Word, b: int) -> tuple[Word, Word]:
    low, high = _halves(a.astype(jnp.uint64) * jnp.uint64(b))
    return high, low
