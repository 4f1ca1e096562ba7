"""Hessians of foreign networks against dense ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld

EXACT = 1e-12
p = ld.probes


def given(case):
    return case.module, case.x, case.y


def close(found, expected, scale):
    np.testing.assert_allclose(found, expected, rtol=0, atol=EXACT * np.abs(scale).max())


def test_products_and_top(case):
    """Values to machine precision, and vectors that are eigenvectors."""
    H = case.hessian
    v = np.random.default_rng(0).normal(size=len(H))
    close(p.hessian_operator(*given(case), loss=case.loss) @ v, H @ v, H @ v)
    values = np.linalg.eigvalsh(H)[::-1]
    found = p.hessian_top(*given(case), loss=case.loss, k=3, tolerance=0)
    close(found.values, values[:3], values)
    close(H @ found.vectors, found.vectors * found.values, 10 * values)
    close(found.vectors.T @ found.vectors, np.eye(3), np.ones(1))


def test_the_exact_trace(case):
    found = p.hessian_trace(*given(case), loss=case.loss, draws=None)
    close(found.value, np.trace(case.hessian), np.linalg.eigvalsh(case.hessian))
    assert found.error == 0


def test_critical_rates(case):
    """2/λ_max of the Hessian, and of its Gauss-Newton part by the dense Jacobian."""
    n, k, _ = case.J.shape
    found = p.critical_learning_rate(*given(case), loss=case.loss, exact=True, tolerance=0)
    np.testing.assert_allclose(float(found), 2 / np.linalg.eigvalsh(case.hessian)[-1], rtol=EXACT)
    if isinstance(case.loss, ld.SquaredLoss):
        A = np.broadcast_to(1.4 * np.eye(k), (n, k, k))
    else:
        q = np.exp(case.outputs) / np.exp(case.outputs).sum(axis=1, keepdims=True)
        A = np.einsum("na,ab->nab", q, np.eye(k)) - q[:, :, None] * q[:, None, :]
    gauss_newton = np.einsum("nap,nab,nbq->pq", case.J, A, case.J) / n
    expected = 2 / np.linalg.eigvalsh(gauss_newton)[-1]
    for y in (None, case.y):
        found = p.critical_learning_rate(case.module, case.x, y, loss=case.loss)
        np.testing.assert_allclose(found.value, expected, rtol=EXACT)
        assert "Gauss-Newton" in found.convention and type(case.loss).__name__ in found.convention


def test_the_factors_of_squared_losses():
    """n/λ_max(K) for the mean of r², 2n/λ_max(K) for half of it."""
    module, x = eqx.nn.MLP(3, "scalar", 8, 1, key=jax.random.key(0)), RNG.normal(size=(6, 3))
    top = np.linalg.eigvalsh(p.ntk(module, x).astype(np.float64))[-1]
    rate = lambda loss: float(p.critical_learning_rate(module, x, loss=loss))
    np.testing.assert_allclose(rate(ld.SquaredLoss(1.0)), 6 / top, rtol=1e-5)
    np.testing.assert_allclose(rate(None), 12 / top, rtol=1e-5)


def test_moments_of_the_density_are_exact_for_its_draws(case):
    """Gauss quadrature: up to degree 2 · steps − 1; the masses of a draw sum to one."""
    H, size = case.hessian / np.linalg.norm(case.hessian, 2), len(case.hessian)
    found = p.spectral_density(*given(case), loss=case.loss, draws=2, steps=4, key=3)
    rng = np.random.default_rng(3)
    for values, masses in zip(found.values, found.masses, strict=True):
        v = (2.0 * rng.integers(2, size=size) - 1) / np.sqrt(size)
        moments = [v @ np.linalg.matrix_power(H, j) @ v for j in range(8)]
        scaled = values / np.linalg.norm(case.hessian, 2)
        close([masses @ scaled**j for j in range(8)], moments, np.ones(1))


RNG = np.random.default_rng(0)
MODULE = eqx.nn.MLP(3, 2, 6, 1, activation=jnp.tanh, key=jax.random.key(0))
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2))


@pytest.mark.statistical
def test_density_and_trace_over_draws():
    size = ld.as_model(MODULE).size
    H = p.hessian_operator(MODULE, X, Y) @ np.eye(size, dtype=np.float32)
    found = p.hessian_trace(MODULE, X, Y, draws=100)
    assert abs(found.value - np.trace(H)) < 4 * found.error < np.trace(H)
    density = p.spectral_density(MODULE, X, Y, draws=30, steps=6)
    each = np.sum(density.masses * density.values**2, axis=1) * size
    error = each.std(ddof=1) / np.sqrt(len(each))
    assert abs(density.moment(2) * size - np.sum(H**2)) < 4 * error < np.sum(H**2)
    points = np.linspace(density.values.min() - 1, density.values.max() + 1, 400)
    curve = density.at(points, 0.1)
    np.testing.assert_allclose(np.trapezoid(curve, points), 1, rtol=1e-3)
    np.testing.assert_allclose(np.trapezoid(curve * points, points), density.moment(1), rtol=1e-2)


def test_a_density_refuses_what_is_no_width_or_point():
    density = p.SpectralDensity(np.array([[0.0, 2.0]]), np.array([[0.5, 0.5]]), "")
    assert density.moment(0) == density.moment(1) == 1
    for points, width, said in (
        (np.ones(1), 0, "width: got 0; allowed is a positive"),
        (np.ones(()), 1.0, r"points: got shape \(\)"),
    ):
        with pytest.raises(ValueError, match=said):
            density.at(points, width)


def test_output_hessians_in_a_ball(case):
    x = case.x[:1]
    found = p.output_hessian_norm(case.module, x, radius=0.5, draws=1, key=2)
    assert found.values.shape == (2, 1, case.J.shape[1]) and found.largest == found.values.max()
    model = ld.as_model(case.module)
    step = np.random.default_rng(2).standard_normal(model.size)
    ball = [model.vector(), model.vector() + 0.5 * step / np.linalg.norm(step)]
    with jax.enable_x64(True):
        unravel = ravel_pytree(jax.tree.map(jnp.asarray, model.weights))[1]
        hessian = jax.jit(jax.hessian(lambda v: model.network(unravel(v), jnp.asarray(x))[0]))
        dense = [np.asarray(hessian(v)) for v in ball]
    norms = [[np.linalg.norm(H, 2) for H in each] for each in dense]
    close(found.values[:, 0], np.array(norms), np.array(norms))


@pytest.mark.parametrize("inputs", [3, 80])  # formed, and by products
def test_a_linear_model_has_no_hessian(inputs):
    network = ld.MLP([inputs, 1], "linear")
    model = ld.Model(network, network.sample(np.random.default_rng(0), (inputs,)))
    assert p.output_hessian_norm(model, np.ones((1, inputs))).largest == 0


def test_the_convention_of_kinks_is_said():
    relu = eqx.nn.MLP(3, "scalar", 6, 1, key=jax.random.key(0))
    said = p.hessian_top(relu, X, Y[:, 0]).convention
    assert "relu" in said and "counts as 0" in said and "SquaredLoss(scale=0.5)" in said
    assert "counts" not in p.hessian_top(MODULE, X, Y).convention
    assert "relu" in p.critical_learning_rate(relu, X, Y[:, 0], exact=True).convention
    # Two layers of relu: the Hessian of an output is that of the network with its gates fixed.
    found = p.output_hessian_norm(relu, X[:1])
    W, b = (np.asarray(a, np.float64) for a in (relu.layers[0].weight, relu.layers[0].bias))
    gates = (W @ X[0] + b) > 0
    mixed = np.sqrt(X[0] @ X[0] + 1) * gates.any()
    np.testing.assert_allclose(found.largest, mixed, rtol=1e-5)


KINKS = {
    "softplus": (jax.nn.softplus, []),
    "elu": (jax.nn.elu, []),
    "elu, alpha 2": (lambda x: jax.nn.elu(x, 2.0), ["elu"]),
    "selu": (jax.nn.selu, ["elu"]),
    "celu": (lambda x: jax.nn.celu(x, 2.0), []),
    "gelu": (jax.nn.gelu, []),
    "silu": (jax.nn.silu, []),
    "mish": (jax.nn.mish, []),
    "tanh": (jnp.tanh, []),
    "identity": (lambda x: x, []),
    "softmax": (jax.nn.softmax, []),
    "logsumexp": (lambda x: x - jax.nn.logsumexp(x), []),
    "soft_sign": (jax.nn.soft_sign, []),
    "relu": (jax.nn.relu, ["relu"]),
    "leaky_relu": (jax.nn.leaky_relu, ["leaky_relu"]),
    "hard_silu": (jax.nn.hard_silu, ["hard_sigmoid"]),
    "maximum": (lambda x: jnp.maximum(x, 0.1 * x), ["max"]),
    "abs": (jnp.abs, ["abs"]),
}


@pytest.mark.parametrize("name", KINKS)
def test_only_kinks_are_kinks(name):
    """Where the slope of an activation jumps; softplus is smooth, though made of a maximum."""
    activation, kinks = KINKS[name]
    layer = eqx.nn.Linear(3, 4, key=jax.random.key(0))
    module = eqx.nn.Sequential([layer, eqx.nn.Lambda(activation)])
    assert ld.as_model(module).kinks(X) == kinks


def test_infinite_where_nothing_curves():
    module = eqx.nn.MLP(3, 2, 6, 1, use_final_bias=False, key=jax.random.key(0))
    flat = jax.tree.map(lambda w: 0 * w if eqx.is_inexact_array(w) else w, module)
    assert float(p.critical_learning_rate(flat, X)) == np.inf


REFUSED = {
    "too many": lambda: p.hessian_top(MODULE, X, Y, k=1000),
    "none": lambda: p.hessian_top(MODULE, X, Y, k=0),
    "no targets": lambda: p.critical_learning_rate(MODULE, X, exact=True),
    "fewer targets": lambda: p.hessian_top(MODULE, X, Y[:3]),
    "NaN weights": lambda: p.hessian_top(BROKEN, X, Y),
    "NaN weights, exact": lambda: p.critical_learning_rate(BROKEN, X, Y, exact=True),
    "NaN weights, trace": lambda: p.hessian_trace(BROKEN, X, Y),
    "one draw": lambda: p.hessian_trace(MODULE, X, Y, draws=1),
    "no steps": lambda: p.spectral_density(MODULE, X, Y, steps=0),
    "a negative radius": lambda: p.output_hessian_norm(MODULE, X, radius=-1.0),
}
BROKEN = eqx.tree_at(lambda m: m.layers[1].bias, MODULE, jnp.full(2, jnp.nan))


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_in_one_line(call):
    with pytest.raises(ValueError, match=r"\A[A-Za-z]+: [^\n]*allowed[^\n]*\Z"):
        call()


def test_the_linear_twin_diverges_above_the_kernels_rate():
    """Descent on f_lin with 3 % less than η_crit settles, with 3 % more it blows up.

    Its residual along the kernel's first eigenvector is multiplied by 1 − 2 η/η_crit a step.
    """
    network = ld.MLP([3, 16, 2], "tanh", bias=True)
    model = ld.Model(network, network.sample(np.random.default_rng(1), (3,)))
    twin = ld.linearise(model)
    critical = float(p.critical_learning_rate(ld.Model(twin, model.weights), X))
    assert critical == pytest.approx(float(p.critical_learning_rate(model, X)), rel=1e-10)
    for share in (0.97, 1.03):
        system = ld.System(ld.Dataset(X, Y), twin, ld.GradientDescent(share * critical))
        start = ld.start(system, weights=model.weights)
        found = ld.simulate(
            system, [0, 20, 40, 2000], start=start, dtype="float64",
            probes={"top": lambda model: p.split_loss(model, X, Y, s=1).top},
        )  # fmt: skip
        assert (found["outcome"].values[0] == "diverged") == (share > 1)
        top = found["top"].values[0, :3]
        np.testing.assert_allclose(top[1:] / top[:-1], (1 - 2 * share) ** 40, rtol=1e-8)
