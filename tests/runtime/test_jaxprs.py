"""Functions kept as programs: never an old one, never compiled twice for nothing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.jaxprs import Traced

LIKE = np.ones(3)


def compiled(functions):
    """How often something that holds them is compiled, and what they give."""
    count = []

    @eqx.filter_jit
    def call(traced, x):
        count.append(1)
        return traced(x)["y"]

    found = [np.asarray(call(Traced(f, LIKE), LIKE)) for f in functions]
    return len(count), found


def test_closed_over_values_are_looked_up_anew():
    factor = [np.full(3, 2.0)]
    given = lambda x: {"y": x * factor[0]}
    first = Traced(given, LIKE)
    factor[0] = np.full(3, 5.0)
    np.testing.assert_array_equal(first(LIKE)["y"], 2.0 * LIKE)
    np.testing.assert_array_equal(Traced(given, LIKE)(LIKE)["y"], 5.0 * LIKE)


def test_other_constants_do_not_compile_anew():
    times = [compiled([lambda x, a=a: {"y": x * a} for a in (np.full(3, 2.0), np.full(3, 5.0))])]
    assert [n for n, _ in times] == [1]
    np.testing.assert_array_equal(times[0][1][1], 5.0 * LIKE)


def test_constants_inside_of_compiled_functions_are_seen():
    def held(a):
        inner = jax.jit(lambda x: x * a)
        return lambda x: {"y": inner(x)}

    count, found = compiled([held(np.full(3, 2.0)), held(np.full(3, 5.0))])
    np.testing.assert_array_equal(found, [2.0 * LIKE, 5.0 * LIKE])
    assert count <= 2


def test_another_program_is_another():
    count, found = compiled([lambda x: {"y": jnp.sin(x)}, lambda x: {"y": jnp.cos(x)}])
    assert count == 2
    np.testing.assert_allclose(found, [np.sin(LIKE), np.cos(LIKE)], rtol=1e-6)
