"""Gradient outer products and conserved quantities against dense ones and closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.wick import Moments

p = ld.probes
RNG = np.random.default_rng(0)
D = 100
RANK = {  # tasks of zhu2024catapults, Section 4.4
    2: ld.Polynomial([(1.0, {0: 1, 1: 1})], D),
    3: ld.Polynomial([(1.0, [(0, 1), (1, 1), (i, 1)]) for i in range(10)], D),
    4: ld.Polynomial([(1.0, {i: 1 for i in range(j)}) for j in range(1, 5)], D),
}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_agop_is_that_of_the_dense_jacobian(case):
    with jax.enable_x64(True):
        J = jax.jit(jax.vmap(jax.jacrev(jax.tree.map(_as_jax, case.module))))(case.x)
    rows = np.asarray(J).reshape(-1, case.x[0].size)
    expected = rows.T @ rows / len(case.x)
    close(p.agop(case.module, case.x), expected)
    factor = p.agop(case.module, case.x, factor=True)
    assert factor.shape == rows.shape and factor.dtype == np.float64
    close(factor.T @ factor, expected)


def _as_jax(leaf):
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def test_agop_of_a_function_of_several_outputs():
    x, A = RNG.normal(size=(6, 3)), RNG.normal(size=(2, 3))
    found = p.agop(lambda x: jnp.sin(A @ x), x)
    rows = np.cos(x @ A.T)[:, :, None] * A
    close(found, np.einsum("nai,naj->ij", rows, rows) / 6)


def test_closed_forms_of_egop():
    """sympy's values, shared by the verified list: 1, 1; 24, 10, 4; 4, 3, 2, 1."""
    expected = {2: [1, 1], 3: [24, 10, 4], 4: [4, 3, 2, 1]}
    cosine = {2: 0.1414, 3: 0.1445, 4: 0.1826}
    for rank, f in RANK.items():
        found = p.egop(f)
        values = np.linalg.eigvalsh(found.value)[::-1]
        np.testing.assert_allclose(values[:rank], expected[rank], rtol=1e-13)
        np.testing.assert_allclose(values[rank:], 0, atol=1e-13)
        assert np.all(found.error == 0) and "Wick" in found.convention
        assert round(float(p.alignment(np.eye(D), found)), 4) == cosine[rank]
    G = p.egop(RANK[3]).value
    assert [G[0, 0], G[0, 1], G[0, 2], G[2, 3], G[2, 2]] == [15, 5, 2, 1, 1]


