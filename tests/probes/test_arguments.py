"""What probes refuse of models and examples, and which examples they leave out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.probes.arguments import output_shape

p = ld.probes
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(6, 3)), RNG.normal(size=(3, 2))


def batch_norm(weights, x):
    h = x @ weights
    return (h - h.mean(0)) / jnp.sqrt(h.var(0) + 1e-5)


DEPENDENT = {
    "batch norm": batch_norm,
    "centred": lambda w, x: (x - x.mean(0)) @ w,
    "largest": lambda w, x: x @ w / jnp.max(jnp.abs(x)),
    "attention over examples": lambda w, x: jax.nn.softmax(x @ x.T) @ x @ w,
}
PROBES = {
    "ntk": lambda m, x: p.ntk(m, x),
    "spectrum": lambda m, x: p.ntk_spectrum(m, [x]),
    "rate": lambda m, x: p.critical_learning_rate(m, x),
    "hessian": lambda m, x: p.hessian_top(m, x, np.zeros((len(x), 2))),
    "agop": lambda m, x: p.agop(m, x),
    "output hessian": lambda m, x: p.output_hessian_norm(m, x),
    "summary": lambda m, x: p.summary(m, x, np.zeros((len(x), 2))),
}
SAID = "model: got outputs that depend on the other examples of the batch; allowed is a model"


@pytest.mark.parametrize("apply", DEPENDENT.values(), ids=DEPENDENT)
def test_networks_of_whole_batches_are_refused(apply):
    model = ld.Model(ld.Network(None, apply), W)
    for x in (X, X[:1], X.astype(np.float32), np.repeat(X[:2], 3, 0)):
        with pytest.raises(ValueError, match=rf"\A{SAID}[^\n]*\Z"):
            p.ntk(model, x)


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_every_probe_refuses_them(probe):
    with pytest.raises(ValueError, match=SAID):
        probe(ld.Model(ld.Network(None, batch_norm), W), X)


@pytest.mark.parametrize("x", [X, X[:1], np.repeat(X[:2], 3, 0)], ids=["six", "one", "two"])
def test_they_are_refused_while_tracing_too(x):
    """Inside `simulate`, where the values of the weights are not known."""
    network = ld.Network(lambda key: W.astype(np.float32), DEPENDENT["centred"])
    system = ld.System(ld.Dataset(x, x[:, :2]), network, ld.GradientDescent(0.1))
    for probes in (
        {"kernel": lambda m: p.ntk(m, x)},
        {"rate": lambda m: p.critical_learning_rate(m, x, x[:, :2]).value},
        {"watched": p.Watched()},
    ):
        with pytest.raises(ValueError, match="depend on the other examples"):
            ld.simulate(system, [0.0, 1.0], probes=probes)
    record = ld.simulate(system, [0.0, 1.0], probes={"size": lambda m: jnp.sum(m.weights**2)})
    assert "read_between_pieces" not in record.attrs


def test_rounding_does_not_count_as_dependence():
    """A deep and wide network in float32 on examples of very different sizes, and at kinks."""
    module = eqx.nn.MLP(40, 7, 300, 6, key=jax.random.key(0))
    x = RNG.normal(size=(50, 40)) * 10.0 ** RNG.integers(-6, 6, size=(50, 1))
    for i in range(1, 50, 7):
        assert output_shape(ld.as_model(module), x[[0, i]].astype(np.float32)) == (7,)
    normalised = lambda w, x: (x @ w) / jnp.linalg.norm(x @ w, axis=1, keepdims=True)
    zeros = np.zeros((2, 3))  # NaN of its own making is no dependence either
    assert output_shape(ld.Model(ld.Network(None, normalised), W), zeros) == (2,)


def test_ignored_examples_are_left_out():
    labels = np.array([0, -100, 1, 1, -100, 0])
    kept, loss = labels >= 0, ld.CrossEntropy(ignore_index=-100)
    model = ld.Model(ld.MLP([3, 2], "tanh"), ld.MLP([3, 2], "tanh").sample(RNG, (3,)))
    calls = {
        "rate": lambda *e, loss: float(p.critical_learning_rate(model, *e, loss=loss)),
        "top": lambda *e, loss: p.hessian_top(model, *e, loss=loss).values,
        "covariance": lambda *e, loss: p.update_covariance(model, *e, loss=loss).perturbation,
    }
    for name, call in calls.items():
        expected = call(X[kept], labels[kept], loss=ld.CrossEntropy())
        np.testing.assert_allclose(call(X, labels, loss=loss), expected, rtol=1e-9, err_msg=name)
    said = p.hessian_top(model, X, labels, loss=loss).convention
    assert "CrossEntropy(ignore_index=-100), averaged over 4 examples" in said
    # Without labels, no label is meant: not even one that is ignored.
    first = p.critical_learning_rate(model, X, loss=ld.CrossEntropy(ignore_index=0))
    assert float(first) == float(p.critical_learning_rate(model, X, loss=ld.CrossEntropy()))


TOKENS = ld.Model(
    ld.Network(None, lambda w, x: jnp.einsum("nd,dtv->ntv", x, w)), np.ones((3, 4, 5))
)
LABELS = np.zeros((6, 4), int)


@pytest.mark.parametrize("y", [np.zeros(6, int), LABELS[:, :2], LABELS + 5, LABELS - 1])
def test_labels_that_are_not_one_per_token_are_refused_in_one_line(y):
    for call in (p.critical_learning_rate, p.summary):
        with pytest.raises(ValueError, match=r"\A(outputs|y): [^\n]*allowed[^\n]*\Z"):
            call(TOKENS, X, y, loss=ld.CrossEntropy())


OTHERS = {
    "wider": (np.ones((7, 3)), np.ones((2, 7))),
    "deeper": (np.ones((5, 3)), np.ones((5, 5)), np.ones((2, 5))),
    "of other inputs": (np.ones((5, 4)), np.ones((2, 5))),
    "a dict": {"w": np.ones((5, 3)), "v": np.ones((2, 5))},
    "an array": np.ones((5, 3)),
}


@pytest.mark.parametrize("weights", OTHERS.values(), ids=OTHERS)
def test_weights_of_another_network_are_named(weights):
    model = ld.Model(ld.DeepLinear([3, 5, 2]), weights)
    with pytest.raises(
        ValueError, match=r"\Aweights: got [^\n]* of shapes [^\n]*; allowed[^\n]*\Z"
    ):
        p.ntk(model, X)


def test_a_model_does_not_change_with_the_callers_weights():
    weights = (np.ones((2, 3)),)
    model = ld.Model(ld.DeepLinear([3, 2]), weights)
    twin = ld.quadratic(ld.Model(ld.MLP([3, 2], "tanh"), ld.MLP([3, 2], "tanh").sample(RNG, (3,))))
    before = np.asarray(model(X))
    weights[0][:] = 5
    np.testing.assert_array_equal(model(X), before)
    assert not any(leaf.flags.writeable for leaf in twin.centre)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_other_precisions_are_named(dtype):
    system = ld.System(ld.Dataset(X, X[:, :2]), ld.DeepLinear([3, 2]), ld.SGD(0.1))
    weights = (jnp.ones((2, 3), dtype),)
    name = np.dtype(dtype).name
    for call in (
        lambda: p.ntk(ld.Model(system.network, weights), X),
        lambda: ld.start(system, weights=weights),
        lambda: ld.update(system, weights),
    ):
        with pytest.raises(ValueError, match=rf"\Aweights: got {name}; allowed[^\n]*float64\Z"):
            call()


def test_arrays_that_a_compiled_training_step_closed_over():
    """JAX keeps such arrays in 32 bits, by identity; probes compute them in 64."""
    rng = np.random.default_rng(0)
    tokens, labels = rng.integers(5, size=(6, 3)), rng.integers(2, size=6)
    weights = {"e": rng.normal(size=(5, 2)).astype(np.float32)}
    apply = lambda w, x: jnp.tanh(w["e"][x]).mean(1)
    picked = lambda w: apply(w, tokens)[np.arange(6), labels].sum()
    x = rng.normal(size=(6, 2))
    steps = jax.jit(jax.grad(picked)), jax.jit(lambda w: x @ w["e"].T)  # that live on
    for step in steps:
        step(weights)
    model = ld.Model(ld.Network(None, apply), weights)
    assert ld.ntk(model, tokens).shape == (6, 2, 6, 2)
    assert ld.hessian_top(model, tokens, labels, loss=ld.CrossEntropy()).values.shape == (1,)
    linear = ld.Model(ld.Network(None, lambda w, x: x @ w["e"].T), weights)
    np.testing.assert_allclose(ld.ntk(linear, x)[:, 0, :, 0], x @ x.T, rtol=1e-5, atol=1e-5)
