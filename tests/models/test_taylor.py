"""Taylor twins: against finite differences, where they are exact, in training, on own functions."""

import json

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.system.encoding import decode, encode

X = np.random.default_rng(1).normal(size=(6, 3))
Y = np.random.default_rng(2).normal(size=6)
RNG = np.random.default_rng(9)


def attention(weights, x):
    """One normalised attention block over the entries of an input, summed."""
    h = x[..., None] * weights["embed"] + weights["place"]
    q, k, v = (h @ weights[name] for name in "qkv")
    h = h + jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2)) @ v
    h = (h - jnp.mean(h, -1, keepdims=True)) / jnp.sqrt(jnp.var(h, -1, keepdims=True) + 1e-3)
    return jnp.sum(h * weights["read"], (-1, -2))


def of_attention(key):
    keys = dict(
        zip(["embed", "place", "q", "k", "v", "read"], jax.random.split(key, 6), strict=True)
    )
    shapes = {"embed": (4,), "place": (3, 4), "read": (4,)}
    return {n: jax.random.normal(k, shapes.get(n, (4, 4))) / 2 for n, k in keys.items()}


NETWORKS = {
    "mlp": ld.MLP([3, 5, 2], "tanh", bias=True),
    "dense net": ld.DenseNet([3, 5, 4, 1], "swish", dropped=0.4, output="sigmoid"),
    "graph": ld.DAG({0: [3, 5], 1: [3, 4], 2: [4], 3: [5], 4: [5]}, "tanh"),
    "committee": ld.Committee(3, "erf"),
    "equinox": ld.Network(
        lambda key: eqx.nn.MLP(3, 2, 4, 2, jax.nn.gelu, key=key), lambda m, x: jax.vmap(m)(x)
    ),
    "attention": ld.Network(of_attention, attention),
}
SLOW = {"graph", "committee", "equinox"}  # they differ little from the others
every = pytest.mark.parametrize(
    "network",
    [
        pytest.param(n, id=i, marks=pytest.mark.slow if i in SLOW else ())
        for i, n in NETWORKS.items()
    ],
)


def model_of(network, seed=0):
    weights = network.sample(np.random.default_rng(seed), (3,))
    return ld.Model(network, jax.tree.map(np.float64, weights))


def twins(model):
    return ld.linearise(model), ld.quadratic(model)


def away(model, size=0.5, seed=3):
    with jax.enable_x64(True):
        flat, back = jax.flatten_util.ravel_pytree(model.weights)
    return np.asarray(flat), np.random.default_rng(seed).normal(size=flat.size) * size, back


@every
def test_against_finite_differences_and_the_dense_hessian(network):
    model = model_of(network)
    flat, step, back = away(model)
    h = 1e-3  # central differences miss by h², and by rounding over h²: both far below 1e-4

    @jax.jit
    def found(flat, step):
        f = lambda w: network(back(w), X)
        twin = lambda w: ld.quadratic(model)(back(w), X)
        line = jnp.stack([f(flat - h * step), f(flat), f(flat + h * step)])
        ends = ld.linearise(model)(back(flat + step), X), twin(flat + step)
        slopes = jax.jacfwd(f)(flat), jax.jacfwd(twin)(flat + step)
        return line, ends, slopes, jax.hessian(f)(flat)

    with jax.enable_x64(True):
        given = jax.tree.map(np.asarray, found(flat, step))
    (before, here, after), (linear, quadratic), (J, moved), H = given
    slope, curvature = (after - before) / (2 * h), (after - 2 * here + before) / h**2
    size = np.max(np.abs(curvature)) + np.max(np.abs(slope))
    assert np.max(np.abs(linear - here - slope)) < 1e-4 * size
    assert np.max(np.abs(quadratic - here - slope - curvature / 2)) < 1e-4 * size
    np.testing.assert_allclose(linear, here + J @ step, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        quadratic, here + J @ step + H @ step @ step / 2, rtol=1e-11, atol=1e-12
    )
    # The twin's own derivatives, which rules and probes take.
    np.testing.assert_allclose(moved, J + H @ step, rtol=1e-10, atol=1e-11)


QUADRATIC = {
    "two-layer linear": ld.DeepLinear([3, 4, 2]),
    "linear units": ld.MLP([3, 4, 1], "linear"),
    "squares with fixed outputs": ld.Committee(3, "quadratic"),
}


