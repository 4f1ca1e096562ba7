"""One battery over every network and every law of initialisation."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.system.encoding import decode, encode

TARGET = np.array([[1.2, 0.3, -0.4], [0.1, 0.9, 0.5]])


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
}
IMAGES = {
    "convolutional": ld.CNN([3, 2], 3, 2, "swish", bias=True, stride=2),
    "wide ResNet": ld.WideResNet(10, 1, 2, parameterisation="standard", gain=1.4),
    "Myrtle": ld.Myrtle(3, 1, bias=True),
    "transformer": ld.ViT(2, 6, 2, 3, 2, "tanh", hidden=5, bias=True),
}
ALL = {**NETWORKS, **IMAGES}
every = pytest.mark.parametrize("network", ALL.values(), ids=ALL)


def shape_of(network):
    return (3,) if network in NETWORKS.values() else (4, 4, 2)


def drawn(network, seed=0):
    return network.sample(np.random.default_rng(seed), shape_of(network), TARGET)


def inputs(network, count):
    return np.random.default_rng(2).normal(size=(count, *shape_of(network)))


@every
def test_outputs_have_the_shape_they_say(network):
    with jax.enable_x64(True):
        weights, x = jax.tree.map(jnp.asarray, drawn(network)), inputs(network, 5)
        axis = network.output_shape(shape_of(network))
        of_one = (
            (lambda w, x: network(w, x[0]))
            if network.accepts_single_example
            else lambda w, x: network(w, x[:1])[0]
        )
        several, one = jax.jit(lambda w, x: (network(w, x), of_one(w, x[2:])))(weights, x)
        assert several.shape == (5, *axis) and one.shape == axis
        np.testing.assert_allclose(several[2], one, rtol=1e-12, atol=1e-12)


@every
def test_precision_is_that_of_the_weights(network):
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            weights = jax.tree.map(lambda w, d=dtype: jnp.asarray(w, d), drawn(network))
            assert jax.eval_shape(network, weights, inputs(network, 2).astype(dtype)).dtype == dtype


@every
def test_tangent_kernel_is_the_product_of_jacobians(network):
    weights, x = drawn(network), inputs(network, 4)
    with jax.enable_x64(True):
        flat = lambda w: network(w, jnp.asarray(x)).reshape(4, -1)
        rows = jax.tree.leaves(jax.jit(jax.jacrev(flat))(weights))
    J = np.concatenate([np.reshape(part, (4, rows[0].shape[1], -1)) for part in rows], axis=2)
    found = ld.probes.ntk(ld.Model(network, weights), x)
    expected = np.einsum("iap,jbp->iajb", J, J)
    assert found.dtype == np.float64
    np.testing.assert_allclose(
        found, expected.reshape(found.shape), rtol=0, atol=1e-13 * expected.max()
    )


@every
def test_draws_are_float64_and_follow_the_seed(network):
    same, again = drawn(network, 1), drawn(network, 1)
    for a, b in zip(jax.tree.leaves(same), jax.tree.leaves(again), strict=True):
        assert a.dtype == np.float64
        np.testing.assert_array_equal(a, b)


@every
def test_inputs_that_do_not_fit_are_refused(network):
    network.check_input(shape_of(network))
    if isinstance(network, ld.Committee):
        network.check_input((7,))  # any dimension fits a committee
        return
    with pytest.raises(ValueError, match=r"\A[^\n]*allowed[^\n]*\Z"):
        network.check_input((7,))


@every
def test_prints(network):
    assert repr(network).startswith(type(network).__name__ + "(")


@every
def test_is_written_and_read_again(network):
    text = json.dumps(encode(network))
    again = decode(json.loads(text))
    assert json.dumps(encode(again)) == text
    weights = drawn(network)
    with jax.enable_x64(True):
        x = inputs(network, 3)
        both = jax.jit(lambda w, x: (again(w, x), network(w, x)))(weights, x)
        np.testing.assert_array_equal(*both)


@every
def test_weights_of_other_shapes_are_refused(network):
    weights = drawn(network)
    network.check_weights(weights, shape_of(network))
    wrong = jax.tree.map(lambda w: np.concatenate([w, w]), weights)
    with pytest.raises(ValueError, match=r"\Aweights: got shapes [^\n]*allowed is [^\n]*\Z"):
        network.check_weights(wrong, shape_of(network))


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
