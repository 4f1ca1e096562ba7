"""The natural gradient by the tangent kernel against one by the Jacobian itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld


@pytest.mark.parametrize(
    ("power", "damping", "examples"),
    [(1.0, 0.01, 7), (0.5, 0.1, 7), (1.0, 0.0, 40), (0.5, 0.1, 40)],
)
def test_a_step_is_that_by_the_jacobian(power, damping, examples):
    """With more weights than outputs of all examples (28 against 14), and with fewer (80)."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((examples, 5)), rng.standard_normal((examples, 2))
    network, rule = ld.MLP([5, 4, 2], "tanh"), ld.NaturalGradient(0.3, power=power, damping=damping)
    system = ld.System(ld.Dataset(x, y), network, rule)
    weights = ld.start(system, key=1).weights
    with jax.enable_x64(True):
        rows = jax.jacobian(lambda w: network(w, x))(weights)
        direction = rule.direction(rows, np.asarray(network(weights, x)) - y)
    expected = jax.tree.map(lambda w, d: w - 0.3 * np.asarray(d), weights, direction)
    found = ld.update(system, weights)
    # Relative to the largest entry of an array: rounding of a step does not shrink with an entry
    # that nearly cancels.
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max())
    jax.tree.map(close, found, expected)


def test_large_matrices_are_refused():
    x, y = np.zeros((1700, 2)), np.zeros((1700, 10))
    system = ld.System(ld.Dataset(x, y), ld.MLP([2, 2000, 10], "tanh"), ld.NaturalGradient(0.1))
    with pytest.raises(ValueError, match="with a matrix of 17000 rows; allowed are at most 16000"):
        ld.update(system, ld.start(system).weights)


def by_layer(network, weights, x, residual, layers, *, power, damping, form="paper"):
    """d^(−power) H_l^(−power) g_l with a dense block H_l = mean J_lᵀ J_l for each layer."""
    flat = lambda tree: [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    rows = flat(jax.jacobian(lambda w: network(w, x).reshape(len(x), -1))(weights))
    rows = [row.reshape(*row.shape[:2], -1) for row in rows]
    found = {}
    for layer in layers:
        J = np.concatenate([rows[leaf] for leaf in layer], axis=2)
        H = np.einsum("nkp,nkq->pq", J, J) / len(x)
        values, vectors = np.linalg.eigh(H)
        kept = (values > 1e-9 * values[-1]) | (damping > 0)
        powers = np.where(kept, np.abs(values) + damping, np.inf) ** -power
        powers *= (1 + damping) ** power if form == "paper" else 1
        g = np.einsum("nkp,nk->p", J, residual) / len(x)
        parts = len(layers) ** -power * vectors @ (powers * (vectors.T @ g))
        ends = np.cumsum([rows[leaf].shape[2] for leaf in layer])[:-1]
        found |= dict(zip(layer, np.split(parts, ends), strict=True))
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(weights)]
    return [found[leaf].reshape(shape) for leaf, shape in enumerate(shapes)]


RNG = np.random.default_rng(3)
VECTORS, IMAGES = RNG.standard_normal((6, 3)), RNG.standard_normal((4, 3, 3, 1))
TARGETS = RNG.standard_normal((6, 2))
PAIRS = [[0, 1], [2, 3]]


def equinox_network():
    init = lambda key: eqx.nn.MLP(3, 2, 4, 1, activation=jnp.tanh, key=key)
    return ld.Network(init, lambda module, x: jax.vmap(module)(x))


def flat_network():
    """Arrays in one dict, in another order than that of the layers."""
    shapes = {"a": (2,), "b": (4,), "w": (3, 4), "z": (4, 2)}
    init = lambda key: {n: jax.random.normal(key, s) for n, s in shapes.items()}
    return ld.Network(init, lambda p, x: jnp.tanh(x @ p["w"] + p["b"]) @ p["z"] + p["a"])


NETWORKS = {
    "ntk": (lambda: ld.MLP([3, 4, 2], "tanh", bias=True), PAIRS),
    "standard": (
        lambda: ld.MLP([3, 4, 2], "tanh", bias=True, parameterisation="standard"),
        PAIRS,
    ),
    "convolution": (lambda: ld.CNN([2], 3, 2, "tanh", bias=True), PAIRS),
    "equinox": (equinox_network, PAIRS),
    "flat": (flat_network, [[0, 3], [1, 2]]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_block_is_a_layer_with_its_biases(name):
    network, layers = NETWORKS[name][0](), NETWORKS[name][1]
    x = IMAGES if name == "convolution" else VECTORS
    data = ld.Dataset(x, TARGETS[: len(x)])
    cases = [(1.0, 0.0, "paper"), (0.5, 0.0, "paper"), (0.7, 0.1, "paper"), (1.0, 0.1, "levenberg")]
    for power, damping, form in cases if name == "ntk" else cases[::3]:
        rule = ld.NaturalGradient(1.0, power=power, damping=damping, damping_form=form, blocks=True)
        system = ld.System(data, network, rule)
        with jax.enable_x64(True):
            weights = jax.tree.map(jnp.asarray, ld.start(system, key=1).weights)
            residual = np.asarray(network(weights, x)) - data.y
            options = {"power": power, "damping": damping, "form": form}
            expected = by_layer(network, weights, x, residual, layers, **options)
            found = rule.velocity(data, network, ())(weights)
        for a, b in zip(jax.tree.leaves(found), expected, strict=True):
            np.testing.assert_allclose(-np.asarray(a), b, rtol=1e-6, atol=1e-9)


def test_blocks_may_be_labelled():
    """One label for all is the whole matrix, at d = 1; others need one per array."""
    network, data = ld.MLP([3, 4, 2], "tanh", bias=True), ld.Dataset(VECTORS, TARGETS)
    weights = network.sample(np.random.default_rng(0), (3,))
    labelled = lambda labels: ld.NaturalGradient(1.0, damping=0.1, blocks=labels)
    step = lambda rule: jax.tree.leaves(ld.update(ld.System(data, network, rule), weights))
    whole = step(labelled(lambda weights: jax.tree.map(lambda w: "all", weights)))
    for a, b in zip(whole, step(ld.NaturalGradient(1.0, damping=0.1)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    layers = lambda weights: jax.tree.structure(weights).unflatten(["a", "a", "b", "b"])
    for a, b in zip(step(labelled(layers)), step(labelled(True)), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match=r"\Ablocks: got labels .*; allowed is one .* array\Z"):
        step(labelled(lambda weights: "all"))


def test_labelled_blocks_of_a_deep_linear_network():
    """Closed forms and the theory know blocks that are layers only."""
    network, data = ld.DeepLinear([3, 4, 2]), ld.Dataset(VECTORS, TARGETS)
    weights = network.sample(np.random.default_rng(0), (3,))
    one = ld.NaturalGradient(1.0, damping=0.1, blocks=lambda weights: ("all", "all"))
    systems = [ld.System(data, network, r) for r in (one, ld.NaturalGradient(1.0, damping=0.1))]
    with pytest.raises(ld.NoTheory, match="the rule's blocks are labelled by a function"):
        ld.theory_of(systems[0])
    for a, b in zip(*(ld.update(system, weights) for system in systems), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
