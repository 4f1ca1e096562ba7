"""Lines and minima through samples of a curve."""

import numpy as np
import pytest

from learndyn.analysis.fits import fit_line, fit_minimum


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


def test_minimum_at_an_end_is_the_sample_there():
    assert fit_minimum([0, 1, 2], [3, 2, 1]) == (2, 1)
    assert fit_minimum([0, 1, 2, 3], [np.nan, 1, 2, 4]) == (1, 1)


def test_minimum_needs_three_samples():
    with pytest.raises(ValueError, match="fit_minimum: got 2 points; allowed are at least 3"):
        fit_minimum([0, 1, 2], [1, np.nan, 3])
