"""Nodes are seen through every transformation, and cost nothing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

W = (np.linspace(-1, 1, 12).reshape(4, 3), np.linspace(0.5, -0.5, 8).reshape(2, 4))
X = np.linspace(-1, 2, 15).reshape(5, 3)


def apply(weights, x):
    h = ld.tap("first", x @ weights[0].T)
    return ld.tap("last", jnp.tanh(h) @ weights[1].T)


WRAPPED = {
    "plain": apply,
    "jit": jax.jit(apply),
    "nested jit": jax.jit(lambda w, x: jax.jit(apply)(w, x)),
    "vmap": lambda w, x: jax.vmap(lambda x: apply(w, x))(x),
    "jit of vmap": jax.jit(lambda w, x: jax.vmap(apply, in_axes=(None, 0))(w, x)),
    "checkpoint": jax.checkpoint(apply),
    "vmap along the last axis": lambda w, x: jax.vmap(lambda x: apply(w, x), in_axes=1, out_axes=0)(
        x.T
    ),
}
every = pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)


@every
def test_nodes_are_the_pre_activations(wrapped):
    with jax.enable_x64(True):
        outputs, nodes = ld.forward(wrapped, W, X)
        np.testing.assert_allclose(nodes["first"], X @ W[0].T, rtol=1e-14)
        np.testing.assert_allclose(outputs, np.tanh(X @ W[0].T) @ W[1].T, rtol=1e-13)
        np.testing.assert_array_equal(nodes["last"], outputs)


@every
def test_what_is_added_reaches_the_output(wrapped):
    with jax.enable_x64(True):
        added = np.arange(20.0).reshape(5, 4) / 10
        outputs, nodes = ld.forward(wrapped, W, X, {"first": added})
        np.testing.assert_allclose(nodes["first"], X @ W[0].T + added, rtol=1e-13)
        np.testing.assert_allclose(outputs, np.tanh(X @ W[0].T + added) @ W[1].T, rtol=1e-12)


@every
def test_derivatives_with_respect_to_taps(wrapped):
    """∂ sum(outputs²)/∂ first = 2 outputs · w_2 · (1 − tanh²), by hand."""
    with jax.enable_x64(True):
        loss = lambda t: jnp.sum(ld.forward(wrapped, W, X, {"first": t})[0] ** 2)
        h = X @ W[0].T
        expected = 2 * (np.tanh(h) @ W[1].T) @ W[1] * (1 - np.tanh(h) ** 2)
        np.testing.assert_allclose(jax.grad(loss)(np.zeros((5, 4))), expected, rtol=1e-12)


@every
def test_local_nodes_depend_on_their_own_weights_alone(wrapped):
    """∂h_2/∂w_1 vanishes, ∂h_2/∂w_2 is what a layer with given inputs has."""
    with jax.enable_x64(True):
        nodes = lambda w: ld.forward(wrapped, w, X, local=True)[1]
        jacobian = jax.jacobian(nodes)(W)
        np.testing.assert_array_equal(jacobian["last"][0], 0)
        inputs = np.tanh(X @ W[0].T)
        expected = np.einsum("ij,bn->bijn", np.eye(2), inputs)
        np.testing.assert_allclose(jacobian["last"][1], expected, rtol=1e-12)


@every
def test_local_derivatives_with_the_gradients_at_nodes_are_backpropagation(wrapped):
    with jax.enable_x64(True):
        zeros = {name: jnp.zeros_like(h) for name, h in ld.forward(wrapped, W, X)[1].items()}
        at_nodes = jax.grad(lambda t: jnp.sum(ld.forward(wrapped, W, X, t)[0] ** 2))(zeros)
        _, pull = jax.vjp(lambda w: ld.forward(wrapped, w, X, local=True)[1], W)
        expected = jax.grad(lambda w: jnp.sum(wrapped(w, X) ** 2))(W)
        for a, b in zip(pull(at_nodes)[0], expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_tap_is_nothing_when_compiled():
    plain = lambda w, x: jnp.tanh(x @ w[0].T) @ w[1].T
    text = [jax.jit(f).lower(W, X).as_text().replace(f.__name__, "") for f in (apply, plain)]
    assert "tap" not in text[0] and text[0].count("\n") == text[1].count("\n")
    np.testing.assert_array_equal(jax.jit(apply)(W, X), jax.jit(plain)(W, X))


def test_gradients_and_hessians_pass_through_taps():
    loss = lambda f: lambda x: jnp.sum(f(W, x) ** 2)
    bare = lambda w, x: jnp.tanh(x @ w[0].T) @ w[1].T
    for derivative in (jax.grad, jax.hessian, jax.jacfwd):
        np.testing.assert_allclose(
            derivative(loss(apply))(X), derivative(loss(bare))(X), rtol=1e-5, atol=1e-6
        )


def test_a_vmapped_equinox_module_with_functions_among_its_leaves():
    class Module(eqx.Module):
        layer: eqx.nn.Linear
        activation: object = jax.nn.relu

        def __call__(self, x):
            return self.activation(ld.tap("hidden", self.layer(x)))

    module = Module(eqx.nn.Linear(3, 4, key=jax.random.key(0)))
    x = X.astype(np.float32)
    outputs, nodes = eqx.filter_jit(
        lambda m, x: ld.forward(lambda m, x: jax.vmap(m)(x), m, x)
    )(module, x)  # fmt: skip
    assert nodes["hidden"].shape == (5, 4)
    np.testing.assert_allclose(outputs, np.maximum(nodes["hidden"], 0))


def loops(w, x):
    return jax.lax.scan(lambda h, _: (ld.tap("in", h), None), x @ w[0].T, None, length=2)[0]


def branches(w, x):
    return jax.lax.cond(x[0, 0] > 0, lambda h: ld.tap("in", h), lambda h: h, x @ w[0].T)


def whiles(w, x):
    return jax.lax.while_loop(lambda h: h[0, 0] < 0, lambda h: ld.tap("in", h) + 1, x @ w[0].T)


def own_derivative(w, x):
    f = jax.custom_jvp(lambda h: ld.tap("in", h))
    f.defjvps(lambda t, _, h: t)
    return f(x @ w[0].T)


@pytest.mark.parametrize(
    ("network", "taps", "said"),
    [
        (loops, {}, "tap: got 'in' inside scan; allowed"),
        (branches, {}, "tap: got 'in' inside cond; allowed"),
        (whiles, {}, "tap: got 'in' inside while; allowed"),
        (own_derivative, {}, "tap: got 'in' inside custom_jvp_call; allowed"),
        (apply, {"middle": X}, "taps: got 'middle'; allowed are 'first', 'last'"),
        (lambda w, x: x, {"a": X}, "taps: got 'a'; allowed are none: the network has no taps"),
        (apply, {"first": X}, "taps: got shape (5, 3) at 'first'; allowed is (5, 4)"),
        (lambda w, x: ld.tap("a", ld.tap("a", x)), {}, "tap: got 'a' twice"),
    ],
)
def test_impossible_taps_raise_a_one_line_error(network, taps, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        ld.forward(network, W, X, taps)
    assert said in str(caught.value)
