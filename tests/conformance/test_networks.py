"""One battery over every network and every law of initialisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn import testing

TARGET = np.array([[1.2, 0.3, -0.4], [0.1, 0.9, 0.5]])


def own_init(key):
    return {"w": jax.random.normal(key, (3, 2)), "shift": jnp.zeros(())}


def own_apply(weights, x):
    return jnp.tanh(ld.tap("node", x @ weights["w"])) + weights["shift"]


def twin(expand, network):
    return expand(ld.Model(network, network.sample(np.random.default_rng(5), (3,))))


NETWORKS = {
    "linear": ld.Committee(2, "linear", scale=0.7),
    "erf": ld.Committee(3, "erf", init=ld.Orthonormal(0.5)),
    "quadratic": ld.Committee(2, "quadratic", init=ld.Normal(0.3)),
    "outputs": ld.Committee(2, "erf", outputs=[0.7, -0.4], biases=[0.1, 0.3]),
    "both layers": ld.Committee(
        3, "erf", outputs=ld.Normal(1.0), biases=[0.1, 0.3, 0.0], train=("inputs", "outputs")
    ),
    "xavier": ld.DeepLinear([3, 4, 2], init=ld.Xavier()),
    "small": ld.DeepLinear([3, 2, 2], init=ld.SmallRandom(0.1)),
    "aligned": ld.DeepLinear([3, 1, 4, 2], init=ld.Aligned(0.5)),
    "teacher": ld.LinearTeacher(2, TARGET),
    "mlp": ld.MLP([3, 4, 2], "tanh", bias=True, output="softmax"),
    "dense net": ld.DenseNet([3, 4, 4, 1], "relu", bias=True),
    "dropped": ld.DenseNet([3, 4, 4, 2], "swish", dropped=0.5, output="tanh"),
    "residual": ld.ResidualMLP([3, 4, 4, 2], "linear", parameterisation="standard"),
    "graph": ld.DAG([(0, 3), (1, 3), (1, 4), (2, 4), (3, 5), (2, 5), (4, 6)], "tanh"),
    "linear twin": twin(ld.linearise, ld.MLP([3, 4, 2], "relu", bias=True)),
    "quadratic twin": twin(ld.quadratic, ld.DeepLinear([3, 4, 2])),
    "own": ld.Network(own_init, own_apply),
    "own, of a shape": ld.Network(own_init, own_apply, shape=(3,)),
}
IMAGES = {
    "convolutional": ld.CNN([3, 2], 3, 2, "swish", bias=True, stride=2),
    "wide ResNet": ld.WideResNet(10, 1, 2, parameterisation="standard", gain=1.4),
    "Myrtle": ld.Myrtle(3, 1, bias=True),
    "transformer": ld.ViT(2, 6, 2, 3, 2, "tanh", hidden=5, bias=True),
}
ALL = {**NETWORKS, **IMAGES}


def shape_of(network):
    return (3,) if network in NETWORKS.values() else (4, 4, 2)


def drawn(network, seed=0):
    return network.sample(np.random.default_rng(seed), shape_of(network), TARGET)


@pytest.mark.parametrize("check", testing.NETWORK, ids=lambda check: check.__name__)
@pytest.mark.parametrize("network", ALL.values(), ids=ALL)
def test_battery(network, check):
    check(network, shape_of(network), TARGET)


def test_another_dimension_fits_committees_and_functions_without_a_shape():
    for network in ALL.values():
        if isinstance(network, ld.Committee) or network is ALL["own"]:
            network.check_input((7,))
        else:
            with pytest.raises(ValueError, match=r"\A[^\n]*allowed[^\n]*\Z"):
                network.check_input((7,))


def test_small_random_layers_have_the_largest_singular_value():
    for w in drawn(NETWORKS["small"]):
        assert np.linalg.norm(w, ord=2) == pytest.approx(0.1)


def test_xavier_layers_have_the_variance():
    layers = ld.DeepLinear([200, 300, 100]).sample(np.random.default_rng(0), (200,))
    for w in layers:
        # The variance of n normal entries is known to √(2/n), relative.
        assert np.var(w) == pytest.approx(2 / sum(w.shape), rel=4.5 * np.sqrt(2 / w.size))


def test_aligned_layers_multiply_to_the_targets_singular_vectors():
    w = ld.DeepLinear([3, 4, 2], init=ld.Aligned([[0.5, 0.6], [0.7, 0.8]])).sample(
        np.random.default_rng(0), (3,), TARGET
    )
    left, _, right = np.linalg.svd(TARGET, full_matrices=False)
    np.testing.assert_allclose(left.T @ w[1] @ w[0] @ right.T, np.diag([0.3, 0.56]), atol=1e-14)
    with pytest.raises(ValueError, match="strengths: got shape"):
        ld.DeepLinear([3, 2], init=ld.Aligned(np.ones((5, 5)))).sample(
            np.random.default_rng(0), (3,), TARGET
        )
