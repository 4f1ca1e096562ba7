"""K-FAC against dense Kronecker products, and where it is the natural gradient of layers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

RNG = np.random.default_rng(0)
X, Y, R = (RNG.standard_normal((7, n)) for n in (3, 2, 2))
DAMPED = [(0.0, "factored"), (0.1, "factored"), (0.1, "levenberg")]


def direction(rule, network, weights, x, residual=None):
    """−velocity / η for ∂loss/∂output of every example."""
    with jax.enable_x64(True):
        weights = jax.tree.map(jnp.asarray, weights)
        transform = rule.transformation(lambda w, x: network(w, x[None])[0])
        residual = R[: len(x)] if residual is None else residual
        options = {"inputs": jnp.asarray(x), "output_gradient": jnp.asarray(residual)}
        update = jax.jit(lambda w: transform.update(None, transform.init(w), w, **options)[0])
        found = update(weights)
    return [-np.asarray(leaf) / float(rule.learning_rate) for leaf in jax.tree.leaves(found)]


def same(a, b, rtol=1e-8):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-9)


def dense_kronecker(inputs, at_nodes, residual, damping, form):
    """(A ⊗ G)⁻¹ g of one layer, (inputs, nodes).

    Args:
        inputs: with the coordinate of the bias, (examples, positions, inputs).
        at_nodes: ∂output/∂node, (examples, outputs, positions, nodes).
        residual: (examples, outputs).
        damping: ε.
        form: "factored" or "levenberg".
    """
    n, t, d = inputs.shape
    A = np.einsum("ntd,nte->de", inputs, inputs) / (n * t)
    G = np.einsum("nktm,nktl->ml", at_nodes, at_nodes) / n
    g = np.einsum("nk,nktm,ntd->dm", residual, at_nodes, inputs) / n
    if form == "factored" and damping:
        pi = np.sqrt(np.trace(A) / len(A) / (np.trace(G) / len(G)))
        A = A + pi * np.sqrt(damping) * np.eye(len(A))
        G = G + np.sqrt(damping) / pi * np.eye(len(G))
    H = np.kron(A, G) + (damping * np.eye(d * len(G)) if form == "levenberg" else 0)
    return (np.linalg.pinv(H, rcond=1e-10, hermitian=True) @ g.ravel()).reshape(g.shape)


@pytest.mark.parametrize("parameterisation", ["ntk", "standard"])
def test_an_mlp_with_biases(parameterisation):
    network = ld.MLP([3, 4, 2], "tanh", bias=True, parameterisation=parameterisation)
    weights = network.sample(np.random.default_rng(1), (3,))
    (V, b), (W, _) = weights
    s = [1 / np.sqrt(n) if parameterisation == "ntk" else 1.0 for n in (3, 4)]
    one = np.ones((7, 1))
    h = np.tanh(s[0] * X @ V.T + b)
    inputs = np.concatenate([s[0] * X, one], 1), np.concatenate([s[1] * h, one], 1)
    slopes = s[1] * W[None] * (1 - h**2)[:, None], np.broadcast_to(np.eye(2), (7, 2, 2))
    for damping, form in DAMPED:
        rule = ld.KFAC(0.5, damping=damping, damping_form=form)
        found = direction(rule, network, weights, X)
        for layer in range(2):
            at_nodes = slopes[layer][:, :, None]
            expected = dense_kronecker(inputs[layer][:, None], at_nodes, R, damping, form)
            same(found[2 * layer], expected[:-1].T, 1e-7)
            same(found[2 * layer + 1], expected[-1], 1e-7)


def test_a_convolution_with_biases():
    """Windows of all pixels are the positions."""
    network = ld.CNN([2], 3, 2, "tanh", bias=True, parameterisation="standard", stride=2)
    x = RNG.standard_normal((4, 5, 4, 2))
    with jax.enable_x64(True):
        weights = jax.tree.map(jnp.asarray, network.sample(RNG, x.shape[1:]))
        _, nodes = ld.forward(network, weights, x)
        one = lambda x, h: ld.forward(network, weights, x[None], {"layer1": h[None]})[0][0]
        slopes = jax.vmap(jax.jacobian(one, 1))(jnp.asarray(x), jnp.zeros_like(nodes["layer1"]))
    at_nodes = np.asarray(slopes).reshape(4, 2, -1, 2)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = [padded[:, i : i + 3, j : j + 3].reshape(4, -1) for i in (0, 2, 4) for j in (0, 2)]
    inputs = np.concatenate([np.stack(windows, 1), np.ones((4, 6, 1))], 2)
    for damping, form in DAMPED[1:]:
        rule = ld.KFAC(1.0, damping=damping, damping_form=form)
        found = direction(rule, network, weights, x)
        expected = dense_kronecker(inputs, at_nodes, R[:4], damping, form)
        same(found[0], expected[:-1].reshape(3, 3, 2, 2), 1e-7)
        same(found[1], expected[-1], 1e-7)


def test_an_equinox_module_is_the_mlp_with_its_weights():
    init = lambda key: eqx.nn.MLP(3, 2, 4, 1, activation=jnp.tanh, key=key)
    module = ld.Network(init, lambda module, x: jax.vmap(module)(x))
    weights = module.sample(np.random.default_rng(0), (3,))
    network = ld.MLP([3, 4, 2], "tanh", bias=True, parameterisation="standard")
    layers = jax.tree.structure(network.sample(RNG, (3,))).unflatten(jax.tree.leaves(weights))
    rule = ld.KFAC(1.0, damping=0.1)
    same(direction(rule, module, weights, X), direction(rule, network, layers, X))


@pytest.mark.parametrize("parameterisation", ["ntk", "standard"])
def test_one_linear_layer_is_the_natural_gradient(parameterisation):
    network = ld.MLP([3, 2], "tanh", bias=True, parameterisation=parameterisation)
    weights = network.sample(np.random.default_rng(1), (3,))
    for damping in (0.0, 0.1):
        options = {"damping": damping, "damping_form": "levenberg"}
        natural = direction(ld.NaturalGradient(1.0, **options), network, weights, X)
        same(direction(ld.KFAC(1.0, **options), network, weights, X), natural)


@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_deep_linear_networks_have_the_step_of_the_natural_gradient_of_layers(damping):
    """At d times its rate; on data by outputs of examples, and by closed forms of maps."""
    matrix = np.array([[1.2, 0.3, -0.4], [0.1, 0.9, 0.5]])
    inputs = ld.Spectrum([2.0, 0.5], [1, 2])
    problems = ld.Dataset(X, Y), ld.TeacherStudent(inputs, ld.LinearTeacher(2, matrix))
    network, options = ld.DeepLinear([3, 4, 2]), {"damping": damping, "damping_form": "levenberg"}
    rules = ld.KFAC(0.1, **options), ld.NaturalGradient(0.2, blocks=True, **options)
    weights = network.sample(np.random.default_rng(1), (3,))
    for problem in problems:
        same(*(ld.update(ld.System(problem, network, rule), weights) for rule in rules))
    found = direction(rules[0], network, weights, X)
    same(found, [2 * leaf for leaf in direction(rules[1], network, weights, X)])
    form = ld.KFAC(1.0, damping=damping)  # "factored"
    residual = X @ (weights[1] @ weights[0]).T - Y
    stepped = ld.update(ld.System(problems[0], network, form), weights)
    by_maps = [before - after for before, after in zip(weights, stepped, strict=True)]
    same(direction(form, network, weights, X, residual), by_maps)


def test_arrays_of_no_such_layer_have_their_own_block():
    apply = lambda w, x: jnp.tanh(x[:, :2]) * w["gain"] + w["bias"]
    weights = {"gain": np.array([0.5, 2.0]), "bias": np.array([0.1, -0.3])}
    options = {"damping": 0.1, "damping_form": "levenberg"}
    natural = ld.NaturalGradient(1.0, blocks=True, **options)
    same(
        direction(ld.KFAC(1.0, **options), apply, weights, X), direction(natural, apply, weights, X)
    )


@pytest.mark.slow
def test_every_array_of_a_transformer_learns():
    network = ld.ViT(2, 4, 1, 2, 2, bias=True)
    x, y = RNG.standard_normal((12, 4, 4, 1)), RNG.standard_normal((12, 2))
    system = ld.System(ld.Dataset(x, y), network, ld.KFAC(0.01, damping=0.1, clip=0.5))
    weights = ld.start(system, key=1).weights
    after = ld.update(system, weights)
    change = [b - a for a, b in zip(*map(jax.tree.leaves, (weights, after)), strict=True)]
    assert all(np.isfinite(each).all() and np.any(each != 0) for each in change)
    assert np.sqrt(sum(np.sum(each**2) for each in change)) <= 0.5 * (1 + 1e-6)


def test_it_is_written_as_json():
    rule = ld.KFAC(0.1, damping=0.2, damping_form="levenberg", clip=1.0)
    system = ld.System(ld.Dataset(X, Y), ld.MLP([3, 4, 2], "tanh"), rule)
    assert ld.System.from_json(system.to_json()).rule == rule


def test_examples_are_taken_in_blocks():
    from learndyn.tangent.kronecker import kronecker_factors

    network = ld.MLP([3, 4, 2], "tanh", bias=True)
    weights = network.sample(np.random.default_rng(1), (3,))
    with jax.enable_x64(True):
        whole, cut = (
            kronecker_factors(network, weights, jnp.asarray(X), block=block).moments
            for block in (None, 100)
        )
    same(whole, cut, 1e-12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.KFAC(-1.0), "learning_rate: got -1.0"),
        (lambda: ld.KFAC(1.0, damping=-1.0), "damping: got -1.0"),
        (lambda: ld.KFAC(1.0, damping_form="paper"), "damping_form: got 'paper'; allowed is one"),
        (lambda: ld.KFAC(1.0, clip=0.0), "clip: got 0.0"),
        (
            lambda: ld.System(
                ld.TeacherStudent(ld.Isotropic(3), ld.Committee(2, "erf")),
                ld.Committee(2, "erf"), ld.KFAC(0.1),
            ),
            "rule: got KFAC on fresh examples for this network and teacher",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
