"""Node perturbation against backpropagation, its formula by hand, and its own limit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import learndyn as ld
from learndyn.numerics.random import Source, Stream, key_of_run
from learndyn.problems.readers.files import digits
from learndyn.runtime.precision import to_numpy

RNG = np.random.default_rng(0)
X, Y, LABELS = RNG.normal(size=(3, 5)), RNG.normal(size=(3, 2)), np.array([0, 1, 1])
IMAGES = RNG.normal(size=(3, 4, 4, 2))
DENSE = ld.MLP([5, 4, 2], "tanh", bias=True)
CONVOLUTIONAL = ld.CNN([3], 3, 2, "swish", bias=True, stride=2)
SCALAR = ld.MLP([5, 4, 1], "tanh", bias=True)
CASES = {
    "dense, squared": (ld.Dataset(X, Y, loss_scale=0.7), DENSE),
    "dense, cross-entropy": (ld.Dataset(X, LABELS, loss=ld.CrossEntropy()), DENSE),
    "one output, cross-entropy": (ld.Dataset(X, LABELS, loss=ld.CrossEntropy()), SCALAR),
    "convolutional, squared": (ld.Dataset(IMAGES, Y), CONVOLUTIONAL),
    "convolutional, cross-entropy": (
        ld.Dataset(IMAGES, LABELS, loss=ld.CrossEntropy()),
        CONVOLUTIONAL,
    ),
}
DRAWS, NUMBERS = 4000, 96  # and at most so many normal numbers each


def weights_of(network, shape, seed=3, dtype=np.float64):
    drawn = network.sample(np.random.default_rng(seed), shape)
    return jax.tree.map(lambda w: jnp.asarray(w, dtype), drawn)


def flat(tree, axes=0):
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(*leaf.shape[:axes], -1) for leaf in leaves], axis=-1)


class Given(Source):
    """Noise drawn beforehand, which costs no time to compile."""

    numbers: jax.Array

    def normal(self, shape, dtype, stream=Stream.EXAMPLES, first=0):
        assert stream == Stream.NODES
        return self.numbers[first : first + int(np.prod(shape))].reshape(shape).astype(dtype)


def given(numbers):
    return Given(key_of_run(0, 0), jnp.asarray(0), jnp.asarray(numbers))


def estimates(problem, network, draws=DRAWS, key=0, x=None, y=None, **options):
    """Independent estimates for all examples of a data set, and the gradient."""
    with jax.enable_x64(True):
        every = problem.examples().take(slice(None), np.float64)
        x, y = every if x is None else (jnp.asarray(x), jnp.asarray(y))
        weights = weights_of(network, problem.input_shape)
        numbers = jnp.asarray(np.random.default_rng(key).normal(size=(draws, NUMBERS)))

        @jax.jit
        def many(rule):
            estimate = rule.estimate(problem, network)
            return jax.vmap(lambda row: estimate(weights, x, y, given(row)))(numbers)

        sigmas = options.pop("sigma", None)
        rules = [ld.NodePerturbation(1.0, sigma=s, **options) for s in np.ravel(sigmas)]
        found = [flat(many(rule), 1) for rule in rules]
        exact = jax.jit(jax.grad(lambda w: problem.mean_loss(network, w, x, y)))(weights)
        return np.stack(found) if np.ndim(sigmas) else found[0], flat(exact)


OPTIONS = [{}, {"sigma": 1e-4}, {"shared": True, "perturbations": 2}]
PAIRS = [(name, {}) for name in CASES] + [("dense, squared", o) for o in OPTIONS[1:]]


@pytest.mark.statistical
@pytest.mark.parametrize(("case", "options"), PAIRS, ids=str)
def test_the_mean_estimate_is_the_gradient(case, options):
    found, exact = estimates(*CASES[case], **options)
    error = found.std(axis=0) / np.sqrt(len(found))
    moves = error > 0  # a stride may leave pixels, and so weights, unseen
    assert np.all(np.abs(found.mean(axis=0) - exact)[moves] < 5 * error[moves])
    assert np.all(exact[~moves] == 0)
    # Along the gradient the mean is known best: a wrong factor would show.
    along = found @ exact / (exact @ exact)
    error = along.std() / np.sqrt(len(along))
    assert abs(along.mean() - 1) < 4 * error and error < 0.08


def by_hand(weights, x, y, source, sigma):
    """Eqs. 18 and 105 with NumPy, for a tanh network of two layers in the standard scaling."""
    (w1, b1), (w2, b2) = [tuple(map(np.asarray, layer)) for layer in weights]
    first = np.asarray(source.normal((len(x), len(w1)), x.dtype, Stream.NODES))
    second = np.asarray(source.normal((len(x), len(w2)), x.dtype, Stream.NODES, first.size))

    def losses(size):
        hidden = np.tanh(x @ w1.T + b1 + size * first)
        return 0.5 * np.sum((hidden @ w2.T + b2 + size * second - y) ** 2, axis=1)

    s = (losses(sigma) - losses(0)) / sigma
    inputs = (x, np.tanh(x @ w1.T + b1))
    mean = lambda a, b: np.einsum("b,bi,bj->ij", s, a, b) / len(x)
    return [
        part
        for xi, z in zip((first, second), inputs, strict=True)
        for part in (mean(xi, z), mean(xi, np.ones((len(x), 1)))[:, 0])
    ]


def test_a_step_is_the_papers_formula():
    network = ld.MLP([5, 4, 2], "tanh", parameterisation="standard", bias=True)
    rule = ld.NodePerturbation(0.3, sigma=0.1, batch=3, sampling="epochs")
    with jax.enable_x64(True):
        weights, source = weights_of(network, (5,)), Source(key_of_run(7, 0), jnp.asarray(0))
        order = np.asarray(source.permutation(3))
        expected = by_hand(weights, X[order], Y[order], source, 0.1)
        weights = to_numpy(weights)
    after = ld.update(ld.System(ld.Dataset(X, Y), network, rule), weights, key=7)
    pairs = zip(*map(jax.tree.leaves, (after, weights)), expected, strict=True)
    for new, old, gradient in pairs:
        np.testing.assert_allclose(new, old - 0.3 * gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["dense, squared", "convolutional, cross-entropy"])
def test_the_limit_of_small_noise_is_the_derivative(name):
    """For the same ξ the finite difference is off by the second derivative: linear in sigma."""
    sigmas = np.array([1e-2, 1e-3, 1e-4])
    limit, _ = estimates(*CASES[name], draws=20)
    finite, _ = estimates(*CASES[name], draws=20, sigma=sigmas)
    apart = [np.linalg.norm(each - limit) for each in finite]
    np.testing.assert_allclose(np.divide(apart[:-1], apart[1:]), 10, rtol=0.1)
    assert apart[-1] < 1e-3 * np.linalg.norm(limit)


def test_a_finite_sigma_of_a_linear_network_in_closed_form():
    """s is larger than its limit by σ/2 |W_2 ξ_1 + ξ_2|² for the loss ½ |y − W_2 W_1 x|²."""
    network, data = ld.DeepLinear([5, 4, 2]), ld.Dataset(X[:1], Y[:1])
    at = {"draws": 10, "x": X[0], "y": Y[0]}
    both = [estimates(data, network, sigma=sigma, **at)[0] for sigma in (None, 0.5)]
    with jax.enable_x64(True):
        w1, w2 = weights_of(network, (5,))
        noise = np.random.default_rng(0).normal(size=(10, NUMBERS))
        for row, limit, finite in zip(noise, *both, strict=True):
            moved = w2 @ row[:4] + row[4:6]
            s = moved @ (w2 @ w1 @ X[0] - Y[0])
            np.testing.assert_allclose(finite, limit * (1 + 0.25 * moved @ moved / s), rtol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "sigma", "low", "high"),
    # Rounding leaves about ε |loss| / σ of s, which is itself of the size of the loss here; the
    # second derivative leaves about σ. At 10⁻⁶ float32 is lost, √ε serves.
    [
        (np.float32, 1e-6, 0.01, np.inf),
        (np.float32, 3e-4, 0, 0.01),
        (np.float64, 1e-6, 0, 1e-4),
    ],
)
def test_which_sigma_is_sensible_depends_on_the_precision(dtype, sigma, low, high):
    problem = ld.Dataset(X, Y)
    with jax.enable_x64(True):
        weights = weights_of(DENSE, (5,), dtype=dtype)
        both = [ld.NodePerturbation(1.0, sigma=s).estimate(problem, DENSE) for s in (None, sigma)]
        at = weights, jnp.asarray(X[:1], dtype), jnp.asarray(Y[:1], dtype)
        numbers = jnp.asarray(np.random.default_rng(1).normal(size=(40, NUMBERS)))
        limit, finite = (
            flat(jax.jit(jax.vmap(lambda row, f=f: f(*at, given(row))))(numbers), 1) for f in both
        )
    # One example: both are the same direction times their s.
    along = np.einsum("di,di->d", finite, limit) / np.einsum("di,di->d", limit, limit)
    assert low < np.median(abs(along - 1)) < high


def local_jacobian(network, weights, x):
    """∂ nodes / ∂ weights with the nodes before held, (nodes, weights), of one example."""
    nodes = lambda w: ld.forward(network, w, x, local=True)[1]
    jacobian = jax.jit(jax.jacobian(nodes))(weights)
    rows = []
    for h in jacobian.values():
        leaves = jax.tree.leaves(h)
        size = int(np.prod(leaves[0].shape)) // int(np.prod(jax.tree.leaves(weights)[0].shape))
        rows.append(np.concatenate([np.reshape(leaf, (size, -1)) for leaf in leaves], axis=1))
    return np.concatenate(rows)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("batch", "options", "share"),
    [
        (1, {}, 1),
        (4, {"perturbations": 2}, 1 / 8),
        # One draw for copies of one example averages nothing.
        (4, {"shared": True, "perturbations": 2}, 1 / 2),
    ],
)
def test_the_variance_falls_with_independent_draws(batch, options, share):
    """On copies of one example, |estimate − gradient|² has the mean |g|² |J|² + |∇loss|²."""
    x, y = np.repeat(X[:1], batch, axis=0), np.repeat(Y[:1], batch, axis=0)
    problem = ld.Dataset(X[:1], Y[:1])
    found, exact = estimates(problem, DENSE, x=x, y=y, **options)
    with jax.enable_x64(True):
        weights = weights_of(DENSE, (5,))
        J = local_jacobian(DENSE, weights, X[:1])
        zeros = jax.tree.map(jnp.zeros_like, ld.forward(DENSE, weights, X[:1])[1])
        loss = lambda t: problem.losses(ld.forward(DENSE, weights, X[:1], t)[0], X[:1], Y[:1])[0]
        g = flat(jax.jit(jax.grad(loss))(zeros))
    np.testing.assert_allclose(J.T @ g, exact, rtol=1e-10)
    squares = np.sum((found - exact) ** 2, axis=1)
    expected = share * ((g @ g) * np.sum(J**2) + exact @ exact)
    assert abs(squares.mean() - expected) < 4 * squares.std() / np.sqrt(len(squares))


def test_examples_without_and_with_a_batch_axis_agree():
    network, data = ld.DeepLinear([5, 4, 2]), ld.Dataset(X[:1], Y[:1])
    one = estimates(data, network, draws=5, x=X[0], y=Y[0])[0]
    many = estimates(data, network, draws=5)[0]
    np.testing.assert_allclose(one, many, rtol=1e-12)


@functools.lru_cache(maxsize=1)
def small_digits():
    images = digits()
    x, y = images.pixels.reshape(-1, 64).astype("float32") / 16, images.labels
    return ld.Dataset(x[:200], y[:200], loss=ld.CrossEntropy())


TRANSFORMS = {
    "adam": optax.adam(1e-2),
    "momentum": optax.sgd(0.01, momentum=0.9),
    "decay": optax.chain(optax.add_decayed_weights(1e-3), optax.sgd(0.1)),
}


@pytest.mark.parametrize(
    "name", ["adam", *(pytest.param(n, marks=pytest.mark.slow) for n in ("momentum", "decay"))]
)
def test_optax_transformations_learn_digits_from_it(name):
    rule = ld.Optax(
        TRANSFORMS[name], sampling="epochs", estimator=ld.NodePerturbation(1.0, batch=50)
    )
    network = ld.MLP([64, 16, 10], "relu", parameterisation="standard", bias=True, gain=2**0.5)
    record = ld.simulate(ld.System(small_digits(), network, rule), [0, 200], key=1)
    assert record.error.values[0, 1] < 0.5 * record.error.values[0, 0]


def test_runs_are_independent_and_reproducible():
    system = ld.System(small_digits(), ld.MLP([64, 8, 10], "tanh"), ld.NodePerturbation(0.05))
    three = ld.simulate(system, [0, 20], runs=3, key=4)["error"].values
    one = ld.simulate(system, [0, 20], runs=1, key=4)["error"].values
    assert len(set(three[:, 1])) == 3 and one[0, 1] == three[0, 1]


LAYOUTS = {
    "ours": (None, (3, 5), 1),
    "ours, convolutional": (None, (2, 2, 3, 4), (0, 1, 2)),
    "equinox": (0, (3, 5), 1),
    "equinox, convolutional": (0, (4, 3, 2, 2), (1, 2, 3)),
}


@pytest.mark.parametrize(("axis", "shape", "inputs"), LAYOUTS.values(), ids=LAYOUTS)
def test_normalised_rows_are_those_of_the_paper(axis, shape, inputs):
    """Eq. 108 by hand; biases, also those of equinox's convolutions, move freely."""
    transform = ld.rules.normalise_rows(axis)
    biases = [(3,), (3, 1, 1), ()]
    weights, changes = ([RNG.normal(size=s) for s in (shape, *biases)] for _ in range(2))
    with jax.enable_x64(True):
        found, _ = to_numpy(transform.update(*map(_arrays, (changes, (), weights))))
    norm = lambda w: np.sqrt(np.sum(w**2, axis=inputs, keepdims=True))
    moved = weights[0] + changes[0]
    expected = norm(weights[0]) / norm(moved) * moved
    np.testing.assert_allclose(weights[0] + found[0], expected, rtol=1e-13)
    for a, b in zip(found[1:], changes[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def _arrays(tree):
    return jax.tree.map(jnp.asarray, tree)


@pytest.mark.slow
def test_units_keep_their_norm_while_they_learn():
    step = optax.chain(optax.sgd(0.05), ld.rules.normalise_rows())
    rule = ld.Optax(step, estimator=ld.NodePerturbation(1.0, batch=3))
    system = ld.System(ld.Dataset(X, Y), DENSE, rule)
    before = ld.start(system, key=1).weights
    after = ld.update(system, before, key=1)
    for a, b in zip(after, before, strict=True):
        norms = [np.linalg.norm(layer.weight, axis=1) for layer in (a, b)]
        np.testing.assert_allclose(*norms, rtol=1e-12)
        assert np.all(a.bias != b.bias) and np.all(a.weight != b.weight)


def test_zero_rows_stay_zero_and_give_no_nan():
    transform = ld.rules.normalise_rows()
    weights = {"a": jnp.zeros((2, 3)), "b": jnp.ones((2, 3))}
    changes = {"a": jnp.ones((2, 3)), "b": -jnp.ones((2, 3))}
    found, _ = transform.update(changes, transform.init(weights), weights)
    np.testing.assert_array_equal(found["a"], 0)
    np.testing.assert_array_equal(found["b"], -1)


def past_the_node(w, x):
    return ld.tap("hidden", x @ w["in"].T) @ w["out"].T


def beside_the_batch(w, x):
    return ld.tap("out", x @ ld.tap("weights", w["in"]).T) @ jnp.ones((4, 2))


def frozen(w, x):
    return ld.tap("hidden", x @ w["in"].T) @ jax.lax.stop_gradient(w["out"]).T


def init(key):
    return {"in": jnp.ones((4, 5)), "out": jnp.ones((2, 4))}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.NodePerturbation(0.0), "learning_rate: got 0.0; allowed is a positive"),
        (lambda: ld.NodePerturbation(0.1, sigma=0.0), "sigma: got 0.0; allowed is a positive"),
        (lambda: ld.NodePerturbation(0.1, sigma=-1.0), "sigma: got -1.0; allowed is a positive"),
        (lambda: ld.NodePerturbation(0.1, sigma=np.nan), "sigma: got nan; allowed is a positive"),
        (lambda: ld.NodePerturbation(0.1, batch=0), "batch: got 0; allowed is a positive integer"),
        (lambda: ld.NodePerturbation(0.1, perturbations=0), "perturbations: got 0; allowed is"),
        (lambda: ld.NodePerturbation(0.1, sampling="x"), "sampling: got 'x'; allowed is one of"),
        (
            lambda: refused(ld.LinearTeacher(2)),
            "network: got a LinearTeacher without nodes; allowed is one with tap(name, h)",
        ),
        (
            lambda: refused(ld.Network(init, past_the_node)),
            "network: got weights that act past all nodes, ['out']; allowed are weights before",
        ),
        (
            lambda: refused(ld.Network(init, beside_the_batch)),
            "tap: got shape (4, 5) at 'weights'; allowed are the examples' axes (2,) in front",
        ),
        (
            lambda: refused(ld.LinearTeacher(2), ld.Optax(optax.adam(1e-3), estimator=RULE)),
            "network: got a LinearTeacher without nodes",
        ),
        (
            lambda: ld.rules.normalise_rows().update({}, (), None),
            "params: got None; allowed are the weights",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)


RULE = ld.NodePerturbation(0.1)


def refused(network, rule=RULE):
    return ld.System(ld.Dataset(X, Y), network, rule)


def test_weights_without_a_gradient_may_stand_past_the_nodes():
    system = refused(ld.Network(init, frozen))
    estimate = RULE.estimate(system.problem, system.network)
    with jax.enable_x64(True):
        found = to_numpy(jax.jit(estimate)(init(0), X, Y, given(np.ones(NUMBERS))))
    assert np.all(found["out"] == 0) and np.all(found["in"] != 0)


@pytest.mark.parametrize("options", [{}, {"sigma": 1e-3, "perturbations": 2, "shared": True}])
def test_the_rule_comes_back_from_json(options):
    system = ld.System(ld.Dataset(X, Y), DENSE, ld.NodePerturbation(0.1, batch=2, **options))
    again = ld.System.from_json(system.to_json())
    assert repr(again.rule) == repr(system.rule) and again.to_json() == system.to_json()
