"""Tangent kernels of foreign networks against their dense Jacobians."""

import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.tangent import kernel
from learndyn.tangent.jacobian import rows_of

EXACT = 1e-12
B = 1200  # numbers: two examples of the MLP fit, and one of the others does not


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=EXACT * np.abs(expected).max())


def test_it_is_the_product_of_dense_jacobians(case):
    for x2, J2 in ((None, case.J), (case.x2, case.J2)):
        expected = np.einsum("iap,jbp->iajb", case.J, J2)
        found = ld.probes.ntk(case.module, case.x, x2)
        assert isinstance(found, np.ndarray) and found.dtype == np.float64
        close(found, expected[:, 0, :, 0] if case.J.shape[1] == 1 else expected)


def test_blocks_do_not_change_it(case):
    model = ld.as_model(case.module)
    expected = np.einsum("iap,jbp->iajb", case.J, case.J2)
    with jax.enable_x64(True):
        blocks = eqx.filter_jit(
            lambda m, x, x2: kernel.kernel(m.network, m.weights, x, x2, block=B)
        )
        close(blocks(model, case.x, case.x2), expected)


def test_blocks_on_an_accelerator_take_an_eighth_of_its_memory(monkeypatch):
    assert kernel.block_of(8) == kernel.BLOCK
    monkeypatch.setattr(jax, "devices", lambda: [types.SimpleNamespace(platform="gpu")])
    for memory, numbers in ((2**37, 2**32), (2**20, kernel.BLOCK)):
        monkeypatch.setattr(kernel, "memory", lambda memory=memory: memory)
        assert kernel.block_of(4) == numbers


def test_products_and_gradients_of_a_model(case):
    model, rng = ld.as_model(case.module), np.random.default_rng(1)
    u, v = rng.normal(size=case.J.shape[:2]), rng.normal(size=case.J.shape[2])
    close(model.jvp(case.x, v), case.J @ v)
    close(model.vjp(case.x, u), np.einsum("ia,iap->p", u, case.J))
    close(model.outputs(case.x), case.outputs)
    slope = model.input_gradients(case.x)
    shift = 1e-6 * rng.normal(size=case.x.shape)
    change = model.outputs(case.x + shift) - model.outputs(case.x - shift)
    expected = [np.tensordot(a, b, b.ndim) for a, b in zip(slope, 2 * shift, strict=True)]
    expected = np.array(expected)
    np.testing.assert_allclose(change.reshape(expected.shape), expected, atol=1e-12)


def test_the_operator_takes_batches(case):
    x, u = case.x, np.random.default_rng(1).normal(size=len(case.kernel))
    generator = (part for part in (x[:2], x[2:]))
    for given in (x, [x[:2], x[2:]], generator):
        operator = ld.probes.kernel_operator(case.module, given)
        close(operator @ u, case.kernel @ u)
        close(operator @ u, case.kernel @ u)  # once more, though a generator ends


def test_spectra(case, monkeypatch):
    expected = np.linalg.eigvalsh(case.kernel)[::-1]
    found = ld.probes.ntk_spectrum(case.module, case.x)
    close(found, expected)
    close(ld.probes.ntk_spectrum(case.module, iter([case.x[:2], case.x[2:]]), 2), expected[:2])
    np.testing.assert_allclose(
        ld.probes.pl_constant(case.module, case.x), expected[-1], atol=EXACT * expected[0]
    )
    monkeypatch.setattr("learndyn.probes.kernel.DENSE", 0)
    monkeypatch.setattr("learndyn.numerics.lanczos.SMALL", 0)
    close(ld.probes.ntk_spectrum(case.module, [case.x[:2], case.x[2:]], 2), expected[:2])


