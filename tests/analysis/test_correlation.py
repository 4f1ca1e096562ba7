"""Partial correlations against their closed form, and where a third quantity explains all."""

import numpy as np
import pytest

from learndyn.analysis import partial_correlation


def test_the_closed_form_for_one_given_quantity():
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal((3, 3)) @ rng.standard_normal((3, 50))
    r = np.corrcoef([x, y, z])
    expected = (r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    np.testing.assert_allclose(partial_correlation(x, y, [z]), expected, rtol=1e-12)
    np.testing.assert_allclose(partial_correlation(x, y), r[0, 1], rtol=1e-12)


def test_nothing_is_left_where_a_third_quantity_explains_both():
    z, u, v = np.random.default_rng(1).standard_normal((3, 10_000))
    assert partial_correlation(z + 0.1 * u, z + 0.1 * v) > 0.9
    assert abs(partial_correlation(z + 0.1 * u, z + 0.1 * v, [z])) < 4 / np.sqrt(10_000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0]), "y: got shape"),
        (([1.0, 2.0, 4.0], [1.0, 0.0, 0.0], [[1.0, 2.0, 4.0]]), "x: got what the given fix"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(ValueError, match=message):
        partial_correlation(*arguments)
