"""Predictions of the noise of node perturbation against averages by brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.random import Source, Stream, key_of_run
from learndyn.probes import perturbation
from learndyn.runtime.precision import to_numpy

RNG = np.random.default_rng(0)
DRAWS, NUMBERS = 8_000, 64
X, Y, LABELS = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 2)), np.array([0, 1, 1, 0])
IMAGES = RNG.normal(size=(4, 3, 3, 1))


def model_of(network, shape=(3,), seed=1):
    return ld.Model(network, network.sample(np.random.default_rng(seed), shape))


DENSE = model_of(ld.MLP([3, 4, 2], "tanh", bias=True))
CONVOLUTIONAL = model_of(ld.CNN([2], 2, 2, "tanh", bias=True, stride=2), (3, 3, 1))
CASES = {
    "dense, squared": (DENSE, X, Y, ld.SquaredLoss(0.7)),
    "convolutional, cross-entropy": (CONVOLUTIONAL, IMAGES, LABELS, ld.CrossEntropy()),
}


class Given(Source):
    """Noise drawn beforehand, which costs no time to compile."""

    numbers: jax.Array

    def normal(self, shape, dtype, stream=Stream.EXAMPLES, first=0):
        return self.numbers[first : first + int(np.prod(shape))].reshape(shape).astype(dtype)


def updates(model, x, y, loss, key=0, draws=DRAWS):
    """Estimates of the gradient, each for one drawn example: perturbation's and SGD's."""
    rng, rule = np.random.default_rng(key), ld.NodePerturbation(1.0)

    def one(x, y, numbers):
        losses = lambda output: loss.each(output, y[None], output.ndim - 1)
        source = Given(key_of_run(0, 0), jnp.asarray(0), numbers)
        noisy = rule.gradient(model.network, model.weights, x[None], losses, source)
        exact = jax.grad(lambda w: losses(model.network(w, x[None]))[0])(model.weights)
        return jax.tree.map(lambda w: w.ravel(), (noisy, exact))

    with jax.enable_x64(True):
        picked = rng.integers(len(x), size=draws)
        numbers = rng.normal(size=(draws, NUMBERS))
        given = x[picked], y[picked], numbers
        # Not all at once: gradients of kernels, one an example, take XLA gigabytes.
        found = jax.jit(lambda all: jax.lax.map(lambda g: one(*g), all, batch_size=250))(given)
        return [np.concatenate(jax.tree.leaves(each), axis=1) for each in to_numpy(found)]


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_covariances_are_those_of_drawn_updates(case):
    """Every entry within its standard error, and the trace, which sums them."""
    model, x, y, loss = case
    predicted = ld.probes.update_covariance(model, x, y, loss=loss)
    noisy, exact = updates(*case)
    for given, C in ((noisy, predicted.perturbation), (exact, predicted.sgd)):
        centred = given - given.mean(axis=0)
        products = np.einsum("di,dj->dij", centred, centred)
        error = products.std(axis=0) / np.sqrt(DRAWS)
        # A weight that no example moves has no error; 5.5 of them hold for hundreds of entries.
        assert np.all(np.abs(products.mean(axis=0) - C) <= 5.5 * error + 1e-12)
        sizes = np.sum(centred**2, axis=1)
        assert abs(sizes.mean() - np.trace(C)) < 4 * sizes.std() / np.sqrt(DRAWS)
        assert np.trace(C) > 20 * sizes.std() / np.sqrt(DRAWS)


def test_the_form_of_the_paper_for_dense_layers():
    """Eq. 36a with explicit g_k and x_{k−1}, for a network of two layers without biases."""
    network = ld.DeepLinear([3, 4, 2])
    w1, w2 = weights = network.sample(np.random.default_rng(1), (3,))
    found = ld.probes.update_covariance(ld.Model(network, weights), X, Y)
    nodes = [X @ w1.T, X @ w1.T @ w2.T]
    inputs, last = [X, nodes[0]], nodes[1] - Y
    g = [last @ w2, last]
    flat = lambda k: np.einsum("bi,bj->bij", g[k], inputs[k]).reshape(len(X), -1)
    total = sum(np.sum(each**2, axis=1) for each in g)
    size = [w1.size, w2.size]
    for k, rows in enumerate((slice(0, size[0]), slice(size[0], None))):
        for l, columns in enumerate((slice(0, size[0]), slice(size[0], None))):
            means = [flat(i).mean(axis=0) for i in (k, l)]
            sgd = flat(k).T @ flat(l) / len(X) - np.outer(*means)
            np.testing.assert_allclose(found.sgd[rows, columns], sgd, rtol=1e-10, atol=1e-12)
            expected = 2 * sgd + np.outer(*means)
            if k == l:
                second = np.einsum("b,bi,bj->ij", total, inputs[k], inputs[k]) / len(X)
                expected = expected + np.kron(np.eye(g[k].shape[1]), second)
            np.testing.assert_allclose(
                found.perturbation[rows, columns], expected, rtol=1e-10, atol=1e-12
            )


def test_covariances_of_a_batch():
    one = ld.probes.update_covariance(DENSE, X, Y)
    two = one.of_batch(2, 3)
    np.testing.assert_allclose(two.sgd, one.sgd / 2)
    np.testing.assert_allclose(two.perturbation, one.sgd / 2 + (one.perturbation - one.sgd) / 6)
    with pytest.raises(ValueError, match="batch: got 0; allowed is a positive integer"):
        one.of_batch(0)


def losses_after(model, x, y, steps, rate):
    """The loss on all examples after each of several steps."""
    loss = lambda w: jnp.mean(ld.SquaredLoss(0.5).each(model.network(w, x), y, 1))
    with jax.enable_x64(True):
        flat, unravel = jax.flatten_util.ravel_pytree(model.weights)
        moved = jax.vmap(lambda step: loss(unravel(flat - rate * step)))(steps)
        return np.asarray(moved) - float(loss(model.weights))


@pytest.mark.statistical
def test_the_loss_change_is_that_of_steps():
    """Exact for a linear layer under the squared loss, at any learning rate."""
    linear = model_of(ld.DeepLinear([3, 2]))
    found = ld.probes.loss_change(linear, X, Y, learning_rate=0.05)
    for steps, expected in zip(
        updates(linear, X, Y, ld.SquaredLoss(0.5)), reversed(found), strict=True
    ):
        changes = losses_after(linear, X, Y, steps, 0.05)
        assert abs(changes.mean() - expected) < 4 * changes.std() / np.sqrt(DRAWS)
    assert found.perturbation > found.sgd


def test_the_loss_change_of_a_linear_layer_in_closed_form():
    """1 − 2η + (L_x + 2)(L_y + 2) η² of Eq. 102b, corrected, on inputs with Gaussian moments.

    A product of three-point laws has the moments of a normal one up to the fifth.
    """
    points, share = np.array([-np.sqrt(3), 0, np.sqrt(3)]), np.array([1, 4, 1])
    pick = np.repeat(np.arange(3), share)  # six equal shares
    x = np.stack(np.meshgrid(points[pick], points[pick]), axis=-1).reshape(-1, 2)
    model, rate = model_of(ld.DeepLinear([2, 3])), 0.03
    teacher = RNG.normal(size=(3, 2))
    before = 0.5 * np.sum((model.weights[0] - teacher) ** 2)
    found = ld.probes.loss_change(model, x, x @ teacher.T, learning_rate=rate)
    np.testing.assert_allclose(found.sgd, before * (-2 * rate + 4 * rate**2), rtol=1e-10)
    np.testing.assert_allclose(
        found.perturbation, before * (-2 * rate + 4 * 5 * rate**2), rtol=1e-10
    )


def test_a_nonlinear_loss_change_is_off_by_the_third_order():
    """Mean over all examples, SGD: the next term of the expansion is η³."""
    rates = np.array([0.02, 0.01, 0.005])
    _, steps = updates(DENSE, X, Y, ld.SquaredLoss(0.5), draws=100)
    steps = np.unique(np.round(steps, 12), axis=0)
    assert len(steps) == len(X)
    apart = [
        abs(losses_after(DENSE, X, Y, steps, rate).mean()
            - ld.probes.loss_change(DENSE, X, Y, learning_rate=rate).sgd)
        for rate in rates
    ]  # fmt: skip
    np.testing.assert_allclose(np.divide(apart[:-1], apart[1:]), 8, rtol=0.15)


WIDE = model_of(ld.MLP([10, 60, 60], "relu", parameterisation="standard", bias=True), (10,))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("batch", "perturbations"), [(1, 1), pytest.param(20, 2, marks=pytest.mark.slow)]
)
def test_cosines_are_predicted_up_to_the_width(batch, perturbations):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(batch, 10)), rng.normal(size=(batch, 60))
    options = {"perturbations": perturbations}
    predicted = ld.probes.update_cosine(WIDE, x, y, **options)
    measured = ld.probes.measured_update_cosine(WIDE, x, y, draws=4000, key=3, **options)
    each = zip(*map(jax.tree.leaves, (*measured, *predicted)), strict=True)
    for mean, error, expected, printed in each:
        # Left out are terms of relative order 1/width, and examples of unequal noise.
        assert abs(mean - expected) < 4 * error + expected * (2 / 60 + 0.1 / batch * (batch > 1))
        if batch == 1:
            np.testing.assert_allclose(expected / printed, np.sqrt(2 / np.pi), rtol=2 / 60)
            assert printed - mean > 4 * error


@pytest.mark.parametrize(
    ("units", "share", "exact"),
    # The mean cosine by quadrature, of a layer that holds a share of |g|².
    [(10, 1.0, 0.258689939247786), (100, 1.0, 0.0799881734348826), (100, 0.5, 0.0564175482507721)],
)
def test_the_cosine_of_one_draw(units, share, exact):
    g = np.full(units, np.sqrt(share / units))
    at = np.array([1.0]), np.array([share])  # |g|² |J|² in units of |g|², |∇|² = share/units of it
    with jax.enable_x64(True):
        mean, printed = perturbation._cosine(jnp.asarray(g), units * at[0], at[1], 1)
    np.testing.assert_allclose(mean, exact, rtol=0.3 / units)
    np.testing.assert_allclose(printed, np.sqrt(share / (units + 2 * share)), rtol=1e-12)


@pytest.mark.slow
def test_one_random_sign_is_exact_for_dense_layers():
    few, many = (ld.probes.update_cosine(DENSE, X, Y, draws=d, key=d) for d in (1, 7))
    for a, b in zip(*map(jax.tree.leaves, (few, many)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_probes_go_into_simulations():
    cosine = lambda model: ld.probes.update_cosine(model, X, Y).mean[0].weight
    system = ld.System(ld.Dataset(X, Y), DENSE.network, ld.NodePerturbation(0.01))
    start = ld.start(system, weights=DENSE.weights)
    record = ld.simulate(system, [0, 1], start=start, probes={"cosine": cosine}, dtype="float64")
    assert "read_between_pieces" not in record.attrs
    np.testing.assert_allclose(record["cosine"][0, 0], cosine(DENSE), rtol=1e-10)


@pytest.mark.parametrize(
    "probe",
    [
        ld.probes.update_cosine,
        ld.probes.update_covariance,
        lambda *at: ld.probes.loss_change(*at, learning_rate=0.1),
        lambda model, x, y: ld.probes.participation_ratio(model, x, node="layer1"),
    ],
    ids=["cosine", "covariance", "change", "ratio"],
)
def test_results_have_the_precision_of_the_weights(probe):
    narrow = ld.Model(DENSE.network, jax.tree.map(np.float32, DENSE.weights))
    wide, found = (jax.tree.leaves(probe(model, X, Y)) for model in (DENSE, narrow))
    for a, b in zip(wide, found, strict=True):
        assert isinstance(a, np.ndarray) and a.dtype == np.float64 and b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5 * np.max(np.abs(a)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.probes.update_cosine(DENSE, X, Y, draws=0), "draws: got 0; allowed is a"),
        (
            lambda: ld.probes.measured_update_cosine(DENSE, X, Y, draws=1),
            "draws: got 1; allowed is 2 or more",
        ),
        (
            lambda: ld.probes.measured_update_cosine(DENSE, X, Y, sigma=-1),
            "sigma: got -1; allowed is a positive finite number",
        ),
        (
            lambda: ld.probes.loss_change(DENSE, X, Y, learning_rate=0),
            "learning_rate: got 0; allowed is a positive finite number",
        ),
        (
            lambda: ld.probes.participation_ratio(DENSE, X, node="layer9"),
            "node: got 'layer9'; allowed is one of 'layer1', 'layer2'",
        ),
        (
            lambda: ld.probes.participation_ratio(DENSE, X, node="layer1", activation="x"),
            "activation: got 'x'; allowed is one of 'linear'",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
