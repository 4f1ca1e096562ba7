"""The natural gradient by the tangent kernel against one by the Jacobian itself."""

import jax
import numpy as np
import pytest

import learndyn as ld


@pytest.mark.parametrize(("power", "damping"), [(1.0, 0.01), (0.5, 0.1)])
def test_a_step_by_the_kernel_is_that_by_the_jacobian(power, damping):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 5)), rng.standard_normal((7, 2))
    network, rule = ld.MLP([5, 4, 2], "tanh"), ld.NaturalGradient(0.3, power=power, damping=damping)
    system = ld.System(ld.Dataset(x, y), network, rule)
    weights = ld.start(system, key=1).weights
    with jax.enable_x64(True):
        rows = jax.jacobian(lambda w: network(w, x))(weights)
        direction = rule.direction(rows, np.asarray(network(weights, x)) - y)
    expected = jax.tree.map(lambda w, d: w - 0.3 * np.asarray(d), weights, direction)
    found = ld.update(system, weights)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found, expected)