def test_drift(case):
    twice = jax.tree.map(lambda w: 1.5 * w if isinstance(w, np.ndarray) else w, case.module)
    after, before = (ld.probes.ntk(m, case.x) for m in (twice, case.module))
    matrix = (after - before).reshape(case.kernel.shape)
    for norm, order in (("frobenius", "fro"), ("spectral", 2)):
        expected = np.linalg.norm(matrix, order) / np.linalg.norm(case.kernel, order)
        for start in (case.module, before):
            found = ld.probes.kernel_drift(twice, case.x, start=start, norm=norm)
            np.testing.assert_allclose(found, expected, rtol=EXACT)
    assert ld.probes.kernel_drift(case.module, case.x, start=case.module) == 0


@pytest.mark.parametrize("s", [1, 3, 5])
def test_the_split_loss_adds_up(case, s):
    loss = ld.SquaredLoss(0.7)
    y = case.y if case.y.dtype == np.float64 else np.eye(3)[case.y][:, : case.J.shape[1]]
    r = (case.outputs.reshape(y.shape) - y).ravel()
    found = ld.probes.split_loss(case.module, case.x, y, loss=loss, s=s)
    top = np.linalg.eigh(case.kernel)[1][:, -s:]
    np.testing.assert_allclose(found.top, 0.7 / 5 * np.sum((top.T @ r) ** 2), rtol=1e-10)
    np.testing.assert_allclose(found.top + found.rest, 0.7 / 5 * r @ r, rtol=EXACT)


LOOKUPS = {
    "brackets": lambda table, x: table[x],
    "take": lambda table, x: jnp.take(table, x, axis=0),
    "equinox": lambda table, x: jax.vmap(jax.vmap(eqx.nn.Embedding(weight=table)))(x),
}


@pytest.mark.parametrize(
    ("name", "words"), [("brackets", 4), ("brackets", 40), ("take", 40), ("equinox", 40)]
)
def test_embeddings_are_contracted(name, words):
    """By pairs of positions, or by rows where words are few; tokens occur repeatedly."""
    lookup = LOOKUPS[name]
    rng = np.random.default_rng(0)
    x = rng.integers(words, size=(5, 4))
    x[0] = x[1, 0]
    weights = [rng.normal(size=(words, 3)), rng.normal(size=(3, 2))]
    apply = lambda w, x: jnp.tanh(lookup(2.0 * w[0], x)).sum(1) @ w[1]
    with jax.enable_x64(True):
        parts = jax.jacrev(apply)(weights, x)
        rows = rows_of(apply, weights, jnp.asarray(x), lookups=True)
        whole = jax.jit(lambda w, x: kernel.kernel(apply, w, x, x[:3], block=1))(weights, x)
    assert not any(type(each).__name__ == "Plain" for each in rows)
    J = np.concatenate([np.asarray(part).reshape(5, 2, -1) for part in parts], axis=2)
    close(ld.ntk(ld.Model(ld.Network(None, apply), weights), x), np.einsum("iap,jbp->iajb", J, J))
    close(whole, np.einsum("iap,jbp->iajb", J, J[:3]))


class Tied(eqx.Module):
    """One matrix for two layers; another inside a loop, a mask on a third, a product of two."""

    both: jax.Array
    looped: jax.Array
    masked: jax.Array
    left: jax.Array
    right: jax.Array

    def __call__(self, x):
        h = jnp.tanh(self.both @ jnp.tanh(self.both.T @ (0.5 * self.both) @ x))
        h, _ = jax.lax.scan(lambda h, _: (jnp.sin(self.looped @ h), None), h, None, length=2)
        mask = jnp.asarray([[1.0, 0.0, 2.0]])
        return (-2 * (self.left @ self.right)) @ jnp.tanh((mask * self.masked) @ h)


def test_weights_without_a_layer_of_their_own():
    rng = np.random.default_rng(0)
    module, x = Tied(*rng.normal(size=(5, 3, 3))), rng.normal(size=(4, 3))
    with jax.enable_x64(True):
        jacobian = jax.vmap(jax.jacrev(lambda m, x: m(x)), (None, 0))(module, x)
        rows = np.concatenate([np.reshape(w, (4, 3, -1)) for w in jax.tree.leaves(jacobian)], 2)
        model = ld.as_model(module)
        found = eqx.filter_eval_shape(rows_of, model.network, model.weights, x)
        kinds = [type(rows).__name__ for rows in found]
    assert kinds == ["Plain", "Plain", "Plain", "Dense", "Dense"]
    close(ld.probes.ntk(module, x), np.einsum("iap,jbp->iajb", rows, rows))


