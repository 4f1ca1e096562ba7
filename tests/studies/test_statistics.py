"""Statistics that studies share, against SciPy and closed forms."""

from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from learndyn.studies import printed
from learndyn.studies.statistics import (
    exponents,
    jackknife,
    log_rank,
    mean_tolerance,
    median_exponent,
    median_interval,
    slopes,
    student_bound,
    student_interval,
    student_tolerance,
)

VALUES = np.random.default_rng(0).standard_normal(12)


def test_a_students_tolerance_says_where_it_comes_from():
    found = student_tolerance(0.5, 64)
    assert found.because == "Student's t, 64 runs, 1 %" and found.rate == 0.99
    np.testing.assert_allclose(found.value, 0.5 * student_bound(64))
    found = student_tolerance(0.5, 8, "seeds", entries=3, level=0.05, sides=1)
    assert found.because == "Student's t, 8 seeds, 3 entries together, 5 %, one-sided"
    np.testing.assert_allclose(found.value, 0.5 * student_bound(8, 3, 0.05, sides=1))


def test_the_interval_of_a_mean_is_scipys():
    low, high = stats.ttest_1samp(VALUES, 0.0).confidence_interval(0.99)
    found = student_interval(xr.DataArray(VALUES, dims="seed"), "seed")
    np.testing.assert_allclose(found, (low, high))
    np.testing.assert_allclose(mean_tolerance(VALUES).value, (high - low) / 2)
    one_sided = student_interval(xr.DataArray(VALUES, dims="seed"), "seed", sides=1)
    bound = stats.ttest_1samp(VALUES, 0.0, alternative="less").confidence_interval(0.99).high
    np.testing.assert_allclose(one_sided[1], bound)


def test_slopes_and_exponents_are_those_of_least_squares():
    at, values = np.array([1.0, 2.0, 5.0]), VALUES.reshape(4, 3)
    data = xr.DataArray(values, {"size": at}, ("seed", "size"))
    expected = [stats.linregress(at, row).slope for row in values]
    np.testing.assert_allclose(slopes(data, "size", at), expected)
    powers = xr.DataArray(at ** np.array([[2.0], [-0.5]]), {"size": at}, ("seed", "size"))
    np.testing.assert_allclose(exponents(powers, "size"), [2.0, -0.5])
    missing = data.where(data["size"] > 1)
    assert np.isnan(slopes(missing, "size", at)).all()


def test_the_jackknife_error_of_a_mean_is_its_standard_error():
    found = jackknife(VALUES.reshape(2, 6), lambda rows: rows.mean(axis=-1))
    np.testing.assert_allclose(found, stats.sem(VALUES.reshape(2, 6), axis=-1))


def test_a_log_rank_statistic_without_censored_times_is_that_of_the_hypergeometric_variance():
    early, late = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, np.nan])
    # Events at 1, 2, 3, 4, 5: those at risk in each sample, and whose event it is.
    risk = np.array([(3, 3), (2, 3), (1, 3), (1, 2), (0, 2)])
    first, share = np.array([1, 1, 0, 1, 0]), risk[:, 0] / risk.sum(1)
    expected = (first.sum() - share.sum()) / np.sqrt((share * (1 - share)).sum())
    np.testing.assert_allclose(log_rank(early, late, 6.0), expected)
    assert log_rank(late, early, 6.0) < 0


def test_the_exponent_of_medians_is_theirs_with_the_farthest_ends():
    rows = [np.arange(1.0, 20.0), 4 * np.arange(1.0, 20.0)]
    found = median_exponent([2, 8], rows, 0.05)
    np.testing.assert_allclose(found.value, 1.0)
    _, low, high = median_interval(rows[0], 0.025)
    np.testing.assert_allclose(found.high - 1, np.log(high / low) / np.log(4))
    np.testing.assert_allclose(found.low - 1, np.log(low / high) / np.log(4))


class Own(NamedTuple):
    equation: str
    value: float
    note: str = ""


@pytest.mark.parametrize("number", [1, np.float32(1.0)])
def test_rows_of_misprints_become_a_dataset(number):
    data = printed.table([Own("1", number), Own("2", 2.0, "so")])
    assert list(data["row"].values) == ["1", "2"] and list(data["note"].values) == ["", "so"]
    assert data["value"].dtype == np.float64 and set(data.data_vars) == {"value", "note"}
    figure, axis, place = printed.rows_figure(data, ["one", "two"], 0.4)
    axis.plot(data["value"], place, label="value")
    printed.finish(axis, 1)
    assert axis.get_legend() is not None and axis.yaxis_inverted() and figure.axes == [axis]
