"""Networks of flax and haiku against dense derivatives of their own functions."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld

with warnings.catch_warnings():  # those of their own imports
    warnings.simplefilter("ignore")
    import haiku as hk

    from flax import linen, nnx

p = ld.probes
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 6, 6, 2)), RNG.normal(size=(5, 3))


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        h = linen.Conv(4, (3, 3))(x)
        h = jnp.tanh(linen.BatchNorm(use_running_average=not train)(h)).mean((1, 2))
        return linen.Dense(3)(h)


def of_linen() -> Any:
    network = Linen()
    variables = network.init(jax.random.key(0), jnp.asarray(X, jnp.float32))
    stats = jax.tree.map(lambda a: a + 0.3, variables["batch_stats"])
    apply = lambda params, x: network.apply({"params": params, "batch_stats": stats}, x)
    return ld.Model(ld.Network(None, apply), variables["params"])


class Nnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first, self.last = nnx.Conv(2, 4, (3, 3), rngs=rngs), nnx.Linear(4, 3, rngs=rngs)
        self.norm, self.drop = nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(jnp.tanh(self.norm(self.first(x))).mean((1, 2))))


def of_nnx() -> Any:
    network = Nnx()
    network.eval()
    graph, weights, rest = nnx.split(network, nnx.Param, ...)
    return ld.Model(ld.Network(None, lambda w, x: nnx.merge(graph, w, rest)(x)), weights)


def of_haiku() -> Any:
    def forward(x):
        h = jnp.tanh(hk.Conv2D(4, 3)(x)).mean((1, 2))
        return hk.Linear(3)(hk.LayerNorm(-1, True, True)(h))

    network = hk.without_apply_rng(hk.transform(forward))
    return ld.Model(ld.Network(None, network.apply), network.init(jax.random.key(0), X))


@pytest.mark.parametrize("made", [of_linen, of_nnx, of_haiku])
def test_against_dense_derivatives(made):
    model = made()
    wide = lambda w: np.asarray(w, np.float64)
    model = ld.Model(model.network, jax.tree.map(wide, model.weights))
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, model.weights))
        outputs = lambda v: model.network(unravel(v), jnp.asarray(X))
        J = np.asarray(jax.jit(jax.jacrev(outputs))(flat)).reshape(15, -1)
        mean = lambda v: 0.5 * jnp.sum((outputs(v) - Y) ** 2) / len(X)
        H = np.asarray(jax.jit(jax.hessian(mean))(flat))
    np.testing.assert_allclose(p.ntk(model, X).reshape(15, 15), J @ J.T, rtol=0, atol=1e-10)
    top = p.hessian_top(model, X, Y, tolerance=0).values[0]
    assert top == pytest.approx(np.linalg.eigvalsh(H)[-1], rel=1e-9)
    rate = float(p.critical_learning_rate(model, X, Y))
    assert rate == pytest.approx(2 / np.linalg.eigvalsh(J.T @ J / len(X))[-1], rel=1e-9)


def test_an_optimizer_of_nnx():
    """Its state with pure arrays, as the page of formats says, against heavy ball's closed form."""
    network = nnx.Linear(6, 3, rngs=nnx.Rngs(0))
    optimizer, x = (
        nnx.Optimizer(network, optax.sgd(0.1, momentum=0.8), wrt=nnx.Param),
        X[:, 0, :, 0],
    )
    optimizer.update(network, nnx.grad(lambda n: jnp.mean((n(x) - Y) ** 2))(network))
    graph, weights, rest = nnx.split(network, nnx.Param, ...)
    apply = lambda w, x: nnx.merge(graph, w, rest)(x)
    model = ld.Model(ld.Network(None, apply), nnx.as_pure(weights))
    optimiser = optimizer.tx, nnx.as_pure(optimizer.opt_state)
    found = p.critical_learning_rate(model, x, Y, optimiser=optimiser)
    features = np.c_[x, np.ones(5)]
    top = np.linalg.eigvalsh(features.T @ features / 5)[-1]
    assert float(found) == pytest.approx(3.6 / top, rel=1e-4)
    assert found.factor == pytest.approx(float(found) / 0.1, rel=1e-6)
