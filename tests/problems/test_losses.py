"""Losses against their formulas, and the forms that targets may have."""

import jax
import numpy as np
import pytest
from scipy import special

import learndyn as ld
from learndyn.problems.losses import is_right

RNG = np.random.default_rng(0)
OUTPUT, LABELS = RNG.normal(size=(6, 3)), np.array([0, 2, 1, 1, 0, 2], np.int32)
ONE_HOT = np.eye(3)[LABELS]


def test_squared_loss_of_numbers_and_labels():
    expected = 0.7 * np.mean(np.sum((ONE_HOT - OUTPUT) ** 2, axis=1))
    with jax.enable_x64(True):
        for target in (ONE_HOT, LABELS):
            assert float(ld.SquaredLoss(0.7)(OUTPUT, target, 1)) == pytest.approx(expected)


def test_cross_entropy_of_labels_and_probabilities():
    logs = np.log(special.softmax(OUTPUT, axis=1))
    with jax.enable_x64(True):
        found = ld.CrossEntropy()(OUTPUT, LABELS, 1)
        assert float(found) == pytest.approx(-np.mean(logs[np.arange(6), LABELS]))
        soft = special.softmax(RNG.normal(size=(6, 3)), axis=1)
        found = ld.CrossEntropy()(OUTPUT, soft, 1)
        assert float(found) == pytest.approx(-np.mean(np.sum(soft * logs, axis=1)))


def test_a_single_output_takes_labels_as_signs():
    z, labels = RNG.normal(size=8), np.array([0, 1, 1, 0, 1, 0, 0, 1], np.int32)
    signs = 2 * labels - 1
    with jax.enable_x64(True):
        assert float(ld.SquaredLoss()(z, labels, 0)) == pytest.approx(np.mean((signs - z) ** 2) / 2)
        expected = np.mean(np.log1p(np.exp(-signs * z)))
        assert float(ld.CrossEntropy()(z, labels, 0)) == pytest.approx(expected)
        # An axis of length one is the same.
        assert float(ld.CrossEntropy()(z[:, None], labels, 1)) == pytest.approx(expected)
    np.testing.assert_array_equal(is_right(z, labels), (z > 0) == labels)


def test_large_logits_do_not_overflow():
    found = ld.CrossEntropy().each(np.array([[1e4, -1e4]]), np.array([1], np.int32), 1)
    assert float(found[0]) == 2e4


@pytest.mark.parametrize("loss", [ld.SquaredLoss(0.3), ld.CrossEntropy()])
def test_gradients_by_differences(loss):
    with jax.enable_x64(True):
        f = lambda o: float(loss(o, LABELS, 1))
        gradient = jax.grad(lambda o: loss(o, LABELS, 1))(OUTPUT)
        h, step = 1e-6, np.zeros_like(OUTPUT)
        step[2, 1] = h
        slope = (f(OUTPUT + step) - f(OUTPUT - step)) / (2 * h)
        assert float(gradient[2, 1]) == pytest.approx(slope, rel=1e-6)
