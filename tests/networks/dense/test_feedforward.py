"""MLP, CNN and a user's own function: values by hand, scalings, nodes, shapes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal, special

import learndyn as ld

FUNCTIONS = {
    "linear": lambda h: h,
    "erf": lambda h: special.erf(h / np.sqrt(2)),
    "quadratic": lambda h: h**2,
    "relu": lambda h: np.maximum(h, 0),
    "tanh": np.tanh,
    "swish": lambda h: h / (1 + np.exp(-h)),
}
OUTPUTS = {
    "identity": lambda h: h,
    "softmax": lambda h: special.softmax(h, axis=-1),
    "sigmoid": special.expit,
}


def weights_of(network, shape, seed=0):
    return network.sample(np.random.default_rng(seed), shape)


@pytest.mark.parametrize(
    ("activation", "output"),
    [*((a, "identity") for a in FUNCTIONS), *(("tanh", o) for o in OUTPUTS if o != "identity")],
)
@pytest.mark.parametrize(
    ("parameterisation", "bias"), [("ntk", True), ("ntk", False), ("standard", True)]
)
def test_mlp_by_hand(activation, output, parameterisation, bias):
    network = ld.MLP(
        [3, 5, 4], activation, parameterisation=parameterisation, bias=bias, output=output
    )
    weights, x = weights_of(network, (3,)), np.random.default_rng(1).normal(size=(6, 3))
    h = x
    for i, (w, b) in enumerate(weights):
        scale = 1 / np.sqrt(w.shape[1]) if parameterisation == "ntk" else 1
        h = FUNCTIONS[activation](h) if i else h
        h = scale * h @ w.T + (b if bias else 0)
    with jax.enable_x64(True):
        np.testing.assert_allclose(network(weights, x), OUTPUTS[output](h), rtol=1e-12, atol=1e-14)


def test_your_own_activation():
    x = np.random.default_rng(1).normal(size=(6, 3))
    named = ld.MLP([3, 5, 4], "tanh")
    for activation in (jnp.tanh, ld.Activation(jnp.tanh)):
        network = ld.MLP([3, 5, 4], activation)
        weights = weights_of(network, (3,))
        np.testing.assert_array_equal(network(weights, x), named(weights, x))
    with pytest.raises(ValueError, match="has a kink; allowed is a smooth function, or Activation"):
        ld.CNN([2], 3, 1, lambda h: jnp.maximum(h, -1.0))


@pytest.mark.parametrize("parameterisation", ["ntk", "standard"])
@pytest.mark.parametrize("stride", [1, 2, (2, 1)])
def test_cnn_by_hand(parameterisation, stride):
    """Against scipy's correlation with zero padding, window by window."""
    network = ld.CNN(
        [4, 2], 3, 5, "tanh", parameterisation=parameterisation, bias=True, stride=stride
    )
    weights = weights_of(network, (7, 7, 2))
    x = np.random.default_rng(1).normal(size=(3, 7, 7, 2))
    strides = (stride, stride) if isinstance(stride, int) else stride
    h = x
    for (w, b), s in zip(weights[:-1], strides, strict=True):
        scale = 1 / np.sqrt(np.prod(w.shape[:3])) if parameterisation == "ntk" else 1
        planes = [
            sum(
                np.stack([signal.correlate2d(e[..., i], w[..., i, o], "same") for e in h])
                for i in range(w.shape[2])
            )
            for o in range(w.shape[3])
        ]
        h = np.tanh(scale * np.stack(planes, axis=-1)[:, ::s, ::s] + b)
    w, b = weights[-1]
    scale = 1 / np.sqrt(w.shape[1]) if parameterisation == "ntk" else 1
    with jax.enable_x64(True):
        expected = scale * h.reshape(3, -1) @ w.T + b
        np.testing.assert_allclose(network(weights, x), expected, rtol=1e-11)


@pytest.mark.parametrize("parameterisation", ["ntk", "standard"])
def test_both_parameterisations_start_with_one_law(parameterisation):
    network = ld.MLP([400, 300, 1], "relu", parameterisation=parameterisation, gain=1.5, bias=True)
    (w1, b1), _ = weights_of(network, (400,))
    scale = 1 / np.sqrt(400) if parameterisation == "ntk" else 1
    # The variance of n normal entries is known to √(2/n), relative.
    assert np.var(scale * w1) == pytest.approx(1.5**2 / 400, rel=4.5 * np.sqrt(2 / w1.size))
    assert np.var(b1) == pytest.approx(float(parameterisation == "ntk"), abs=4.5 * np.sqrt(2 / 300))