def test_moments_by_quadrature():
    """Correlated variables, against Gauss-Hermite quadrature, exact for such degrees."""
    A = np.array([[1.0, 0.0], [0.6, 0.7]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    x, y = np.meshgrid(nodes, nodes, indexing="ij")
    v = np.einsum("ij,jnm->inm", A, np.stack([x, y]))
    share = np.outer(weights, weights) / weights.sum() ** 2
    moments = Moments(A @ A.T)
    for m in ((2, 0), (1, 1), (3, 1), (2, 4), (3, 3), (1, 2), (4, 4)):
        expected = np.sum(share * v[0] ** m[0] * v[1] ** m[1])
        np.testing.assert_allclose(moments(m), expected, rtol=1e-12, atol=1e-13)


FRAME = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
INPUTS = ld.Gaussian(ld.Spectrum([3.0, 0.5], [1, 3]), FRAME)
G = ld.Polynomial([(1.0, {0: 2, 1: 1}), (-0.7, {2: 1, 3: 1}), (0.3, {3: 3})], 4)


@pytest.mark.statistical
def test_the_exact_egop_is_the_mean_over_draws():
    """Every entry within five standard errors, which themselves are small."""
    exact = p.egop(G, INPUTS).value
    found = p.egop(lambda x: G(x), INPUTS, draws=20_000, key=1)
    assert np.all(np.abs(found.value - exact) < 5 * found.error)
    assert np.all(found.error < 0.1 * np.abs(exact).max())


@pytest.mark.statistical
def test_the_egop_of_a_norm():
    """|x|/√d of isotropic inputs has I/d²."""
    found = p.egop(lambda x: jnp.sqrt(x @ x / 10), ld.Isotropic(10), draws=5000, key=0)
    assert np.all(np.abs(found.value - np.eye(10) / 100) < 5 * found.error)
    assert np.all(found.error < 3e-4)


def test_the_error_is_that_of_the_mean():
    """Two outputs: against the outer products one by one."""
    f = lambda x: jnp.stack([jnp.tanh(x[0] * x[1]), x[1] ** 2])
    found = p.egop(f, ld.Isotropic(2), draws=50, key=2)
    x = np.random.default_rng(2).standard_normal((50, 2))
    with jax.enable_x64(True):
        J = np.asarray(jax.vmap(jax.jacrev(f))(x))
    each = np.einsum("nai,naj->nij", J, J)
    np.testing.assert_allclose(found.value, each.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.error, each.std(axis=0, ddof=1) / np.sqrt(50), rtol=1e-10)


def test_alignment():
    A, B = RNG.normal(size=(2, 5, 3))
    GA, GB = A.T @ A, B.T @ B
    expected = np.trace(GA.T @ GB) / np.linalg.norm(GA) / np.linalg.norm(GB)
    np.testing.assert_allclose(p.alignment(GA, GB), expected, rtol=1e-13)
    np.testing.assert_allclose(
        p.alignment(A, B[:4], factors=True), p.alignment(GA, B[:4].T @ B[:4])
    )
    assert p.alignment(GA, -2 * GA) == pytest.approx(-1)
    assert p.effective_rank(np.diag([2.0, 2.0, 0.0])) == 2


MODULE = eqx.nn.MLP(3, 2, 5, 2, key=jax.random.key(0))


def test_the_neural_feature_matrix():
    for layer in (1, 3):
        W = np.asarray(MODULE.layers[layer - 1].weight)
        np.testing.assert_allclose(p.neural_feature_matrix(MODULE, layer), W.T @ W, rtol=1e-6)


def trained(network, weights, rate, steps):
    x, y = np.random.default_rng(5).normal(size=(2, 8, 3))
    system = ld.System(ld.Dataset(x, y[:, :2]), network, ld.GradientDescent(rate))
    start = ld.start(system, weights=weights)
    flat = lambda model: jnp.concatenate([c.ravel() for c in p.conserved(model)])
    record = ld.simulate(
        system, [0, steps], start=start, dtype="float64",
        probes={"conserved": flat, "weights": lambda model: model.vector()},
    )  # fmt: skip
    assert "read_between_pieces" not in record.attrs
    return record.isel(run=0)


@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_what_gradient_flow_conserves(activation):
    """With half the rate and twice the steps it moves half as far: it is conserved by the flow."""
    network = ld.MLP([3, 6, 5, 2], activation, bias=True, gain=1.4)
    weights = network.sample(np.random.default_rng(1), (3,))
    moved = []
    for rate, steps in ((0.01, 100), (0.005, 200)):
        record = trained(network, weights, rate, steps)
        change = np.abs(np.diff(record["conserved"].values, axis=0)).max()
        moved.append(change)
        assert np.abs(np.diff(record["weights"].values, axis=0)).max() > 0.1
    assert moved[0] < 0.05 and moved[0] / moved[1] == pytest.approx(2, rel=0.1)


def test_chains_of_other_libraries():
    linear = [eqx.nn.Linear(a, b, key=jax.random.key(b)) for a, b in ((3, 4), (4, 2))]
    leaky = eqx.nn.Sequential([linear[0], eqx.nn.Lambda(jax.nn.leaky_relu), linear[1]])
    W, b, V = (np.asarray(a) for a in (linear[0].weight, linear[0].bias, linear[1].weight))
    expected = (V**2).sum(0) - (W**2).sum(1) - b**2
    np.testing.assert_allclose(p.conserved(leaky)[0], expected, rtol=1e-5, atol=1e-6)
    plain = p.conserved(eqx.nn.Sequential(linear))[0]
    np.testing.assert_allclose(plain, V.T @ V - W @ W.T - np.outer(b, b), rtol=1e-5, atol=1e-6)


class Several(eqx.Module):
    """A module whose outputs are no array, or not of floats."""

    weight: jax.Array
    how: str = eqx.field(static=True)

    def __call__(self, x):
        h = self.weight * x
        return (h, h[:1]) if self.how == "several" else jnp.argmax(h)


X = np.ones((2, 3))
REFUSED = {
    "two outputs of a module": lambda: p.ntk(Several(jnp.ones(3), "several"), X),
    "an index of a module": lambda: p.hessian_top(Several(jnp.ones(3), "index"), X, X[:, 0]),
    "a NumPy function": lambda: p.agop(lambda x: np.sin(x).sum(), X),
    "an index": lambda: p.agop(lambda x: x.argmax(), X),
    "outputs of unequal shape": lambda: p.agop(lambda x: (x, x[:1]), X),
    "integers": lambda: p.agop(MODULE, np.ones((2, 3), int)),
    "no examples": lambda: p.agop(MODULE, X[:0]),
    "a matrix too large": lambda: p.agop(MODULE, np.broadcast_to(np.zeros(1), (1, 10**7))),
    "a number": lambda: p.agop(3.0, X),
    "no inputs": lambda: p.egop(jnp.sum),
    "inputs of another dimension": lambda: p.egop(G, ld.Isotropic(3)),
    "one draw": lambda: p.egop(jnp.sum, ld.Isotropic(3), draws=1),
    "two shapes": lambda: p.alignment(np.eye(2), np.eye(3)),
    "vectors": lambda: p.alignment(np.ones(3), np.ones(3)),
    "zeros": lambda: p.alignment(np.eye(2), np.zeros((2, 2))),
    "a layer beyond": lambda: p.neural_feature_matrix(MODULE, 4),
    "no chain": lambda: p.neural_feature_matrix(eqx.nn.Conv2d(1, 1, 2, key=jax.random.key(0))),
    "tanh": lambda: p.conserved(eqx.nn.MLP(3, 2, 4, 1, activation=jnp.tanh, key=jax.random.key(0))),
    "one layer": lambda: p.conserved(eqx.nn.Linear(3, 2, key=jax.random.key(0))),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_in_one_line(call):
    with pytest.raises(ValueError, match=r"\A[A-Za-z]+: [^\n]*allowed[^\n]*\Z"):
        call()
