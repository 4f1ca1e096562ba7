"""Your own function as a loss, and one label per token, against dense derivatives of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld

p = ld.probes
N, D, T, V = 4, 3, 3, 3
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=(N, T * V))
LABELS = RNG.integers(V, size=(N, T))
LABELS[0, 1:], LABELS[2] = -1, -1
WEIGHTS = {"a": RNG.normal(size=(D, 4)) / 2, "b": RNG.normal(size=(4, T * V)) / 2}
FLAT = ld.Model(ld.Network(None, lambda w, x: jnp.tanh(x @ w["a"]) @ w["b"]), WEIGHTS)
TOKENS = ld.Model(
    ld.Network(None, lambda w, x: (jnp.tanh(x @ w["a"]) @ w["b"]).reshape(-1, T, V)), WEIGHTS
)


def huber(outputs, y):
    return optax.huber_loss(outputs, y, delta=0.5).sum(-1)


def over_tokens(outputs, y):
    kept = y >= 0
    each = optax.softmax_cross_entropy_with_integer_labels(outputs, jnp.where(kept, y, 0))
    return jnp.sum(jnp.where(kept, each, 0)) / jnp.sum(kept)


CASES = {
    "a function": (FLAT, huber, Y, lambda f, y: huber(f, y).mean()),
    "tokens": (TOKENS, ld.CrossEntropy(ignore_index=-1), LABELS, over_tokens),
    "all tokens": (TOKENS, ld.CrossEntropy(), abs(LABELS), over_tokens),
}


@pytest.mark.parametrize("name", CASES)
def test_losses_against_dense_derivatives(name):
    model, loss, y, mean = CASES[name]
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, WEIGHTS))
        outputs = lambda v: model.network(unravel(v), X)
        H = np.asarray(jax.hessian(lambda v: mean(outputs(v), y))(flat))
        J = np.asarray(jax.jacobian(outputs)(flat)).reshape(-1, flat.size)
        A = jax.hessian(lambda f: mean(f, y))(outputs(flat))
        G = J.T @ np.asarray(A).reshape(len(J), len(J)) @ J
    operator = p.hessian_operator(model, X, y, loss=loss)
    np.testing.assert_allclose(operator @ np.eye(len(H)), H, rtol=0, atol=1e-12)
    rate = float(p.critical_learning_rate(model, X, y, loss=loss))
    assert rate == pytest.approx(2 / np.linalg.eigvalsh(G)[-1], rel=1e-9)


@pytest.mark.parametrize(
    "loss",
    [lambda f, y: ((f - y) ** 2).mean(), lambda f, y: (f - y) ** 2, lambda f: f, "huber", print],
)
def test_means_and_other_functions_raise_a_one_line_error(loss):
    with pytest.raises(ValueError, match=r"\Aloss: [^\n]*allowed[^\n]*\Z"):
        p.hessian_top(FLAT, X, Y, loss=loss)
