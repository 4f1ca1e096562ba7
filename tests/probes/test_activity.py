"""The participation ratio against eigenvalues."""

import jax
import numpy as np
import pytest

import learndyn as ld

NETWORK = ld.MLP([5, 30, 2], "relu", bias=True)
WEIGHTS = NETWORK.sample(np.random.default_rng(0), (5,))


@pytest.mark.parametrize("examples", [12, 60])
@pytest.mark.parametrize("activation", ["relu", jax.nn.relu, "linear"])
def test_it_is_that_of_the_eigenvalues(examples, activation):
    x = np.random.default_rng(1).normal(size=(examples, 5))
    found = ld.probes.participation_ratio(
        ld.Model(NETWORK, WEIGHTS), x, node="layer1", activation=activation
    )
    h = x @ WEIGHTS[0].weight.T / np.sqrt(5) + WEIGHTS[0].bias
    active = h if activation == "linear" else np.maximum(h, 0)
    values = np.linalg.eigvalsh(np.cov(active.T))
    np.testing.assert_allclose(found, values.sum() ** 2 / np.sum(values**2), rtol=1e-9)
    assert 1 <= found <= (5 if activation == "linear" else 30)


def test_nodes_of_convolutions_are_flattened():
    network = ld.CNN([2], 3, 1, "relu")
    x = np.random.default_rng(1).normal(size=(40, 3, 3, 1))
    weights = network.sample(np.random.default_rng(0), (3, 3, 1))
    found = ld.probes.participation_ratio(ld.Model(network, weights), x, node="layer1")
    with jax.enable_x64(True):
        node = np.asarray(ld.forward(network, weights, x)[1]["layer1"]).reshape(40, -1)
    values = np.linalg.eigvalsh(np.cov(node.T))
    np.testing.assert_allclose(found, values.sum() ** 2 / np.sum(values**2), rtol=1e-9)