@pytest.mark.parametrize("network", QUADRATIC.values(), ids=QUADRATIC)
def test_a_quadratic_network_is_its_own_twin(network):
    model = model_of(network)
    flat, step, back = away(model, 2.0)
    all_three = jax.jit(lambda w: [f(w, X) for f in (network, *twins(model))])
    with jax.enable_x64(True):
        f, linear, quadratic = all_three(back(flat + step))
    np.testing.assert_allclose(quadratic, f, rtol=1e-12, atol=1e-12)
    assert np.max(np.abs(linear - f)) > 0.1


def test_two_layer_relu_is_its_own_twin_until_an_activation_flips():
    network = ld.MLP([3, 20, 1], "relu")
    model = model_of(network)
    twin = ld.quadratic(model)
    all_three = jax.jit(lambda w: (ld.forward(network, w, X), twin(w, X)))
    flat, step, back = away(model, 1.0)
    at = lambda t: all_three(back(flat + t * step))
    with jax.enable_x64(True):
        start, end = (np.asarray(at(t)[0][1]["layer1"]) for t in (0.0, 1.0))
        # Until here along the line no unit has changed its side, for any example.
        flips = min(t for t in (start / (start - end)).ravel() if t > 0)
        given = at(0.99 * flips), at(3.0), back(flat + 3.0 * step)
    given = jax.tree.map(np.asarray, given)
    ((near, _), near_twin), ((far, nodes), far_twin), ((u, _), (v, _)) = given
    np.testing.assert_allclose(near_twin, near, rtol=1e-11, atol=1e-12)
    assert np.any(np.sign(nodes["layer1"]) != np.sign(start))
    assert np.max(np.abs(far_twin - far)) > 1e-3
    # Frozen gates, Eq. 3.10: Σ v_i u_i·x 1{u_0i·x ≥ 0} / √(md).
    frozen = np.einsum("i,ni,ni->n", v[0], X @ u.T, start >= 0) / np.sqrt(3 * 20)
    np.testing.assert_allclose(far_twin, frozen, rtol=1e-11)


@eqx.filter_jit
def kernel(network, weights):
    J = jax.jacobian(lambda w: network(w, X))(weights)
    rows = jnp.concatenate([j.reshape(6, -1) for j in jax.tree.leaves(J)], axis=1)
    return rows @ rows.T


def test_training_moves_the_kernel_of_all_but_the_linear_twin():
    """Equal at the start; f_lin keeps it, and its residuals fall by I − ηK every step, Eq. 3.7."""
    network = ld.MLP([3, 10, 1], "tanh")
    model, data, rate = model_of(network), ld.Dataset(X, Y, loss_scale=3.0), 0.3  # ½ Σ r²
    for made in (network, *twins(model)):
        it = ld.System(data, made, ld.GradientDescent(rate))
        begin = ld.start(it, weights=model.weights)
        probes = {"K": lambda m: kernel(m.network, m.weights), "r": lambda m: m(X) - Y}
        record = ld.simulate(it, [0, 1, 2], start=begin, probes=probes, dtype="float64")
        K, r = record["K"].values[0], record["r"].values[0]
        with jax.enable_x64(True):
            np.testing.assert_allclose(K[0], kernel(network, model.weights), rtol=1e-10, atol=1e-12)
        keeps = made is not network and made.order == 1
        assert np.allclose(K[2], K[0], rtol=1e-10, atol=1e-12) == keeps
        decay = (np.eye(6) - rate * K[0]) @ r[1]
        assert np.allclose(r[2], decay, rtol=1e-10, atol=1e-12) == keeps


