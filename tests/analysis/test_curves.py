"""Times, rates and exponents of curves whose answer is known."""

import numpy as np
import pytest
import xarray as xr

from learndyn.analysis import escape_time, find_plateau, fit_power_law, fit_rate


def test_escape_time_of_an_exponential_is_exact():
    times = np.linspace(0, 10, 7)
    curves = np.stack([np.exp(-times), np.exp(-3 * times), np.ones_like(times)])
    record = xr.Dataset({"error": (("run", "time"), curves)}, {"time": times})
    found = escape_time(record, fraction=0.25)
    assert found.dims == ("run",)
    np.testing.assert_allclose(found[:2], np.log(4) / np.array([1, 3]), rtol=1e-12)
    assert np.isnan(found[2])
    with pytest.raises(ValueError, match="fraction: got 2"):
        escape_time(record, fraction=2)


def test_fits_recover_exact_laws():
    x = np.geomspace(1, 100, 9)
    fit = fit_power_law(x, 3 * x**-0.7)
    assert fit.slope == pytest.approx(-0.7) and np.exp(fit.intercept) == pytest.approx(3)
    assert fit_rate(x, 2 * np.exp(0.1 * x), window=(2, 60)).slope == pytest.approx(0.1)


def test_confidence_interval_covers_as_often_as_it_says():
    rng, x = np.random.default_rng(0), np.geomspace(1, 100, 12)
    hits = 0
    for _ in range(400):
        low, high = fit_power_law(x, x**-0.5 * np.exp(0.2 * rng.standard_normal(12))).interval()
        hits += low < -0.5 < high
    assert 360 <= hits <= 396  # 95 % of 400, ± 4.5 standard errors


def test_too_few_or_negative_points_are_refused():
    with pytest.raises(ValueError, match="got 2 points"):
        fit_rate([1, 2], [1, 2])
    with pytest.raises(ValueError, match="not positive"), np.errstate(invalid="ignore"):
        fit_power_law([1, 2, 3], [1, -2, 3])


def test_interval_of_errors_that_follow_each_other():
    """AR(1) residuals: the plain interval would cover far less often than it says."""
    rng, x = np.random.default_rng(1), np.geomspace(1, 1000, 80)
    hits = plain = 0
    for _ in range(300):
        noise = np.zeros(80)
        for i in range(1, 80):
            noise[i] = 0.8 * noise[i - 1] + 0.05 * rng.standard_normal()
        fit = fit_power_law(x, x**-0.5 * np.exp(noise))
        low, high = fit.interval()
        hits += low < -0.5 < high
        independent = np.sqrt((1 - 0.8) / (1 + 0.8))  # what ignoring it would give
        plain += abs(fit.slope + 0.5) < (high - low) / 2 * independent
    assert hits >= 255 and plain < 220


def test_window_is_found_where_the_law_holds():
    """A power law between a flat start and an exponential end: 1 ≪ x ≪ 10⁴."""
    x = np.geomspace(1e-2, 1e5, 141)
    y = (1 + x) ** -0.4 * np.exp(-x / 1e4)
    fit = fit_power_law(x, y, window="auto", straight=0.01)
    low, high = fit.window
    assert 1 < low < 10 and 100 < high < 1e4
    assert fit.slope == pytest.approx(-0.4, abs=0.03)
    assert fit.points == np.sum((x >= low) & (x <= high))
    with pytest.raises(ValueError, match="no window over a factor 10"):
        fit_power_law(x[:60], np.exp(-x[:60]), window="auto", straight=1e-4)


def test_plateau_between_a_drop_and_an_escape():
    """ε = 0.1 + e^-t, then 0.1/(1 + (t/1000)²): flat from about 10 to 300."""
    times = np.concatenate([[0], np.geomspace(0.1, 1e5, 400)])
    error = 0.1 / (1 + (times / 1000) ** 2) + np.exp(-times)
    record = xr.Dataset({"error": ("time", error)}, {"time": times})
    found = find_plateau(record, flatness=0.1)
    # |d ln ε/d ln t| = 0.1 where 10 t e^-t = 0.1 and where 2 (t/1000)² ≈ 0.1.
    assert found.start == pytest.approx(6.5, rel=0.1)
    assert found.end == pytest.approx(1000 * np.sqrt(0.05 / 0.95), rel=0.05)
    assert found.height == pytest.approx(0.1, rel=0.01)
    assert found.length == found.end - found.start


def test_no_plateau_in_a_power_law():
    times = np.geomspace(1, 1e4, 50)
    record = xr.Dataset({"error": ("time", times**-0.5)}, {"time": times})
    assert np.isnan(find_plateau(record).height)
