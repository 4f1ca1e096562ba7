"""Random numbers of simulations, generated inside compiled loops from the bits of a generator.

Normal numbers come from the Box-Muller transform, chi-squares from the rejection sampler
of Marsaglia and Tsang (ACM TOMS 26, 2000), repeated until accepted: both are exact. Every
number, or pair of float32 numbers, is one elementwise expression of its own index: on CPUs
this becomes one vectorised loop. Sines and cosines are polynomials for the same reason.
Against the inverse error function Box-Muller takes half the time in float32, four fifths in
float64. Needs 64-bit integers: call it under `jax.enable_x64`.
"""

import enum
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from learndyn.numerics.generators import Philox, SplitMix, Word, bits_of, drawn_once, join

HELD_OUT_KEY = 2**31 - 1  # key of held-out examples: the same for every seed of the runs


class Stream(enum.IntEnum):
    """What the random numbers of a step are used for; each use has its own stream."""

    EXAMPLES = 0  # inputs, or which examples of a data set
    LABEL_NOISE = 1
    CHI_NORMAL = 2  # the normal and the uniform number of one trial for a chi-square
    CHI_UNIFORM = 3
    SHUFFLE = 4  # the order of a pass over a data set
    NODES = 5  # perturbations of nodes
    CLUSTERS = 7  # the cluster of an input


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
        true, count, bits = jnp.all(self.step >= 0), math.prod(shape), self._bits(stream)
        if jnp.dtype(dtype) == jnp.float64:
            index = jnp.arange(count, dtype=jnp.uint32) + jnp.uint32(first)
            return drawn_once(lambda: _normals(bits, index, dtype), true).reshape(shape)
        pairs = jnp.arange(first // 2, (first + count + 1) // 2, dtype=jnp.uint32)
        words = drawn_once(lambda: _packed_pairs(bits, pairs), true)
        skip = first % 2
        unpack = lambda: _unpacked(words)[skip : skip + count].reshape(shape)
        # A branch of its own: fused into each use, unpacking would cost what packing gains.
        return drawn_once(unpack, true)

    def normal_at(self, index: Word, dtype, stream: int = Stream.EXAMPLES) -> Array:
        """The standard normal numbers at the given indices, broadcast with runs and steps."""
        return _normals(self._bits(stream), index, dtype)

    def uniform_at(self, index: Word, stream: int = Stream.EXAMPLES) -> Array:
        """Uniform float64 numbers in (0, 1] at the given indices."""
        return _unit(self._bits(stream).long_words(index))

    def integers(self, shape: tuple[int, ...], bound: int, stream: int = Stream.EXAMPLES) -> Array:
        """Integers 0 … bound − 1, uniform up to a bias of bound / 2^32."""
        word = self._bits(stream).words(jnp.arange(math.prod(shape), dtype=jnp.uint32))
        # The upper half of a product, with the same bias as a remainder but without a division.
        scaled = (word.astype(jnp.uint64) * jnp.uint64(bound)) >> 32
        return scaled.astype(jnp.int32).reshape(shape)

    def permutation(self, size: int) -> Array:
        """The integers 0 … size − 1 in random order, every order as likely as any other."""
        # Sorting 64 random bits per entry: two of n entries coincide with probability n²/2^65.
        words = self._bits(Stream.SHUFFLE).long_words(jnp.arange(size, dtype=jnp.uint32))
        return jnp.argsort(words).astype(jnp.int32)

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
        normals, uniforms = self._bits(Stream.CHI_NORMAL), self._bits(Stream.CHI_UNIFORM)

        def trial(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            count, value, done = carry
            place = index + (count << 20)  # trials of one index lie 2^20 apart
            y = _normals(normals, 2 * place, jnp.float64) / jnp.sqrt(9 * d)
            # y ≤ −1 is rejected below; here it must only not give a logarithm of zero.
            safe = jnp.maximum(y, -1 + 2.0**-53)
            chance = 3 * d * (jnp.log1p(safe) - y * (1 - y * (1 / 2 - y / 3)))
            accepted = (y > -1) & (jnp.log(_unit(uniforms.long_words(place))) < chance)
            value = jnp.where(done, value, 2 * d * (1 + y) ** 3)
            return count + 1, value, done | accepted

        begin = (jnp.uint32(0), jnp.zeros(shape), degrees == 0)
        return jax.lax.while_loop(lambda carry: ~jnp.all(carry[2]), trial, begin)[1]

    def _bits(self, stream: int) -> Philox | SplitMix:
        return bits_of(self.key, self.step, stream)


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


def _normals(bits: Philox | SplitMix, index: Word, dtype) -> Array:
    """Standard normal numbers at the given indices; two share a pair of words."""
    pairs = bits.long_pairs if jnp.dtype(dtype) == jnp.float64 else bits.pairs
    even, odd = _box_muller(*pairs(index >> 1))
    return jnp.where((index & 1).astype(bool), odd, even)


def _packed_pairs(bits: Philox | SplitMix, index: Word) -> Array:
    """Both float32 normals of each pair, as one word of 64 bits.

    Every element computes what it returns, so that the two share a logarithm, a sine and a cosine;
    two arrays of results would be computed twice.
    """
    even, odd = _box_muller(*bits.pairs(index))
    as_word = lambda x: jax.lax.bitcast_convert_type(x, jnp.uint32)
    return join(as_word(odd), as_word(even))


def _unpacked(words: Array) -> Array:
    """The two float32 numbers of each word, the lower half first."""
    return jax.lax.bitcast_convert_type(words, jnp.float32).reshape(-1)


def _unit(bits: Array) -> Array:
    """The bits as a number in (0, 1]: never 0, so that its logarithm is finite."""
    n = 8 * bits.dtype.itemsize
    real = jnp.float64 if n == 64 else jnp.float32
    return bits.astype(real) * real(2.0**-n) + real(2.0 ** -(n + 1))


def _box_muller(radius: Array, angle: Array) -> tuple[Array, Array]:
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
