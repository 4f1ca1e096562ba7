"""JAX models of several inputs and several outputs, against the same function of one array."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

p = ld.probes
N, D, T = 5, 3, 4
RNG = np.random.default_rng(0)
A, TOKENS, Y = RNG.normal(size=(N, D)), RNG.integers(T, size=(N, 2)), RNG.normal(size=(N, 2))


class Both(eqx.Module):
    """An array and tokens, as two arguments; two outputs."""

    dense: Any
    table: Any

    def __init__(self):
        one, other = jax.random.split(jax.random.key(0))
        self.dense = np.asarray(jax.random.normal(one, (2, D)), np.float64)
        self.table = np.asarray(jax.random.normal(other, (T, 2)), np.float64)

    def __call__(self, a, tokens):
        h = jnp.tanh(self.dense @ a)
        return {"logits": h * jnp.asarray(self.table)[tokens].sum(0), "hidden": h}


class Flat(eqx.Module):
    """The same of one array."""

    both: Both
    output: str = eqx.field(static=True)

    def __call__(self, x):
        return self.both(x[:D], x[D:].astype(int))[self.output]


MODULE = Both()
GIVEN = {"by name": {"tokens": TOKENS, "a": A}, "by position": (A, TOKENS)}


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("output", ["logits", "hidden"])
def test_several_inputs(kind, output):
    x, flat = GIVEN[kind], np.concatenate([A, TOKENS], axis=1)
    model = MODULE if output == "logits" else ld.as_model(MODULE, output=output)
    other = Flat(MODULE, output)
    same = lambda found, expected: np.testing.assert_allclose(found, expected, atol=1e-12)
    same(p.ntk(model, x), p.ntk(other, flat))
    two = {k: v[:2] for k, v in x.items()} if isinstance(x, dict) else tuple(v[:2] for v in x)
    same(p.ntk(model, two, x), p.ntk(other, flat[:2], flat))
    found = p.hessian_top(model, x, Y, k=2, tolerance=0).values
    same(found, p.hessian_top(other, flat, Y, k=2, tolerance=0).values)
    of = lambda m, x: float(p.critical_learning_rate(m, x, Y, exact=True))
    same(of(model, x), of(other, flat))
    same(ld.as_model(model)(GIVEN["by position"]), ld.as_model(other)(flat))


def test_a_function_takes_the_container_as_it_is():
    network = ld.Network(None, lambda w, x: jnp.tanh(x["a"] @ w) + x["b"][:, None])
    w, x = RNG.normal(size=(D, 2)), {"a": A, "b": np.ones(N)}
    found = p.ntk(ld.Model(network, w), x)
    rows = jax.jacrev(lambda w: network(w, x))(w).reshape(N, 2, -1)
    np.testing.assert_allclose(found, np.einsum("iap,jbp->iajb", rows, rows), rtol=1e-4)


def test_bad_inputs_are_one_line():
    match = r"\A[A-Za-z]+(\[[^\n]*\])?: [^\n]*allowed[^\n]*\Z"
    for call in (
        lambda: p.ntk(MODULE, {"a": A, "tokens": TOKENS[:2]}),
        lambda: p.ntk(MODULE, {"a": A, "token": TOKENS}),
        lambda: p.ntk(MODULE, (A, "tokens")),
        lambda: p.agop(MODULE, (A, TOKENS)),
        lambda: p.ntk(ld.as_model(MODULE, output="scores"), (A, TOKENS)),
        lambda: ld.as_model(ld.as_model(MODULE), output="hidden"),
        lambda: p.ntk(eqx.nn.MLP(D, 2, 3, 1, key=jax.random.key(0)), {"a": A}),
    ):
        with pytest.raises(ValueError, match=match):
            call()
