"""Counter-based random numbers, generated inside compiled loops.

Philox4x32-10 (Salmon et al., SC 2011): the draw at (key, step, stream, index) is a pure
function of the four, so a run can be cut, resumed or placed beside others without
changing its numbers. It is used in place of `jax.random` because the engines spend most
of their time on random numbers, and Philox needs a third of the integer operations of
Threefry. Needs 64-bit integers: call it under `jax.enable_x64`.

Normal numbers come from the Box-Muller transform, chi-squares from the rejection sampler
of Marsaglia and Tsang (ACM TOMS 26, 2000), repeated until accepted: both are exact. Every
number, or pair of float32 numbers, is one elementwise expression of its own index, though
several share a call of Philox: on CPUs this becomes one vectorised loop, where gathering the
four words of a call into one array took ten times as long. Sines and cosines are polynomials
for the same reason. Against
the inverse error function Box-Muller takes half the time in float32, four fifths in float64.
"""

import enum
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

Word = UInt32[Array, "..."]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
HELD_OUT_KEY = 2**31 - 1  # key of held-out examples: the same for every seed of the runs


class Stream(enum.IntEnum):
    """What the random numbers of a step are used for; each use has its own stream."""

    EXAMPLES = 0  # inputs, or which examples of a data set
    LABEL_NOISE = 1
    CHI_NORMAL = 2  # the normal and the uniform number of one trial for a chi-square
    CHI_UNIFORM = 3
    SHUFFLE = 4  # the order of a pass over a data set
    NODES = 5  # perturbations of nodes


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


