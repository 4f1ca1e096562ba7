"""Linear twins of small networks, and their data."""

import numpy as np
import pytest

import learndyn as ld

N, TEST = 9, 4


def _twin(rule, *, outputs=2, loss=None, seed=0, examples=N, inputs=3, hidden=7):
    """A linear twin of a tanh network on random examples, with a test set."""
    rng = np.random.default_rng(seed)
    network = ld.MLP([inputs, hidden, outputs], "tanh")
    model = ld.Model(network, network.sample(rng, (inputs,)))
    draw = lambda n: (rng.normal(size=(n, inputs)), _targets(rng, n, outputs, loss))
    x, y = draw(examples)
    data = ld.Dataset(x, y, loss=loss or ld.SquaredLoss(0.7), test=draw(TEST))
    return ld.System(data, ld.linearise(model), rule)


def _targets(rng, n, outputs, loss):
    if isinstance(loss, ld.CrossEntropy):
        return rng.integers(0, max(outputs, 2), n)
    return rng.normal(size=(n, outputs))


@pytest.fixture(scope="session")
def twin():
    """A function, rule → system."""
    return _twin
