"""Targets that are misread are refused, by data sets and by probes, in the same words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

X = np.random.default_rng(0).normal(size=(4, 3))
CROSS, SQUARED, IGNORING = ld.CrossEntropy(), ld.SquaredLoss(), ld.CrossEntropy(ignore_index=-100)
PROBABILITIES = np.array([[0.2, 0.3, 0.5]] * 4)


def model(outputs: int) -> ld.Model:
    network = ld.MLP([3, outputs], "tanh")
    weights = network.sample(np.random.default_rng(1), (3,))
    return ld.Model(network, weights)


def in_data_set(outputs, y, loss):
    ld.System(ld.Dataset(X, y, loss=loss), model(outputs).network, ld.SGD(0.1))


def in_probe(outputs, y, loss):
    ld.probes.critical_learning_rate(model(outputs), X, y, loss=loss)


REFUSED = {
    "PyTorch's ignored label": (3, [0, 1, -100, 2], CROSS, "got the label -100; allowed are"),
    "minus one": (3, [0, 1, -1, 2], CROSS, "got the label -1; allowed are integer labels from 0"),
    "as many as classes": (3, [0, 1, 3, 2], CROSS, "got the label 3 for 3 outputs; allowed are"),
    "from one on": (3, [1, 2, 3, 1], SQUARED, "got the label 3 for 3 outputs; allowed are the"),
    "integers to be fitted": (1, [3, 7, 1, 0], SQUARED, "got the label 7 for one output; allowed"),
    "signs as integers": (1, [-1, 1, 1, -1], CROSS, "got the label -1; allowed are integer"),
    "another ignored label": (3, [0, -1, -100, 2], IGNORING, "got the label -1; allowed are"),
    "nothing but ignored": (3, [-100] * 4, IGNORING, "got only labels that CrossEntropy(ignore_"),
    "no probabilities": (3, 2 * PROBABILITIES, CROSS, "got a sum 2; allowed with CrossEntropy are"),
    "negative": (3, PROBABILITIES - [[0.3, -0.3, 0]], CROSS, "got the entry -0.1; allowed with"),
    "a probability": (1, np.full(4, 0.7), CROSS, "got 0.7 for one output; allowed with Cross"),
    "NaN": (3, PROBABILITIES * np.nan, SQUARED, "entry (0, 0) is nan; allowed are finite numbers"),
}


@pytest.mark.parametrize("where", [in_data_set, in_probe])
@pytest.mark.parametrize(("outputs", "y", "loss", "said"), REFUSED.values(), ids=REFUSED)
def test_ambiguous_targets_are_refused_in_one_line(outputs, y, loss, said, where):
    with pytest.raises(ValueError, match=r"\Ay: [^\n]*\Z") as caught:
        where(outputs, np.asarray(y), loss)
    assert said in str(caught.value)


def test_sets_to_measure_on_are_checked_too():
    for name in ("test", "validation"):
        with pytest.raises(ValueError, match=f"{name} y: got the label 3 for 3 outputs"):
            sets = {name: (X, np.array([0, 1, 3, 2]))}
            data = ld.Dataset(X, np.array([0, 1, 1, 2]), loss=CROSS, **sets)
            ld.System(data, model(3).network, ld.SGD(0.1))


WIDTHS = {
    "three for two": (2, np.ones((4, 3)), r"got shape \(4, 3\); allowed is \(4, 2\)"),
    "one for two": (2, np.ones(4), r"got shape \(4,\); allowed is \(4, 2\)"),
    "two for one": (1, np.ones((4, 2)), r"got shape \(4, 2\); allowed is \(4,\)"),
    "fewer examples": (
        2,
        np.ones((3, 2)),
        r"got shape \(3, 2\); allowed is one target for each of 4",
    ),
}


@pytest.mark.parametrize(("outputs", "y", "said"), WIDTHS.values(), ids=WIDTHS)
def test_targets_of_another_width_are_refused(outputs, y, said):
    with pytest.raises(ValueError, match=rf"\Ay: {said}[^\n]*\Z"):
        ld.probes.hessian_top(model(outputs), X, y)


def test_forms_that_mean_the_same():
    """Labels of any integer type, one-hot rows, and an axis of length one."""
    top = lambda outputs, y, loss: ld.probes.hessian_top(model(outputs), X, y, loss=loss).values
    labels = np.array([0, 2, 1, 0])
    for loss in (SQUARED, CROSS):
        expected = top(3, np.eye(3)[labels], loss)
        for y in (labels.astype(np.uint8), jnp.asarray(labels), np.eye(3, dtype=int)[labels]):
            np.testing.assert_allclose(top(3, y, loss), expected, rtol=1e-12)
    signs = np.array([1, 0, 0, 1])
    expected = top(1, 2.0 * signs - 1, CROSS)
    for y in (signs.astype(np.uint8), signs.astype(bool), (2.0 * signs - 1)[:, None]):
        np.testing.assert_allclose(top(1, y, CROSS), expected, rtol=1e-12)


def test_rounded_probabilities_pass():
    rounded = np.full((4, 3), np.float32(1) / 3) + np.float32(1e-7)
    in_data_set(3, rounded, CROSS)
    in_probe(3, rounded.astype(np.float64), CROSS)


def test_labels_that_are_traced_are_not_looked_at():
    given, y = model(3), np.array([0, 1, 2, 2])

    def rate(weights, y, loss=CROSS):
        traced = ld.Model(given.network, weights)
        return ld.probes.critical_learning_rate(traced, X, y, loss=loss).value

    with jax.enable_x64(True):
        found = jax.jit(rate)(given.weights, y)
    np.testing.assert_allclose(found, rate(given.weights, y), rtol=1e-9)
    with pytest.raises(ValueError, match="y: got labels that are being traced; allowed with Cross"):
        jax.eval_shape(lambda w, y: rate(w, y, IGNORING), given.weights, y)
