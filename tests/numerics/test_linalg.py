"""Spectra with their multiplicities."""

import numpy as np
import pytest

from learndyn.numerics import linalg


def test_equal_eigenvalues_are_counted_together():
    frame = np.linalg.qr(np.random.default_rng(4).standard_normal((6, 6)))[0]
    values = [-2.0, -2.0, 0.0, 0.0, 0.0, 3.0]
    found = linalg.distinct_eigenvalues(frame @ np.diag(values) @ frame.T)
    assert [count for _, count in found] == [2, 3, 1]
    np.testing.assert_allclose([value for value, _ in found], [-2, 0, 3], atol=1e-13)
    assert found[1][0] == 0.0
    assert linalg.distinct_eigenvalues(np.zeros((3, 3))) == [(0.0, 3)]


def test_a_matrix_that_is_not_square():
    with pytest.raises(ValueError, match=r"matrix: got shape \(3, 7\); allowed is square"):
        linalg.distinct_eigenvalues(np.ones((3, 7)))


def test_eigenvalue_error_covers_the_solver():
    rng = np.random.default_rng(0)
    values = rng.uniform(-3, 5, 60)
    turn = linalg.orthonormal_rows(rng.standard_normal((60, 60)))
    found = np.linalg.eigvalsh((turn * values) @ turn.T)
    bound = linalg.eigenvalue_error(values)
    assert np.abs(found - np.sort(values)).max() < bound < 1e-13
