"""Systems that are quadratic in their weights, and reference values, as several tests need them."""

import json
import pathlib

import numpy as np
import pytest

import learndyn as ld

REFERENCE = json.loads(pathlib.Path(__file__).with_name("reference.json").read_text())


def half_sum(x, y):
    """A data set with the thesis's loss, ½ Σ r²."""
    return ld.Dataset(x, y, loss_scale=len(x) / 2)


def two_layers(activation, U, v, x, y, rate, *, twin=True):
    """The quadratic twin of a two-layer network, or the network itself, at given weights."""
    U, v = np.asarray(U, float), np.asarray(v, float)
    network = ld.MLP([U.shape[1], len(U), 1], activation)
    affine = type(network.sample(np.random.default_rng(0), network.widths[:1])[0])
    model = ld.Model(network, (affine(U, None), affine(v[None], None)))
    made = ld.quadratic(model) if twin else network
    return ld.System(half_sum(x, y), made, ld.GradientDescent(rate)), model


def drawn(activation, d, m, x, y, v, *, seed=0, twin=True):
    """As `two_layers`, from normal weights, at a rate of v/λ of the top direction."""
    rng = np.random.default_rng(seed)
    U, out = rng.normal(size=(m, d)), rng.normal(size=m)
    x, y = np.asarray(x, float), np.asarray(y, float)
    system, model = two_layers(activation, U, out, x, y, 1.0, twin=twin)
    top = np.max(ld.theory_of(system).project(model.weights, ()).kernel)
    return two_layers(activation, U, out, x, y, v / top, twin=twin)


def general(d, gamma, y, v, *, seed=0):
    """The general quadratic model of App. B.14: diagonal Σ of ±1, a unit feature vector."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=d)
    network = ld.GeneralQuadratic(rng.choice([-1.0, 1.0], size=d), gamma=gamma)
    data = half_sum((phi / np.linalg.norm(phi))[None], [y])
    model = ld.Model(network, rng.normal(size=d))
    first = ld.System(data, network, ld.GradientDescent(1.0))
    top = ld.theory_of(first).project(model.weights, ()).kernel[0]
    return ld.System(data, network, ld.GradientDescent(v / top)), model


LINE = np.array([1.2, -0.7, 0.4, -1.5, 2.1, -0.3])
SIGNS = np.sign(LINE)
DIRECTION = np.array([0.6, -0.8, 1.0])


@pytest.fixture(scope="session")
def configurations():
    """Name → (system, model): all that the theory covers, on both sides of 2/λ."""
    one = np.array([[0.9, -0.4, 1.3]])
    return {
        "relu, one example": drawn("relu", 3, 40, one, [0.5], 2.6),
        "relu, on the axis": drawn("relu", 1, 30, LINE[:, None], SIGNS, 2.3, seed=1),
        "relu, on a line": drawn("relu", 3, 30, np.outer(LINE, DIRECTION), SIGNS, 1.5, seed=2),
        "relu, one point repeated": drawn("relu", 3, 20, one[[0] * 4], [1.0, 2.0, 0.5, 1.0], 2.4),
        "linear twin of itself": drawn("linear", 3, 25, one, [0.7], 2.8, seed=3),
        "linear, itself, on a line": drawn(
            "linear", 3, 25, np.outer(LINE, DIRECTION), SIGNS, 2.5, seed=4, twin=False
        ),
        "general": general(20, 0.03, 0.4, 2.8),
    }