NETWORKS = {
    "mlp": (ld.MLP([6, 5, 3], "tanh", bias=True), (6,), (3,)),
    "scalar": (ld.MLP([6, 5, 1], "relu"), (6,), ()),
    "cnn": (ld.CNN([3], 3, 4, "swish", bias=True), (5, 5, 2), (4,)),
    "one class": (ld.CNN([3, 2], 3, 1, "erf"), (5, 4, 1), ()),
    "function": (
        ld.Network(lambda key: jax.random.normal(key, (6, 2)), lambda w, x: x @ w),
        (6,),
        (2,),
    ),
    "equinox": (
        ld.Network(lambda key: eqx.nn.MLP(6, "scalar", 4, 1, key=key), lambda m, x: jax.vmap(m)(x)),
        (6,),
        (),
    ),
}
every = pytest.mark.parametrize(("network", "shape", "out"), NETWORKS.values(), ids=NETWORKS)


@every
def test_shapes_are_what_they_say(network, shape, out):
    weights = weights_of(network, shape)
    assert network.output_shape(shape) == out
    with jax.enable_x64(True):
        assert network(weights, np.ones((7, *shape))).shape == (7, *out)
    network.check_weights(weights, shape)
    like = jax.tree.map(lambda leaf: leaf.shape, network.like(shape))
    assert like == jax.tree.map(np.shape, weights)


@every
def test_precision_is_that_of_the_weights(network, shape, out):
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            weights = jax.tree.map(lambda w, d=dtype: w.astype(d), weights_of(network, shape))
            assert network(weights, jnp.ones((2, *shape), dtype)).dtype == dtype


@pytest.mark.parametrize("name", ["mlp", "scalar", "cnn", "one class"])
def test_every_layer_is_a_node(name):
    network, shape, _ = NETWORKS[name]
    weights = weights_of(network, shape)
    _, nodes = ld.forward(network, weights, np.ones((2, *shape)))
    assert list(nodes) == [f"layer{i + 1}" for i in range(len(weights))]
    for node, (w, _) in zip(nodes.values(), weights, strict=True):
        assert node.shape[0] == 2 and node.shape[-1] == w.shape[0 if w.ndim == 2 else -1]


def test_committees_and_deep_linear_networks_have_nodes():
    x = np.random.default_rng(0).normal(size=(5, 3))
    with jax.enable_x64(True):
        w = np.ones((2, 3))
        _, nodes = ld.forward(ld.Committee(2, "erf"), w, x)
        np.testing.assert_allclose(nodes["layer1"], x @ w.T / np.sqrt(3))
        w = weights_of(ld.DeepLinear([3, 4, 2]), (3,))
        _, nodes = ld.forward(ld.DeepLinear([3, 4, 2]), w, x)
        np.testing.assert_allclose(nodes["layer2"], x @ w[0].T @ w[1].T)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.MLP([3], "relu"), "widths: got (3,); allowed are at least two"),
        (lambda: ld.MLP([3, 2], "step"), "activation: got 'step'; allowed is one of"),
        (lambda: ld.MLP([3, 2], "relu", output="max"), "output: got 'max'"),
        (lambda: ld.MLP([3, 2], "relu", parameterisation="mup"), "parameterisation: got 'mup'"),
        (lambda: ld.CNN([], 3, 2, "relu"), "channels: got (); allowed are at least one"),
        (lambda: ld.CNN([4], 0, 2, "relu"), "kernel: got 0"),
        (lambda: ld.CNN([4], 3, 2, "relu", stride=(1, 1)), "stride: got (1, 1)"),
        (lambda: ld.Network(3, lambda w, x: x), "init: got an int; allowed is a function"),
        (lambda: ld.Network(None, None), "apply: got a NoneType; allowed is a function"),
        (lambda: ld.MLP([3, 2], "relu").check_input((4,)), "network: got inputs of shape (4,)"),
        (lambda: ld.CNN([4], 3, 2, "relu").check_input((8, 8)), "allowed is ('any', 'any', 'any')"),
        (
            lambda: ld.Network(lambda key: jnp.arange(3), lambda w, x: x).sample(
                np.random.default_rng(0), (3,)
            ),
            "init: got weights of type int32; allowed are floats",
        ),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
