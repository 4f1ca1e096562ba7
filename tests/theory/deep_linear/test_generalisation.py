"""Test losses of maps fitted to a noisy teacher."""

import numpy as np
import pytest

from learndyn.theory.deep_linear import generalisation


def maps():
    rng = np.random.default_rng(0)
    teacher = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 5))
    return teacher + 0.3 * rng.standard_normal((5, 5)), teacher


def test_losses_relative_to_the_map_zero():
    fitted, teacher = maps()
    assert generalisation.relative_loss(0 * teacher, teacher) == 1.0
    assert generalisation.relative_loss(teacher, teacher) == 0.0
    # On white inputs: the mean square of the answers' error.
    x = np.random.default_rng(1).standard_normal((200_000, 5))
    error, size = (np.mean((x @ w.T) ** 2) for w in (fitted - teacher, teacher))
    assert generalisation.relative_loss(fitted, teacher) == pytest.approx(error / size, rel=0.02)


def test_nearest_multiple_and_rank():
    fitted, teacher = maps()
    cosine = np.sum(fitted * teacher) / np.linalg.norm(fitted) / np.linalg.norm(teacher)
    nearest = generalisation.nearest_multiple(fitted, teacher)
    assert generalisation.relative_loss(nearest, teacher) == pytest.approx(1 - cosine**2)
    low = generalisation.truncated(fitted, 2)
    assert np.linalg.matrix_rank(low) == 2
    values = np.linalg.svd(fitted, compute_uv=False)
    assert np.linalg.norm(fitted - low) == pytest.approx(np.linalg.norm(values[2:]))


def test_unfinished_training_is_bounded_by_the_loss_left():
    (fitted, teacher), rng = maps(), np.random.default_rng(2)
    level = generalisation.relative_loss(fitted, teacher)
    for size in (1e-3, 0.1, 1.0):
        found = fitted + size * rng.standard_normal((5, 5))
        left = np.sum((found - fitted) ** 2) / np.sum(teacher**2)
        gap = abs(generalisation.relative_loss(found, teacher) - level)
        assert gap <= generalisation.unfinished_error(level, left)
    straight = 2 * fitted - teacher  # away from the teacher: the bound is met
    gap = generalisation.relative_loss(straight, teacher) - level
    assert gap == pytest.approx(generalisation.unfinished_error(level, level))
