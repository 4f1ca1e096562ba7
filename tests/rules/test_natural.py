"""The natural gradient by the tangent kernel against one by the Jacobian itself."""

import jax
import numpy as np
import pytest

import learndyn as ld


@pytest.mark.parametrize(
    ("power", "damping", "examples"),
    [(1.0, 0.01, 7), (0.5, 0.1, 7), (1.0, 0.0, 40), (0.5, 0.1, 40)],
)
def test_a_step_is_that_by_the_jacobian(power, damping, examples):
    """With more weights than outputs of all examples (28 against 14), and with fewer (80)."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((examples, 5)), rng.standard_normal((examples, 2))
    network, rule = ld.MLP([5, 4, 2], "tanh"), ld.NaturalGradient(0.3, power=power, damping=damping)
    system = ld.System(ld.Dataset(x, y), network, rule)
    weights = ld.start(system, key=1).weights
    with jax.enable_x64(True):
        rows = jax.jacobian(lambda w: network(w, x))(weights)
        direction = rule.direction(rows, np.asarray(network(weights, x)) - y)
    expected = jax.tree.map(lambda w, d: w - 0.3 * np.asarray(d), weights, direction)
    found = ld.update(system, weights)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found, expected)


def test_large_matrices_are_refused():
    x, y = np.zeros((1700, 2)), np.zeros((1700, 10))
    system = ld.System(ld.Dataset(x, y), ld.MLP([2, 2000, 10], "tanh"), ld.NaturalGradient(0.1))
    with pytest.raises(ValueError, match="with a matrix of 17000 rows; allowed are at most 16000"):
        ld.update(system, ld.start(system).weights)
