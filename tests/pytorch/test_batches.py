"""Batches give what all examples give at once, in PyTorch and in JAX."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import learndyn as ld

p = ld.probes
N, D, K = 10, 3, 3
torch.manual_seed(0)
X, Y = torch.randn(N, D).double(), torch.randint(K, (N,))
Y[3] = Y[7] = -100
MODULE = nn.Sequential(nn.Linear(D, 25), nn.Tanh(), nn.Linear(25, K)).double()
OURS = ld.CrossEntropy(ignore_index=-100)


def pairs():
    """Batches of 4, 4 and 2 examples, with 3, 3 and 2 labels."""
    for first in (0, 4, 8):
        yield X[first : first + 4], Y[first : first + 4]


def by_name():
    for x, y in pairs():
        yield {"input": x, "labels": y}


SOURCES = {
    "a function": lambda: pairs,
    "a generator": pairs,
    "a list": lambda: list(pairs()),
    "dicts": lambda: by_name,
    "a DataLoader": lambda: DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True),
}
PROBES = {
    "hessian_top": lambda m, loss, **given: p.hessian_top(
        m, **given, loss=loss, k=2, tolerance=0).values,
    "rate": lambda m, loss, **given: float(
        p.critical_learning_rate(m, **given, loss=loss, tolerance=0)),
    "exact": lambda m, loss, **given: float(
        p.critical_learning_rate(m, **given, loss=loss, exact=True, tolerance=0)),
    "trace": lambda m, loss, **given: p.hessian_trace(m, **given, loss=loss, draws=3).value,
    "density": lambda m, loss, **given: p.spectral_density(
        m, **given, loss=loss, draws=2, steps=4).values,
    "operator": lambda m, loss, **given: p.hessian_operator(
        m, **given, loss=loss) @ np.ones(ld.as_model(m).size),
}  # fmt: skip
WHOLE = {name: probe(MODULE, OURS, x=X, y=Y) for name, probe in PROBES.items()}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source(source):
    for name in ("trace", "rate"):
        found = PROBES[name](MODULE, OURS, x=SOURCES[source]())
        np.testing.assert_allclose(found, WHOLE[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("loss", [OURS, nn.CrossEntropyLoss()], ids=["ours", "of PyTorch"])
def test_every_probe(loss):
    for name, probe in PROBES.items():
        found = probe(MODULE, loss, x=pairs)
        np.testing.assert_allclose(found, WHOLE[name], rtol=1e-8, err_msg=name)


@pytest.mark.parametrize("loss", [OURS, nn.CrossEntropyLoss()], ids=["ours", "of PyTorch"])
def test_a_batch_of_padding_counts_for_nothing(loss):
    padding = X[:3] + 5, torch.full((3,), -100)
    for name in ("operator", "trace"):
        found = PROBES[name](MODULE, loss, x=[padding, *pairs(), padding])
        np.testing.assert_allclose(found, WHOLE[name], rtol=1e-9, err_msg=name)


def test_jax():
    module = eqx.nn.MLP(D, K, 25, 1, activation=jnp.tanh, key=jax.random.key(0))
    module = jax.tree.map(lambda w: np.asarray(w, float) if eqx.is_array(w) else w, module)
    with torch.no_grad():
        for mine, theirs in zip(module.layers, (MODULE[0], MODULE[2]), strict=True):
            theirs.weight.copy_(torch.from_numpy(mine.weight))
            theirs.bias.copy_(torch.from_numpy(mine.bias))
    for name, probe in PROBES.items():
        both = [probe(m, OURS, x=pairs) for m in (module, MODULE)]
        np.testing.assert_allclose(*both, rtol=1e-8, err_msg=name)


def test_inputs_alone():
    loader = DataLoader(TensorDataset(X, Y), batch_size=4)
    inputs = lambda: (x for x, _ in pairs())
    whole, u = p.agop(MODULE, X), np.arange(N * K) / N
    for source in (loader, inputs, list(pairs())):
        np.testing.assert_allclose(p.agop(MODULE, source), whole, rtol=1e-12)
        found = p.kernel_operator(MODULE, source) @ u
        np.testing.assert_allclose(found, p.kernel_operator(MODULE, X) @ u, rtol=1e-11)
    rows = p.agop(MODULE, inputs, factor=True)
    np.testing.assert_allclose(rows, p.agop(MODULE, X, factor=True), rtol=1e-12)


def test_one_pass_per_product_with_progress():
    """A first pass counts examples; the fractions end with the last product."""
    passes, done = [0], []

    def counted():
        passes[0] += 1
        return pairs()

    p.hessian_trace(MODULE, counted, loss=OURS, draws=5, progress=done.append)
    assert passes == [6] and len(done) == 15 and done == sorted(done) and done[-1] == 1


def growing():
    growing.passes += 1
    return list(pairs())[: 3 if growing.passes < 3 else 2]


growing.passes = 0
BAD = {
    "empty": lambda: p.hessian_top(MODULE, list, loss=OURS),
    "empty inputs": lambda: p.agop(MODULE, list),
    "no pairs": lambda: p.hessian_top(MODULE, lambda: [X, X], loss=OURS),
    "no labels": lambda: p.hessian_top(MODULE, lambda: [{"input": X}], loss=OURS),
    "other lengths": lambda: p.hessian_top(MODULE, lambda: [(X, Y[:2])], loss=OURS),
    "other examples": lambda: p.hessian_top(MODULE, growing, loss=OURS),
    "only padding": lambda: p.hessian_top(MODULE, [(X, 0 * Y - 100)], loss=OURS),
    "no iterable": lambda: p.hessian_top(MODULE, lambda: 3, loss=OURS),
    "an array without targets": lambda: p.hessian_top(MODULE, X, loss=OURS),
    "labels": lambda: p.hessian_top(MODULE, lambda: [(X, Y), (X, Y + 3)], loss=OURS),
    "batch": lambda: p.critical_learning_rate(MODULE, pairs, loss=OURS, batch=2),
    "a mean": lambda: p.hessian_top(
        MODULE, lambda: [(X, X)], loss=lambda f, y: ((f - y) ** 2).mean()
    ),
    "NaN": lambda: p.hessian_top(MODULE, lambda: [(X * np.nan, Y)], loss=OURS),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_bad_batches_are_one_line(call):
    with pytest.raises(ValueError, match=r"\A[A-Za-z]+: [^\n]*allowed[^\n]*\Z"):
        call()
