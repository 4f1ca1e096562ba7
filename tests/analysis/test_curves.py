"""Times, rates and exponents of curves whose answer is known."""

import numpy as np
import pytest
import xarray as xr

import learndyn as ld
from learndyn.analysis import escape_time, fall_time, find_plateau, fit_power_law, fit_rate


def test_escape_time_of_an_exponential_is_exact():
    times = np.linspace(0, 10, 7)
    curves = np.stack([np.exp(-times), np.exp(-3 * times), np.ones_like(times)])
    record = xr.Dataset(
        {"error": (("run", "time"), curves, {"units": "1", "long_name": "error"})},
        {"time": ("time", times, {"units": "steps"})},
    )
    found = escape_time(record, fraction=0.25)
    assert found.dims == ("run",) and found.name == "escape_time"
    assert found.attrs == {"units": "steps", "long_name": "time at 0.25 of the plateau of error"}
    np.testing.assert_allclose(found[:2], np.log(4) / np.array([1, 3]), rtol=1e-12)
    assert np.isnan(found[2])
    with pytest.raises(ValueError, match="fraction: got 2"):
        escape_time(record, fraction=2)


TIMES = np.linspace(0, 400, 401)


def escape_of(curve, times=TIMES, **options):
    record = xr.Dataset({"error": ("time", curve)}, {"time": times})
    return float(escape_time(record, **options)), float(fall_time(record, **options))


def test_a_curve_with_a_plateau_is_measured_after_it():
    """ε = e^-t + 0.1/(1 + (t/100)⁸): half of the plateau's 0.1 is reached at 100."""
    curve = np.exp(-TIMES) + 0.1 / (1 + (TIMES / 100) ** 8)
    found, fell = escape_of(curve)
    assert found == pytest.approx(100, rel=0.01) and 0.7 < fell < 1.1
    found, _ = escape_of(curve, fraction=0.1)
    assert found == pytest.approx(100 * 9 ** (1 / 8), rel=0.01)
    noisy = curve * np.exp(0.03 * np.random.default_rng(0).standard_normal(len(curve)))
    assert escape_of(noisy)[0] == pytest.approx(100, rel=0.05)
    times = np.concatenate([[0], np.geomspace(0.01, 400, 200)])  # where every curve begins flat
    curve = np.exp(-times) + 0.1 / (1 + (times / 100) ** 8)
    assert escape_of(curve, times)[0] == pytest.approx(100, rel=0.01)


def test_missing_values_between_readings_are_left_out():
    """As a recorder leaves them, also where the first and last calls have none."""
    curve = np.exp(-TIMES) + 0.1 / (1 + (TIMES / 100) ** 8)
    gaps = np.full(2 * len(TIMES) + 1, np.nan)
    gaps[1::2] = curve
    times = np.r_[-0.5, np.repeat(TIMES, 2) + np.tile([0, 0.5], len(TIMES))]
    assert escape_of(gaps, times) == escape_of(curve)
    found, plain = (
        find_plateau(xr.Dataset({"loss": ("time", c)}, {"time": t}))
        for c, t in ((gaps, times), (curve, TIMES))
    )
    assert found == plain and np.isnan(escape_of(np.full(5, np.nan), np.arange(5.0))).all()


def test_curves_without_another_plateau_are_measured_from_their_first_value():
    begins_on_it = 1 / (1 + (TIMES / 100) ** 8)
    stairs = 0.5 * begins_on_it + 0.5 / (1 + (TIMES / 300) ** 20)
    for curve in (begins_on_it, np.exp(-TIMES), stairs, 1 / (1 + TIMES) ** 2):
        found, fell = escape_of(curve, fraction=0.6)
        assert found == fell and np.isfinite(found)


def test_a_curve_that_ends_flat_warns():
    with pytest.warns(UserWarning, match="ends flat at 0.1; where that is a plateau, a longer"):
        found, fell = escape_of(np.exp(-TIMES) + 0.1)
    assert found == fell


def test_an_erf_student_from_a_random_start_escapes_after_its_plateau():
    teacher = ld.Committee(2, "erf", init=ld.Orthonormal(1.0))
    problem = ld.TeacherStudent(ld.Isotropic(100), teacher)
    system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.5))
    record = ld.solve(system, np.linspace(0, 400, 101))
    assert float(fall_time(record)) < 3
    escape = float(escape_time(record))
    # The units have the same overlaps on the plateau, and a different one each at the end.
    R = record["R"].sel(time=[escape / 3, 2 * escape], method="nearest")
    apart = abs(R[:, 0, 0] - R[:, 1, 0]).values
    assert apart[0] < 0.3 and apart[1] > 0.8


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
    with pytest.raises(ValueError, match="y: got -2; allowed are positive numbers"):
        fit_power_law([1, 2, 3], [1, -2, 3])
    with pytest.raises(ValueError, match="y: got 2 numbers beside 3 of x; allowed is one for each"):
        fit_power_law([1, 2, 3], [1, 2])


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
