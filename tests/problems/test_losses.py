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


def test_ignored_labels_are_left_out_of_the_mean():
    kept = np.array([True, True, False, True, False, True])
    for ignore, labels in ((-100, np.where(kept, LABELS, -100)), (1, LABELS)):
        loss, counted = ld.CrossEntropy(ignore_index=ignore), labels != ignore
        with jax.enable_x64(True):
            mean = lambda o, loss=loss, labels=labels: loss(o, labels.astype(np.int32), 1)
            others = lambda o, c=counted: ld.CrossEntropy()(o[c], LABELS[c], 1)
            assert float(mean(OUTPUT)) == pytest.approx(float(others(OUTPUT)), rel=1e-14)
            np.testing.assert_allclose(jax.grad(mean)(OUTPUT), jax.grad(others)(OUTPUT), atol=1e-15)
            each = loss.each(OUTPUT, labels.astype(np.int32), 1)
            np.testing.assert_array_equal(np.asarray(each) == 0, ~counted)
            alone = np.full(6, ignore, np.int32)
            assert float(loss(OUTPUT, alone, 1)) == 0
            assert not np.any(jax.grad(lambda o, y=alone, loss=loss: loss(o, y, 1))(OUTPUT))


def test_a_single_output_ignores_labels_too():
    z, labels = RNG.normal(size=4), np.array([0, -1, 1, -1], np.int32)
    with jax.enable_x64(True):
        expected = np.mean(np.log1p(np.exp([z[0], -z[2]])))
        found = ld.CrossEntropy(ignore_index=-1)(z, labels, 0)
        assert float(found) == pytest.approx(expected)


def test_the_ignored_label_is_in_the_text_and_old_text_is_read():
    x = np.ones((3, 2))
    loss = ld.CrossEntropy(ignore_index=-100)
    data = ld.Dataset(x, [0, -100, 1], loss=loss)
    system = ld.System(data, ld.MLP([2, 2], "relu"), ld.SGD(0.1))
    assert ld.System.from_json(system.to_json()).problem.loss == loss
    assert repr(loss) == "CrossEntropy(ignore_index=-100)"
    plain = ld.System(ld.Dataset(x, [0, 0, 1], loss=ld.CrossEntropy()), system.network, system.rule)
    text = plain.to_json()
    old = text.replace('"kind": "CrossEntropy", "ignore_index": null', '"kind": "CrossEntropy"')
    assert old != text and ld.System.from_json(old).problem.loss == ld.CrossEntropy()


@pytest.mark.parametrize("index", [True, 2**40])
def test_an_ignored_label_is_an_integer(index):
    with pytest.raises(ValueError, match=r"\Aignore_index: got [^\n]*; allowed is an integer"):
        ld.CrossEntropy(ignore_index=index)
