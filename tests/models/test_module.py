"""Modules as models: which of their arrays are weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


class Normalised(eqx.Module):
    """A frozen batch norm with its running statistics, and a dense layer."""

    norm: eqx.nn.BatchNorm
    dense: eqx.nn.Linear
    state: eqx.nn.State

    def __init__(self):
        norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch")
        _, state = jax.vmap(norm, (0, None), (0, None), "batch")(jnp.asarray(X) + 1, state)
        self.norm, self.state = eqx.nn.inference_mode(norm), state
        self.dense = eqx.nn.Linear(4, 2, key=KEY)

    def __call__(self, x):
        return self.dense(self.norm(x, self.state)[0])


def test_the_state_of_equinox_is_no_weight():
    module = Normalised()
    model = ld.as_model(module)
    assert model.size == 4 + 4 + 2 * 4 + 2  # scale and shift of the norm, the dense layer
    np.testing.assert_allclose(model(X), jax.vmap(module)(X), rtol=1e-6)
    rows = jax.vmap(lambda x: jnp.append(module.norm(x, module.state)[0], 1.0))(X)
    along = ld.as_model(module, trainable=trained(module, "dense"))
    kernel = ld.probes.ntk(along, X)[:, 0, :, 0]
    np.testing.assert_allclose(kernel, rows @ rows.T, rtol=1e-4)


def trained(module, name):
    """A pytree of bools: one field learns."""
    nothing = jax.tree.map(lambda _: False, module)
    return eqx.tree_at(lambda m: getattr(m, name), nothing, replace=True)


def test_trainable_says_which_arrays_are_weights():
    module = eqx.nn.MLP(4, 2, 5, 1, key=KEY)
    assert ld.as_model(module).size == 37
    matrices = ld.as_model(module, trainable=lambda array: array.ndim == 2)
    assert matrices.size == 30
    np.testing.assert_allclose(matrices(X), jax.vmap(module)(X), rtol=1e-6)
    J = jax.vmap(jax.jacrev(lambda w, x: eqx.tree_at(first, module, w)(x)), (None, 0))
    rows = J(first(module), X).reshape(12, -1)
    alone = ld.as_model(module, trainable=eqx.tree_at(first, nothing(module), replace=True))
    np.testing.assert_allclose(
        ld.probes.ntk(alone, X).reshape(12, 12), rows @ rows.T, rtol=1e-4, atol=1e-5
    )


first = lambda module: module.layers[0].weight
nothing = lambda module: jax.tree.map(lambda _: False, module)
FLAX = {"params": {"w": np.ones((4, 2))}, "batch_stats": {"mean": np.ones(4), "var": np.ones(4)}}


def flax_like(variables, x):
    mean, var = variables["batch_stats"]["mean"], variables["batch_stats"]["var"]
    return (x - mean) / jnp.sqrt(var + 1e-5) @ variables["params"]["w"]


def test_statistics_beside_parameters_are_refused_and_may_be_closed_over():
    with pytest.raises(ValueError, match=r"\Aweights: got 'batch_stats' beside 'params'; allowed"):
        ld.Model(ld.Network(None, flax_like), FLAX)
    apply = lambda params, x: flax_like(FLAX | {"params": params}, x)
    model = ld.Model(ld.Network(None, apply), FLAX["params"])
    assert model.size == 8 and ld.probes.ntk(model, X).shape == (6, 2, 6, 2)
    network = ld.Network(lambda key: jax.tree.map(jnp.asarray, FLAX), flax_like)
    with pytest.raises(ValueError, match="init: got 'batch_stats' beside 'params'; allowed"):
        ld.start(ld.System(ld.Dataset(X, X[:, :2]), network, ld.SGD(0.1))).weights  # noqa: B018


REFUSED = {
    "a state": (
        lambda: ld.Model(ld.Network(None, lambda m, x: x), Normalised()),
        "weights: got an equinox State, which is not trained; allowed are weights only",
    ),
    "of a model": (
        lambda: ld.as_model(ld.as_model(eqx.nn.Linear(4, 2, key=KEY)), trainable=len),
        "trainable: got one for a Model; allowed is None, except for equinox modules",
    ),
    "no filter": (
        lambda: ld.as_model(eqx.nn.Linear(4, 2, key=KEY), trainable=3),
        "trainable: it fails",
    ),
    "nothing": (
        lambda: ld.as_model(eqx.nn.Linear(4, 2, key=KEY), trainable=False),
        "weights: got none; allowed is one precision",
    ),
}


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
