"""Networks beside their linearisations, while both train."""

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

import learndyn as ld

p = ld.probes
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=6)


def drawn(width, seed=0, activation="tanh"):
    network = ld.MLP([3, width, 1], activation)
    return ld.Model(network, network.sample(np.random.default_rng(seed), (3,)))


def test_a_linear_network_equals_its_linearisation():
    model = drawn(8)
    twin = ld.Model(ld.linearise(model), model.weights)
    found = p.linearity(twin, X, Y, ld.GradientDescent(0.5), 50)
    assert found.holds and found.largest < 1e-13 and found.curvature < 1e-12
    np.testing.assert_allclose(found.kernel_change, 0, atol=1e-13)
    np.testing.assert_allclose(found.loss, found.linear_loss, rtol=1e-12)


def test_both_are_trained_as_by_simulate():
    """Memory and mini-batches included: the two networks see the same ones."""
    rule = ld.Optax(optax.adam(0.02), batch=2)
    model, data = drawn(8), ld.Dataset(X, Y)
    found = p.linearity(model, X, Y, rule, 30, key=5)
    curves = {}
    for network in (model.network, ld.linearise(model)):
        system = ld.System(data, network, rule)
        start = ld.start(system, weights=model.weights)
        options = {"key": 5, "dtype": "float64", "probes": {"f": lambda model: model(X)}}
        curves[network is model.network] = ld.simulate(system, found.steps, start=start, **options)
    f, twin = (curves[own]["f"].values[0].squeeze() for own in (True, False))
    norm = lambda rows: np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(
        found.distance, norm(f - twin) / norm(twin - twin[0]).max(), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(found.loss, curves[True]["error"][0], rtol=1e-9)
    np.testing.assert_allclose(found.linear_loss, curves[False]["error"][0], rtol=1e-9)


def test_distances_fall_with_the_width_as_they_should():
    """Distance and change of the kernel as 1/m (Dyer and Gur-Ari 2020).

    The second derivative falls as √(ln m/m): of two layers it is block-diagonal by neuron, and its
    norm that of the largest of m blocks. Means of four networks, whose logarithms scatter by 0.5
    (0.1 for the second derivative): three standard errors over a factor of 16.
    """
    rows = []
    for width in (32, 512):
        each = [p.linearity(drawn(width, s), X, Y, ld.GradientDescent(1.0), 20) for s in range(4)]
        rows.append([(e.largest, e.kernel_change[-1], e.curvature) for e in each])
    found = (np.log(rows[1]).mean(0) - np.log(rows[0]).mean(0)) / np.log(16)
    np.testing.assert_allclose(found[:2], -1.0, atol=3 * 0.5 * 0.5**0.5 / np.log(16))
    blocks = -0.5 + 0.5 * np.log(np.log(512) / np.log(32)) / np.log(16)
    np.testing.assert_allclose(found[2], blocks, atol=3 * 0.1 * 0.5**0.5 / np.log(16))


def test_the_verdict_says_what_was_measured():
    wide = p.linearity(drawn(512), X, Y, ld.GradientDescent(1.0), 20)
    assert wide.holds and f"holds to {wide.largest:.2g} of the change" in str(wide)
    narrow = p.linearity(drawn(8), X, Y, ld.GradientDescent(1.0), 60, tolerance=0.01)
    first = narrow.steps[narrow.distance > 0.01][0]
    assert not narrow.holds and "does not hold: it is off by" in narrow.verdict
    assert f"from step {first} on (allowed 0.01)" in narrow.verdict


def test_divergence_is_a_result():
    """Between 2/λ and 4/λ a relu network catapults; its linearisation diverges."""
    model = drawn(128, activation="relu")
    rate = float(ld.critical_learning_rate(model, X))
    found = p.linearity(model, X, Y, ld.GradientDescent(1.4 * rate), 200)
    network, twin = found.diverged_at
    assert network is None and twin is not None and not found.holds
    assert np.isnan(found.linear_loss[found.steps >= twin]).all()
    assert np.isfinite(found.loss).all() and found.loss[-1] < found.loss.max()
    assert f"the linearisation alone diverges, by step {twin}" in found.verdict
    both = p.linearity(model, X, Y, ld.GradientDescent(9 * rate), 200)
    assert None not in both.diverged_at and "its linearisation by" in both.verdict


@pytest.mark.slow
def test_an_equinox_module_and_labels():
    module = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    labels = np.array([0, 1, 1, 0, 1, 0])
    found = p.linearity(module, X, labels, ld.SGD(0.1, batch=3), 3, loss=ld.CrossEntropy())
    assert found.distance[0] == 0 and 0 < found.largest < 1 and found.curvature > 0


def test_a_network_without_loss_does_not_move():
    model = drawn(8)
    found = p.linearity(model, X, model.outputs(X), ld.GradientDescent(0.1), 3)
    assert found.holds and found.largest == 0


def test_a_kernel_of_zero_does_not_change():
    """Inputs of zero, of which nothing is learned: 0/0 is no change."""
    found = p.linearity(drawn(8), 0 * X, Y, ld.GradientDescent(0.1), 3)
    assert found.holds and found.curvature == 0 and not found.kernel_change.any()
    assert "the kernel changes by 0 of itself" in found.verdict


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps: got 0; allowed is a positive integer"),
        ({"rule": 0.1}, "rule: got a float; allowed is a rule"),
        ({"tolerance": -1}, "tolerance: got -1; allowed is a positive"),
        ({"model": ld.MLP([3, 2, 1], "relu")}, "without weights; allowed is Model"),
        ({"rule": ld.NodePerturbation(0.1)}, "Taylor"),
    ],
)
def test_refusals(change, message):
    arguments = {"model": drawn(2), "x": X, "y": Y, "rule": ld.GradientDescent(0.1), "steps": 2}
    with pytest.raises(ValueError, match=message):
        p.linearity(**(arguments | change))


def test_refused_while_tracing():
    train = lambda x: p.linearity(drawn(2), x, Y, ld.GradientDescent(0.1), 2).largest
    with pytest.raises(ValueError, match="model: got one that is being traced"):
        jax.make_jaxpr(train)(X)
