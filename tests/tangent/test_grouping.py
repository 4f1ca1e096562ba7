"""Which arrays of weights make up a layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.tangent.grouping import layers_of

X, IMAGES = np.ones((2, 3)), np.ones((2, 4, 4, 1))
KEY = jax.random.key(0)


def groups(network, weights, x=X):
    """The layers, by the names that arrays have in the pytree."""
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(weights)]
    return [[names[leaf] for leaf in group] for group in layers_of(network, weights, x).groups]


def sampled(network, x=X):
    return groups(network, network.sample(np.random.default_rng(0), x.shape[1:]), x)


@pytest.mark.parametrize(
    ("network", "x", "layers"),
    [
        (ld.DeepLinear([3, 4, 4, 2]), X, 3),
        (ld.MLP([3, 4, 2], "relu"), X, 2),
        (ld.MLP([3, 4, 1], "swish", bias=True, output="tanh"), X, 2),
        (ld.ResidualMLP([3, 4, 4, 4, 2], "linear", bias=True), X, 4),
        (ld.Committee(4, "erf"), X, 1),
        (ld.CNN([2, 3], 3, 2, "relu", bias=True, stride=2), IMAGES, 3),
        (ld.ViT(2, 4, 1, 2, 3, bias=True), IMAGES, 6 + 3 + 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_networks_of_ours(network, x, layers):
    """A weight and its bias; in a ViT norms, positions and the token beside them."""
    found = sampled(network, x)
    assert len(found) == layers
    for group in found:
        assert len({name.rpartition(".")[0] for name in group}) == 1, group


def test_linearised_networks_have_the_layers_of_the_network():
    network = ld.MLP([3, 4, 2], "tanh", bias=True)
    weights = network.sample(np.random.default_rng(0), (3,))
    assert sampled(network) == groups(ld.linearise(ld.Model(network, weights)), weights)


def test_every_module_that_holds_arrays_is_a_layer():
    keys = jax.random.split(KEY, 3)
    module = eqx.nn.Sequential([
        eqx.nn.Conv2d(1, 2, 3, key=keys[0]), eqx.nn.GroupNorm(1, 2), eqx.nn.Lambda(jax.nn.relu),
        eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(8, 2, key=keys[1]), eqx.nn.LayerNorm(2),
    ])  # fmt: skip
    model = ld.as_model(module)
    found = groups(model.network, model.weights, np.ones((2, 1, 4, 4)))
    pairs = [[f".layers[{i}].{name}" for name in ("weight", "bias")] for i in (0, 1, 4, 5)]
    assert found == pairs


def nested(w, x):
    return jnp.tanh(x @ w[0]["w"] + w[0]["b"]) @ w[1]["w"] * 0.5 + w[1]["b"]


def scaled_later(w, x):
    """Nothing but sums with data, factors and moves between the product and the bias."""
    h = jax.nn.relu(w["b"] - 2 * (w["w"] @ x.T)[..., None].swapaxes(0, 1)[..., 0])
    return (x[:, :1] + h @ w["v"]) + w["c"]


def tied(w, x):
    return jnp.tanh(jnp.tanh(x @ w["w"] + w["b"]) @ w["w"] + w["c"]) @ w["v"]


def in_a_loop(w, x):
    step = lambda h, layer: (jnp.tanh(h @ layer[0] + layer[1]), None)
    return jax.lax.scan(step, x, (w["w"], w["b"]))[0] @ w["v"]


def behind_an_activation(w, x):
    return jnp.tanh(x @ w["w"]) + w["b"]


def multiplied_out(w, x):
    return x @ (w["v"] @ w["w"])


n, m = (3, 4), (4, 2)
OWN = {
    nested: ([{"w": n, "b": m[:1]}, {"w": m, "b": m[1:]}], ["b w", "b w"]),
    scaled_later: ({"w": (4, 3), "b": (4,), "v": m, "c": (2,)}, ["b w", "c v"]),
    tied: ({"w": (3, 3), "b": (3,), "c": (3,), "v": (3, 2)}, ["b c w", "v"]),
    in_a_loop: ({"w": (5, 3, 3), "b": (5, 3), "v": (3, 2)}, ["b", "v", "w"]),
    behind_an_activation: ({"w": n, "b": (4,)}, ["b", "w"]),
    multiplied_out: ({"v": n, "w": m}, ["v", "w"]),
}


@pytest.mark.parametrize("apply", OWN, ids=lambda apply: apply.__name__)
def test_functions_of_users(apply):
    shapes, expected = OWN[apply]
    is_shape = lambda leaf: isinstance(leaf, tuple) and isinstance(leaf[0], int)
    weights = jax.tree.map(np.ones, shapes, is_leaf=is_shape)
    found = [" ".join(name[-3] for name in group) for group in groups(apply, weights)]
    assert found == expected


def test_a_bias_is_grouped_with_its_product():
    network = ld.MLP([3, 4, 2], "tanh", bias=True)
    layers = layers_of(network, network.sample(np.random.default_rng(0), (3,)), X)
    bias = np.arange(4.0)
    found = layers.biases[1].on_product(bias)
    np.testing.assert_allclose(found, bias[None] * np.sqrt(3), rtol=1e-6)
    weights = {"w": np.ones((3, 4)), "b": np.ones(4)}
    twice = lambda w, x: jnp.tanh(x @ w["w"] + w["b"]) * w["b"]
    apart = lambda w, x: jnp.tanh(x @ w["w"] + w["b"]) + x @ w["w"]
    both = lambda w, x: (lambda h: jnp.tanh(h + w["b"]) + h)(x @ w["w"])
    assert not layers_of(twice, weights, X).biases and not layers_of(both, weights, X).biases
    assert list(layers_of(apart, weights, X).biases) == [0]