def test_layers_of_foreign_networks_are_found(case):
    """All matrices but grouped ones; biases and normalisations have rows of their own."""
    model = ld.as_model(case.module)
    with jax.enable_x64(True):
        found = eqx.filter_eval_shape(rows_of, model.network, model.weights, case.x)
    matrices = sum(np.ndim(w) in (2, 4) for w in jax.tree.leaves(model.weights))
    grouped = case.x.ndim == 4
    assert sum(type(rows).__name__ != "Plain" for rows in found) == matrices - grouped


@pytest.mark.parametrize("parameterisation", ["ntk", "standard"])
def test_networks_of_ours(parameterisation):
    network = ld.MLP([3, 8, 6, 1], "relu", parameterisation=parameterisation, bias=True)
    weights = network.sample(np.random.default_rng(0), (3,))
    x = np.random.default_rng(1).normal(size=(4, 3))
    with jax.enable_x64(True):
        J = jax.jit(jax.jacrev(network))(jax.tree.map(jnp.asarray, weights), x)
        rows = np.concatenate([np.reshape(leaf, (4, -1)) for leaf in jax.tree.leaves(J)], axis=1)
    close(ld.probes.ntk(ld.Model(network, weights), x), rows @ rows.T)


def test_precision_is_that_of_the_weights():
    module = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(4, 3))
    assert ld.probes.ntk(module, x).dtype == np.float32
    assert ld.probes.ntk_spectrum(module, x).dtype == np.float32


