"""Times, rates and exponents of curves whose answer is known."""

import numpy as np
import pytest
import xarray as xr

from learndyn.analysis import escape_time, fit_power_law, fit_rate


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
        low, high = fit_power_law(x, x**-0.5 * np.exp(0.2 * rng.standard_normal(12))).interval(12)
        hits += low < -0.5 < high
    assert 360 <= hits <= 396  # 95 % of 400, ± 4.5 standard errors


def test_too_few_or_negative_points_are_refused():
    with pytest.raises(ValueError, match="got 2 points"):
        fit_rate([1, 2], [1, 2])
    with pytest.raises(ValueError, match="not positive"), np.errstate(invalid="ignore"):
        fit_power_law([1, 2, 3], [1, -2, 3])