@pytest.mark.parametrize("name", [pytest.param("mlp", marks=pytest.mark.slow), "equinox"])
def test_twins_train_under_every_kind_of_rule(name):
    import optax

    model = model_of(NETWORKS[name])
    data = ld.Dataset(X, np.stack([Y, -Y], axis=1))
    for twin in (ld.linearise(model), ld.quadratic(model)):
        for rule in (ld.GradientDescent(0.02), ld.SGD(0.02), ld.Optax(optax.adam(1e-2))):
            it = ld.System(data, twin, rule)
            begin = ld.start(it, weights=model.weights)  # the state differs from theory to theory
            record = ld.simulate(it, [0, 50], start=begin, dtype="float64")
            assert record.error[0, 1] < record.error[0, 0]
        drawn = ld.start(it, key=7).weights
        for a, b in zip(jax.tree.leaves(drawn), jax.tree.leaves(model.weights), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_twin_has_no_nodes_and_rules_that_need_them_say_so():
    model = model_of(ld.MLP([3, 4, 1], "tanh"))
    assert ld.forward(ld.quadratic(model), model.weights, X)[1] == {}
    with pytest.raises(ValueError, match=r"\Anetwork: got a Taylor without nodes; allowed is"):
        ld.System(ld.Dataset(X, Y), ld.quadratic(model), ld.NodePerturbation(0.1))


def test_the_expansion_of_a_node_is_the_twin_of_a_network_that_returns_it():
    network = ld.MLP([3, 4, 4, 1], "tanh")
    model = model_of(network)
    node = lambda w, x: ld.forward(network, w, x)[1]["layer2"]
    flat, step, back = away(model)

    @jax.jit
    def found(flat, step):
        twin = ld.quadratic(ld.Model(ld.Network(None, node), model.weights))
        inner = lambda w: node(back(w), X)
        J, H = jax.jacfwd(inner)(flat), jax.hessian(inner)(flat)
        expected = inner(flat) + J @ step + H @ step @ step / 2
        return twin(back(flat + step), X), expected

    with jax.enable_x64(True):
        np.testing.assert_allclose(*found(flat, step), rtol=1e-11, atol=1e-12)


def test_a_twin_as_a_probe_is_compiled():
    """|f − f_quad| around the weights of the moment, inside `simulate`."""
    it = ld.System(ld.Dataset(X, Y), ld.MLP([3, 4, 1], "tanh"), ld.GradientDescent(0.1))
    shift = lambda model: jax.tree.map(lambda w: w + 0.01, model.weights)
    gap = lambda model: jnp.max(
        jnp.abs(ld.quadratic(model)(shift(model), X) - model.network(shift(model), X))
    )
    record = ld.simulate(it, [0, 3], probes={"gap": gap}, dtype="float64")
    assert np.all(record["gap"] > 0) and np.all(record["gap"] < 1e-4)


def test_twins_of_own_functions_are_written_by_their_names():
    model = model_of(ld.Network(of_attention, attention))
    twin = ld.quadratic(model)
    again = decode(json.loads(json.dumps(encode(twin))))
    with jax.enable_x64(True):
        flat, step, back = away(model)
        both = jax.jit(lambda w: (again(w, X), twin(w, X)))(back(flat + step))
    np.testing.assert_array_equal(*both)
    for a, b in zip(jax.tree.leaves(again.sample(RNG, (3,))), twin.centre, strict=True):
        np.testing.assert_array_equal(a, b)
    assert jax.tree.structure(again.sample(RNG, (3,))) == jax.tree.structure(model.weights)


MODEL = model_of(ld.MLP([3, 4, 1], "tanh"))
WRONG = jax.tree.map(lambda w: np.concatenate([w, w]), MODEL.weights)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.linearise(ld.MLP([3, 1], "relu")), "model: got the network MLP"),
        (lambda: ld.quadratic(MODEL)(WRONG, X), "weights: got shapes [(8, 3), (2, 4)]; allowed"),
        (
            lambda: ld.start(
                ld.System(ld.Dataset(X, Y), ld.quadratic(MODEL), ld.SGD(0.1)), weights=WRONG
            ),
            "weights: got shapes [(8, 3), (2, 4)]; allowed is [(4, 3), (1, 4)]",
        ),
        (
            lambda: ld.quadratic(
                ld.Model(MODEL.network, jax.tree.map(lambda w: w * np.nan, MODEL.weights))
            ),
            "centre: entry (0, 0) is nan; allowed are finite numbers",
        ),
        (lambda: ld.linearise(ld.Model(MODEL.network, ())), "weights: got none; allowed is one"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)


def test_twins_of_an_equinox_module():
    module = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))
    weights, x = ld.as_model(module).weights, np.ones((2, 3), np.float32)
    for expand in (ld.linearise, ld.quadratic):
        np.testing.assert_allclose(expand(module)(weights, x), jax.vmap(module)(x), rtol=1e-6)
