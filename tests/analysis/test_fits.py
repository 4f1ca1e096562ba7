"""Lines, minima and power laws that end, through samples of a curve."""

import numpy as np
import pytest

from learndyn.analysis.fits import (
    doubling_rate,
    fit_line,
    fit_minimum,
    fit_parabola,
    proportional,
)
from learndyn.analysis.power_laws import cut_power_law_tolerance, fit_cut_power_law


def test_line():
    x = np.arange(5.0)
    fit = fit_line(x, 2 - 3 * x)
    assert (fit.slope, fit.intercept) == pytest.approx((-3, 2))
    bent = np.where(x < 3, 2 - 3 * x, 100.0)
    assert fit_line(x, bent, window=(0, 2)).slope == pytest.approx(-3)


def test_minimum_of_a_parabola_is_exact_and_of_a_smooth_curve_of_second_order():
    x = np.arange(0.0, 3.0, 0.3)
    found = fit_minimum(x, 2 * (x - 1.27) ** 2 + 5)
    assert found == pytest.approx((1.27, 5.0))
    off = []
    for step in (0.2, 0.1):
        x = np.arange(0.5, 6.0, step)
        off.append(abs(fit_minimum(x, x - 2 * np.log(x)).x - 2))
    assert off[0] < 0.2**2 and off[1] < 0.1**2


@pytest.mark.parametrize(
    ("y", "where"),
    [
        ([4, 3, 2, 1], (3, 1)),
        ([1, 2, 3, 4], (0, 1)),
        ([1, 3, 2, 4], (0, 1)),
        ([np.nan, 1, 2, 4], (1, 1)),
        ([4, 2, 1, np.inf], (2, 1)),
        ([1, 1, 1, 1], (0, 1)),
    ],
)
def test_minimum_at_an_edge_is_the_sample_there_and_says_so(y, where):
    """Of a monotone or flat curve nothing is known but that sample."""
    found = fit_minimum([0, 1, 2, 3], y)
    assert found == where and found.at_edge
    assert repr(found).startswith("EdgeMinimum(x=")


@pytest.mark.parametrize("y", [[2, 1, 2, 3], [2, 1, 1, 1], [2, 1, 1, 2], [1 + 2**-52, 1, 1, 1]])
def test_minimum_inside_lies_between_its_neighbours(y):
    found = fit_minimum([0, 1, 2, 3], y)
    assert not found.at_edge and 0 <= found.x <= 2
    assert repr(found).startswith("Minimum(x=")


def test_minimum_needs_three_samples():
    with pytest.raises(ValueError, match="x: got 2 points; allowed are at least 3"):
        fit_minimum([0, 1, 2], [1, np.nan, 3])


def test_cut_power_law_is_found_again():
    alpha = np.geomspace(1, 300, 30)
    error = 2.5 * (alpha**-0.35 - 1000**-0.35)
    fit = fit_cut_power_law(alpha, error, end=1000.0)
    assert fit.exponent == pytest.approx(0.35, abs=1e-7)
    assert fit.amplitude == pytest.approx(2.5, rel=1e-6)
    np.testing.assert_allclose(fit.at(alpha), error, rtol=1e-6)
    pure = fit_cut_power_law(alpha, 3 * alpha**-0.6)
    assert pure.exponent == pytest.approx(0.6, abs=1e-7)
    assert pure.amplitude == pytest.approx(3.0, rel=1e-6)
    np.testing.assert_allclose(pure.at(alpha), 3 * alpha**-0.6, rtol=1e-6)


def test_cut_power_law_refuses_points_outside_its_range():
    with pytest.raises(ValueError, match="x: got"):
        fit_cut_power_law([1.0, 20.0], [1.0, 0.5], end=10.0)
    with pytest.raises(ValueError, match="y: got"):
        fit_cut_power_law([1.0, 2.0], [1.0, -0.5])


@pytest.mark.parametrize("alpha_max", [np.inf, 1e4, 1e9])
@pytest.mark.parametrize("s", [0.1, 0.5])
def test_fits_stay_within_their_tolerance(s, alpha_max):
    """Against every pattern of signs with one change: the worst tilts are among them."""
    alpha, deviation = np.geomspace(1, 1e3, 200), 1e-4
    clean = np.log(alpha**-s - alpha_max**-s)
    bound = cut_power_law_tolerance(alpha, deviation, s, end=alpha_max)
    off = []
    for change in range(0, 200, 10):
        tilt = np.where(np.arange(200) < change, deviation, -deviation)
        fit = fit_cut_power_law(alpha, np.exp(clean + tilt), end=alpha_max)
        off.append(abs(fit.exponent - s))
    # 1.05: the bound is that of evenly spaced g, which a curved g exceeds a little.
    assert 0.5 * bound < max(off) < 1.05 * bound


def test_a_parabola_is_found_among_points_that_are_missing():
    x = np.linspace(-1, 2, 7)
    y = 4 + 1.5 * (x - 0.3) ** 2
    y[2] = np.nan
    np.testing.assert_allclose(fit_parabola(x, y), (3, 0.3, 4))
    with pytest.raises(ValueError, match="x: got 2 points; allowed are at least 3"):
        fit_parabola([0, 1], [1, 2])


def test_proportional_and_doubling_rate():
    x = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(proportional(x, 3 * x), 3 * x)
    off = proportional(x, x + np.array([2.0, -1.0, 0.0]))  # orthogonal to x: nothing changes
    np.testing.assert_allclose(off, x)
    y = lambda t: 0.7 * np.expm1(1.3 * t)
    np.testing.assert_allclose(doubling_rate(y(0.4), y(0.8), 0.8), 1.3)
