"""Both generators against published known answers, and the numbers that they are turned into."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from learndyn.numerics.generators import GENERATORS, SplitMix, generator, philox, selected
from learndyn.numerics.random import Source, Stream, key_of_run, keys_of_runs


@pytest.fixture(params=GENERATORS)
def each(request):
    with generator(request.param):
        yield


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


def test_splitmix_known_answers():
    """The first outputs for the seed 0, which many implementations list."""
    with jax.enable_x64(True):
        golden = jnp.uint64(0x9E3779B97F4A7C15)
        bits = SplitMix(golden, golden).long_words(jnp.arange(3, dtype=jnp.uint32))
    answer = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(word) for word in bits] == answer


def test_a_compiled_function_follows_the_selection():
    with jax.enable_x64(True):
        draw = jax.jit(lambda k: Source(k, jnp.asarray(0)).normal((4,), "float32"))
        ours = np.asarray(draw(key_of_run(0, 0)))
        with generator("Philox4x32-10"):
            assert selected() == "Philox4x32-10"
            theirs = np.asarray(draw(key_of_run(0, 0)))
        np.testing.assert_array_equal(draw(key_of_run(0, 0)), ours)
    assert not np.any(ours == theirs) and selected() == "SplitMix64"


def test_an_unknown_generator_is_one_line():
    with pytest.raises(ValueError, match=r"^name: got 'dice'; allowed is"), generator("dice"):
        pass
    assert selected() == "SplitMix64"


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_normal(dtype, each):
    with jax.enable_x64(True):
        draw = jax.jit(lambda w, s: Source(w, s).normal((1000,), dtype))
        x = np.concatenate([np.asarray(draw(key_of_run(3, 0), jnp.asarray(s))) for s in range(200)])
    assert x.dtype == dtype
    assert stats.kstest(x.astype(float), "norm").pvalue > 1e-3
    n = len(x)
    # Standard errors of the first four moments of a normal variable.
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(x.astype(float) ** power) - moment) < 4 * np.sqrt(variance / n)


def test_runs_steps_and_streams_differ(each):
    with jax.enable_x64(True):
        first = Source(key_of_run(0, 0), jnp.asarray(5)).normal((8,), "float32")
        others = [
            Source(key_of_run(0, 1), jnp.asarray(5)).normal((8,), "float32"),
            Source(key_of_run(1, 0), jnp.asarray(5)).normal((8,), "float32"),
            Source(key_of_run(0, 0), jnp.asarray(6)).normal((8,), "float32"),
            Source(key_of_run(0, 0), jnp.asarray(5 + 2**32)).normal((8,), "float32"),
            Source(key_of_run(0, 0), jnp.asarray(5)).normal((8,), "float32", stream=1),
        ]
    for other in others:
        assert not np.any(np.asarray(first) == np.asarray(other))


def test_words_of_many_runs_are_those_of_each():
    with jax.enable_x64(True):
        words = np.asarray(keys_of_runs(5, slice(0, 3)))
    np.testing.assert_array_equal(words.T, [key_of_run(5, run) for run in range(3)])


# Of run 1: all simulations of a key rest on them, so they must not change.
KNOWN_WORDS = {
    0: (928981903, 3453687069),
    5: (202567368, 3886822060),
    2**31: (4249812751, 4277599006),
    2**32 - 1: (3461607691, 1112781462),
    2**32: (3906887105, 1176396260),
    2**53 + 1: (4053505570, 3741405423),
    2**63 - 1: (289002645, 1167227915),
}


@pytest.mark.parametrize("key", KNOWN_WORDS)
@pytest.mark.parametrize("wide", [False, True])
def test_words_are_known_whatever_the_callers_precision(key, wide):
    with jax.enable_x64(wide):
        assert tuple(np.asarray(key_of_run(key, 1)).tolist()) == KNOWN_WORDS[key]
        assert tuple(np.asarray(keys_of_runs(key, slice(0, 2)))[:, 1].tolist()) == KNOWN_WORDS[key]


def test_words_do_not_depend_on_the_callers_kind_of_keys():
    with jax.default_prng_impl("rbg"):
        assert tuple(np.asarray(key_of_run(0, 1)).tolist()) == KNOWN_WORDS[0]


def test_a_normal_number_depends_on_its_index_alone(each):
    with jax.enable_x64(True):
        source = Source(key_of_run(0, 0), jnp.asarray(5))
        for dtype in ("float32", "float64"):
            few, many = source.normal((3,), dtype), source.normal((5, 7), dtype)
            np.testing.assert_array_equal(few, many.ravel()[:3])


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_two_numbers_of_a_pair_are_independent(dtype, each):
    """Box-Muller gives pairs: no correlation of numbers, of squares, nor with the next."""
    with jax.enable_x64(True):
        x = np.asarray(Source(key_of_run(4, 0), jnp.asarray(9)).normal((400_000,), dtype), float)
    for lag in (1, 2, 3):
        # Correlations of independent numbers have the standard error 1/√n; every second pair.
        for values in (x, x**2):
            found = np.corrcoef(values[:-lag:4], values[lag::4])[0, 1]
            assert abs(found) < 4 / np.sqrt(len(x) / 4)


@pytest.mark.statistical
@pytest.mark.parametrize("degrees", [1, 2, 3, 11, 990, 10**8])
def test_chi_squares_are_chi_squares(degrees, each):
    with jax.enable_x64(True):
        index = jnp.arange(100_000, dtype=jnp.uint32)
        source = Source(key_of_run(3, 1), jnp.asarray(2))
        x = np.asarray(
            jax.jit(lambda i, d: source.chi_square_at(i, d))(index, jnp.full(1, float(degrees)))
        )
    law = stats.chi2(degrees)
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    mean, variance, _, kurtosis = law.stats("mvsk")
    assert abs(x.mean() - mean) < 4 * np.sqrt(variance / len(x))
    error = np.sqrt((kurtosis + 2) / len(x))
    assert abs(x.var() / variance - 1) < 4 * error


def test_chi_squares_of_no_degree_are_zero_and_do_not_meet(each):
    """A rejected trial of one number changes no other, whatever is drawn beside it."""
    with jax.enable_x64(True):
        source = Source(key_of_run(3, 1), jnp.asarray(2))
        index = jnp.arange(2000, dtype=jnp.uint32)
        draw = jax.jit(lambda i, d: source.chi_square_at(i, d))
        mixed = np.asarray(draw(index, jnp.where(index % 2 == 0, 0.0, 1.0)))
        assert np.all(mixed[::2] == 0) and np.all(mixed[1::2] > 0)
        alone = np.asarray(draw(index[1:8:2], jnp.ones(4)))
    np.testing.assert_allclose(alone, mixed[1:8:2], rtol=1e-14)


@pytest.mark.parametrize(("shape", "first"), [((9,), 0), ((8,), 5), ((3, 5), 2), ((1,), 7)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_drawn_together_are_those_of_each_index(shape, first, dtype, each):
    """Pairs that share a word are cut where the first index is odd, or the last even."""
    with jax.enable_x64(True):
        source = Source(key_of_run(0, 2), jnp.asarray(2**40))
        together = np.asarray(source.normal(shape, dtype, Stream.NODES, first)).ravel()
        index = jnp.arange(first, first + len(together), dtype=jnp.uint32)
        # Compiled, as the other: operation by operation, roundings may differ.
        alone = jax.jit(lambda i: source.normal_at(i, dtype, Stream.NODES))(index)
    np.testing.assert_array_equal(together, alone)


# Of Philox, key 7, run 3 and step 12345678901: drawn before pairs shared a word.
KNOWN_NORMALS = {
    0: [1.0398675203323364, -0.5653007626533508, 1.8634240627288818, 1.5362086296081543],
    9999: [-0.5116300582885742, -0.8014808893203735],
}


def test_normal_numbers_of_philox_are_known():
    """To rounding: how a logarithm is rounded depends on the processor."""
    with jax.enable_x64(True), generator("Philox4x32-10"):
        x = np.asarray(
            Source(key_of_run(7, 3), jnp.asarray(12345678901)).normal((10001,), "float32")
        )
    for first, values in KNOWN_NORMALS.items():
        np.testing.assert_allclose(x[first : first + len(values)], values, rtol=1e-5)


@pytest.mark.statistical
def test_integers_and_orders_are_uniform(each):
    """Chi-square tests over cells; every place of an order holds every entry equally often."""
    with jax.enable_x64(True):
        draw = jax.jit(lambda s: Source(key_of_run(5, 0), s).integers((1000,), 7))
        whole = np.concatenate([np.asarray(draw(jnp.asarray(s))) for s in range(100)])
        order = jax.jit(lambda s: Source(key_of_run(5, 0), s).permutation(5))
        orders = np.stack([np.asarray(order(jnp.asarray(s))) for s in range(3000)])
    assert stats.chisquare(np.bincount(whole, minlength=7)).pvalue > 1e-3
    places = np.stack([np.bincount(column, minlength=5) for column in orders.T])
    # Rows and columns of the table add up to 3000: 16 of the 25 entries are free.
    assert stats.chi2(16).sf(np.sum((places - 600) ** 2 / 600) * 4 / 5) > 1e-3


@pytest.mark.statistical
def test_steps_and_runs_are_independent(each):
    """Correlations of numbers and of squares, between neighbouring steps, runs and streams."""
    n = 200_000
    with jax.enable_x64(True):
        at = lambda run, step, stream: np.asarray(
            Source(key_of_run(6, run), jnp.asarray(step)).normal((n,), "float32", stream), float
        )
        base, others = (
            at(0, 10, 0),
            [at(0, 11, 0), at(1, 10, 0), at(0, 10, 1), at(0, 10 + 2**32, 0)],
        )
    for other in others:
        for power in (1, 2):
            assert abs(np.corrcoef(base**power, other**power)[0, 1]) < 4 / np.sqrt(n)