class Source(eqx.Module):
    """The random numbers of one step of one run, or of several steps and runs by broadcasting.

    Args:
        key: key of the run, two 32-bit words; further axes are further runs.
        step: index of the step, below 2^63.
    """

    key: UInt32[Array, "2 ..."]
    step: Array

    def normal(
        self, shape: tuple[int, ...], dtype, stream: int = Stream.EXAMPLES, first: int = 0
    ) -> Array:
        """Standard normal numbers from index `first` on; streams share no numbers."""
        true, count = self.step >= 0, math.prod(shape)
        if jnp.dtype(dtype) == jnp.float64:
            index = jnp.arange(count, dtype=jnp.uint32) + jnp.uint32(first)
            return _drawn_once(lambda: self.normal_at(index, dtype, stream), true).reshape(shape)
        pairs = jnp.arange(first // 2, (first + count + 1) // 2, dtype=jnp.uint32)
        words = _drawn_once(lambda: self._packed_pairs(pairs, stream), true)
        skip = first % 2
        unpack = lambda: _unpacked(words)[skip : skip + count].reshape(shape)
        # A branch of its own: fused into each use, unpacking would cost what packing gains.
        return _drawn_once(unpack, true)

    def _packed_pairs(self, pair: Word, stream: int) -> Array:
        """Both float32 normals of each Box-Muller pair, as one 64-bit word per pair.

        Every element computes what it returns, so that a pair shares its logarithm, sine and cosine
        and its call of Philox; two arrays of results would be computed twice.
        """
        a, b, c, d = self._call(pair >> 1, stream)
        second = (pair & 1).astype(bool)
        even, odd = _both_normals(jnp.where(second, c, a), jnp.where(second, d, b))
        bits = lambda x: jax.lax.bitcast_convert_type(x, jnp.uint32)
        return _join(bits(odd), bits(even))

    def normal_at(self, index: Word, dtype, stream: int = Stream.EXAMPLES) -> Array:
        """The standard normal numbers at the given indices, broadcast with runs and steps."""
        # One call of Philox gives four words: two normals of 64 bits, or four of 32.
        odd = (index & 1).astype(bool)
        if jnp.dtype(dtype) == jnp.float64:
            a, b, c, d = self._call(index >> 1, stream)
            return _box_muller(_join(a, b), _join(c, d), odd)
        a, b, c, d = self._call(index >> 2, stream)
        second = (index & 2).astype(bool)
        return _box_muller(jnp.where(second, c, a), jnp.where(second, d, b), odd)

    def uniform_at(self, index: Word, stream: int = Stream.EXAMPLES) -> Array:
        """Uniform float64 numbers in (0, 1] at the given indices."""
        a, b, _, _ = self._call(index, stream)
        return _unit(_join(a, b))

    def integers(self, shape: tuple[int, ...], bound: int, stream: int = Stream.EXAMPLES) -> Array:
        """Integers 0 … bound − 1, uniform up to a bias of bound / 2^32."""
        index = jnp.arange(math.prod(shape), dtype=jnp.uint32)
        a, b, c, d = self._call(index >> 2, stream)
        first, second = (index & 1).astype(bool), (index & 2).astype(bool)
        word = jnp.where(second, jnp.where(first, d, c), jnp.where(first, b, a))
        # The upper half of a product, with the same bias as a remainder but without a division.
        scaled = (word.astype(jnp.uint64) * jnp.uint64(bound)) >> 32
        return scaled.astype(jnp.int32).reshape(shape)

    def permutation(self, size: int) -> Array:
        """The integers 0 … size − 1 in random order, every order as likely as any other."""
        index = jnp.arange(size, dtype=jnp.uint32)
        # Sorting 64 random bits per entry: two of n entries coincide with probability n²/2^65.
        a, b, _, _ = self._call(index, Stream.SHUFFLE)
        return jnp.argsort(_join(a, b)).astype(jnp.int32)

    def chi_square_at(self, index: Word, degrees: Array) -> Array:
        """Chi-square numbers in float64, at the given indices, of non-negative degrees of freedom.

        With d = degrees/2 − 1/3, y = x/√(9d) and x normal, 2d (1 + y)³ is accepted with
        probability exp{3d [log(1 + y) − y + y²/2 − y³/3]} ≤ 1, for any d > 0. Zero degrees of
        freedom give 0. The number at one index does not depend on the other indices.
        """
        shape = jnp.broadcast_shapes(
            index.shape, self.step.shape, self.key.shape[1:], degrees.shape
        )
        index, degrees = jnp.broadcast_to(index, shape), jnp.broadcast_to(degrees, shape)
        d = jnp.maximum(degrees, 1) / 2 - 1 / 3

        def trial(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            count, value, done = carry
            place = index + (count << 20)  # trials of one index lie 2^20 apart
            y = self.normal_at(2 * place, jnp.float64, Stream.CHI_NORMAL) / jnp.sqrt(9 * d)
            # y ≤ −1 is rejected below; here it must only not give a logarithm of zero.
            safe = jnp.maximum(y, -1 + 2.0**-53)
            chance = 3 * d * (jnp.log1p(safe) - y * (1 - y * (1 / 2 - y / 3)))
            accepted = (y > -1) & (jnp.log(self.uniform_at(place, Stream.CHI_UNIFORM)) < chance)
            value = jnp.where(done, value, 2 * d * (1 + y) ** 3)
            return count + 1, value, done | accepted

        begin = (jnp.uint32(0), jnp.zeros(shape), degrees == 0)
        return jax.lax.while_loop(lambda carry: ~jnp.all(carry[2]), trial, begin)[1]

    def _call(self, index: Word, stream: int) -> tuple[Word, ...]:
        step = self.step.astype(jnp.uint64)
        low, high = step.astype(jnp.uint32), (step >> 32).astype(jnp.uint32)
        counter = (index, low, high, jnp.asarray(int(stream), jnp.uint32))
        return philox(counter, (self.key[0], self.key[1]))


def key_of_run(key: int, run: int) -> UInt32[Array, "2"]:
    """The key of one run, two words that depend only on `key` (below 2^63) and `run`."""
    with jax.enable_x64(True):  # otherwise keys from 2^32 on would lose their upper half
        return _fold(key, run)


def keys_of_runs(key: int, runs: slice) -> UInt32[Array, "2 runs"]:
    """The keys of several runs, as from `key_of_run`; compiled once per number of runs."""
    with jax.enable_x64(True):
        return _keys(np.int64(key), np.arange(runs.start, runs.stop, dtype=np.uint32))


@jax.jit
def _keys(key: Array, runs: Array) -> UInt32[Array, "2 runs"]:
    return jax.vmap(lambda run: _fold(key, run), out_axes=1)(runs)


def _fold(key: int | Array, run: int | Array) -> UInt32[Array, "2"]:
    # The implementation is named because a caller may have set another default.
    seeded = jax.random.key(key, impl="threefry2x32")
    return jax.random.key_data(jax.random.fold_in(seeded, run))


def _drawn_once(draw: Callable[[], Array], true: Array) -> Array:
    """draw(), computed once: otherwise XLA's CPU compiler repeats the draw at every use.

    The compiler fuses elementwise operations into each of their uses, but not across a branch.
    `true` is a condition that always holds, which the compiler does not know.
    """
    like = jax.eval_shape(draw)
    branch = lambda: jax.lax.cond(true, draw, lambda: jnp.zeros(like.shape, like.dtype))
    return jax.lax.platform_dependent(cpu=branch, default=draw)


def _multiply(a: Word, b: int) -> tuple[Word, Word]:
    product = a.astype(jnp.uint64) * jnp.uint64(b)
    return (product >> 32).astype(jnp.uint32), product.astype(jnp.uint32)


def _join(high: Word, low: Word) -> Array:
    return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)


def _unit(bits: Array) -> Array:
    """The bits as a number in (0, 1]: never 0, so that its logarithm is finite."""
    n = 8 * bits.dtype.itemsize
    real = jnp.float64 if n == 64 else jnp.float32
    return bits.astype(real) * real(2.0**-n) + real(2.0 ** -(n + 1))


def _unpacked(words: Array) -> Array:
    """The two float32 numbers of each word, the lower half first."""
    return jax.lax.bitcast_convert_type(words, jnp.float32).reshape(-1)


def _box_muller(radius: Array, angle: Array, odd: Array) -> Array:
    """One of the two normal numbers from the bits of a radius and of an angle."""
    first, second = _both_normals(radius, angle)
    return jnp.where(odd, second, first)


def _both_normals(radius: Array, angle: Array) -> tuple[Array, Array]:
    """Two normal numbers from the bits of a radius and of an angle.

    The two highest bits of the angle choose the sign and which of the two is the cosine; the
    other bits are an angle in [−π/4, π/4), where short polynomials are exact to rounding.
    """
    n = 8 * angle.dtype.itemsize
    signed = jnp.int64 if n == 64 else jnp.int32
    u = _unit(radius)
    turn = (angle << 2).astype(signed).astype(u.dtype) * u.dtype.type(math.pi / 2 * 2.0**-n)
    sine, cosine = _sine_cosine(turn)
    swapped = (angle >> (n - 1)) != 0
    size = jnp.sqrt(-2 * jnp.log(u))
    size = jnp.where((angle >> (n - 2)) & 1 != 0, -size, size)
    return jnp.where(swapped, sine, cosine) * size, jnp.where(swapped, cosine, sine) * size


def _sine_cosine(r: Array) -> tuple[Array, Array]:
    """Sine and cosine by Taylor polynomials, exact to rounding for |r| ≤ π/4."""
    terms = 8 if r.dtype == jnp.float64 else 4
    square, real = r * r, r.dtype.type
    sine = cosine = real(0)
    for k in range(terms, 0, -1):
        sign = (-1) ** k
        sine = (sine + real(sign / math.factorial(2 * k + 1))) * square
        cosine = (cosine + real(sign / math.factorial(2 * k))) * square
    return r * (1 + sine), 1 + cosine