def test_probes_run_in_the_compiled_loop():
    """Kernel, rates and Hessian are traced, and are those of the weights between steps."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(6, 1))
    network = ld.MLP([3, 5, 1], "tanh")
    system = ld.System(ld.Dataset(x, y), network, ld.GradientDescent(0.1))
    start = ld.start(system, key=0)
    first = ld.Model(network, start.weights)
    p = ld.probes
    probes = {
        "kernel": lambda model: p.ntk(model, x),
        "spectrum": lambda model: p.ntk_spectrum(model, x, 2),
        "drift": lambda model: p.kernel_drift(model, x, start=first, norm="spectral"),
        "least": lambda model: p.pl_constant(model, x),
        "top": lambda model: p.split_loss(model, x, y, s=2).top,
        "rate": lambda model: p.critical_learning_rate(model, x),
        "exact": lambda model: p.critical_learning_rate(model, x, y, exact=True),
        "sharpness": lambda model: p.hessian_top(model, x, y, k=2).values,
        "weights": lambda model: model.vector(),
    }
    found = ld.simulate(system, [0, 3], start=start, dtype="float64", probes=probes)
    assert "read_between_pieces" not in found.attrs
    for time, weights in enumerate(found["weights"].values[0]):
        model = first.moved(weights - first.vector())
        for name, probe in probes.items():
            here = found[name].values[0, time]
            np.testing.assert_allclose(here, probe(model), rtol=1e-9, atol=1e-13, err_msg=name)


REFUSED = {
    "a network without weights": lambda x: ld.probes.ntk(ld.MLP([3, 1], "relu"), x),
    "a function": lambda x: ld.probes.ntk(jnp.tanh, x),
    "no examples": lambda x: ld.probes.ntk(MODULE, x[:0]),
    "NaN weights": lambda x: ld.probes.ntk(BROKEN, x),
    "NaN in an operator": lambda x: ld.probes.kernel_operator(BROKEN, x) @ np.ones(8),
    "two precisions": lambda x: ld.probes.ntk(MIXED, x),
    "half precision": lambda x: ld.probes.ntk(HALF, x),
    "too many eigenvalues": lambda x: ld.probes.ntk_spectrum(MODULE, x, 9),
    "no eigenvalues": lambda x: ld.probes.ntk_spectrum(MODULE, x, 0),
    "too many eigenspaces": lambda x: ld.probes.split_loss(MODULE, x, x[:, :2], s=9),
    "a loss without directions": lambda x: ld.probes.split_loss(
        MODULE, x, np.zeros(4, int), loss=ld.CrossEntropy(), s=1
    ),
    "targets of others": lambda x: ld.probes.split_loss(MODULE, x, x[:3, :2], s=1),
    "a kernel of another size": lambda x: ld.probes.kernel_drift(MODULE, x, start=np.ones((2, 2))),
    "a norm": lambda x: ld.probes.kernel_drift(MODULE, x, start=MODULE, norm="nuclear"),
    "no batches": lambda x: ld.probes.kernel_operator(MODULE, []),
    "too many rows": lambda x: ld.probes.ntk(MODULE, np.broadcast_to(x[:1], (10**7, 3))),
}
MODULE = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
first = lambda module: module.layers[0].weight
BROKEN = eqx.tree_at(first, MODULE, first(MODULE).at[0, 0].set(jnp.nan))
MIXED = eqx.tree_at(first, MODULE, np.asarray(first(MODULE), np.float64))
HALF = jax.tree.map(lambda w: w.astype(jnp.float16) if eqx.is_inexact_array(w) else w, MODULE)


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_in_one_line(call):
    with pytest.raises(ValueError, match=r"\A[a-z0-9]+: [^\n]*allowed[^\n]*\Z"):
        call(np.random.default_rng(0).normal(size=(4, 3)))


def test_a_kernel_too_large_names_the_operator():
    x = np.broadcast_to(np.zeros((1, 3)), (10**7, 3))
    with pytest.raises(ValueError, match=r"GiB.*kernel_operator.*one backward and one forward"):
        ld.probes.ntk(MODULE, x)


def test_a_compiled_program_has_the_kernel_of_a_wide_twin():
    """Which XLA simplifies wrongly where it is let."""
    rng, net = np.random.default_rng(0), ld.MLP([4, 4096, 1], "relu")
    twin = ld.quadratic(ld.Model(net, net.sample(rng, (4,))))
    x = rng.normal(size=(1, 4))
    weights = jax.tree.map(lambda w: w + 0.3 * rng.normal(size=w.shape), twin.sample(rng, (4,)))
    problem = ld.Dataset(x, np.ones((1, 1)))
    system = ld.System(problem, twin, ld.GradientDescent(1e-9))
    start, probes = ld.start(system, weights=weights), {"k": lambda m: ld.probes.ntk(m, x)}
    found = ld.simulate(system, [0, 1], start=start, dtype="float64", probes=probes)["k"]
    with jax.enable_x64(True):
        rows = jax.grad(lambda w: twin(w, jnp.asarray(x))[0])(weights)
    expected = sum(np.sum(np.asarray(row) ** 2) for row in jax.tree.leaves(rows))
    np.testing.assert_allclose(found.values.ravel()[0], expected, rtol=1e-12)


@pytest.mark.parametrize("twin", [ld.linearise, ld.quadratic])
def test_one_example_has_the_kernel_of_a_wide_network_in_its_twins(twin):
    """At the weights around which they expand; XLA had it wrong for the linear one."""
    rng, net = np.random.default_rng(2), ld.MLP([10, 4096, 1], "relu")
    model, x = ld.Model(net, net.sample(rng, (10,))), rng.normal(size=(3, 10))
    K, T = ld.probes.ntk(model, x), ld.Model(twin(model), model.weights)
    np.testing.assert_allclose(ld.probes.ntk(T, x[:1]), K[:1, :1], rtol=1e-12)
    np.testing.assert_allclose(ld.probes.ntk(T, x[:1], x), K[:1], rtol=1e-12)
