"""Claims about intervals: noise never helps, and wide intervals decide nothing."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from learndyn.studies import intervals, replication, sensitivity
from learndyn.studies.claims import PLANNED, UNDECIDED, Interval, claim
from learndyn.studies.statistics import LEVEL

SENTENCE = claim("s", "Eq. 1", because="'nearly' is read as 0.1")
RELATIONS = {
    "≤": lambda measured: SENTENCE.at_most(measured, 0.0, 0.1),
    "≥": lambda measured: SENTENCE.at_least(measured, 0.0, 0.1),
    "=": lambda measured: SENTENCE.equals(measured, 0.0, 0.1),
}


@pytest.mark.parametrize(
    ("relation", "low", "high", "status"),
    [
        ("≤", -3.0, 0.05, "holds"), ("≤", -3.0, 0.2, "open"), ("≤", 0.2, 0.3, "fails"),
        ("≥", -0.05, 3.0, "holds"), ("≥", -0.2, 3.0, "open"), ("≥", -0.3, -0.2, "fails"),
        ("=", -0.05, 0.1, "holds"), ("=", -0.05, 0.2, "open"), ("=", 0.05, 0.2, "open"),
        ("=", 0.2, 0.3, "fails"), ("=", -0.3, -0.2, "fails"), ("=", -9.0, 9.0, "open"),
        ("≤", math.nan, math.nan, "fails"), ("≥", math.nan, math.nan, "fails"),
        ("=", math.nan, math.nan, "fails"), ("≤", -1.0, math.nan, "fails"),
    ],
)  # fmt: skip
def test_the_whole_interval_decides(relation, low, high, status):
    made = RELATIONS[relation](Interval((low + high) / 2, low, high, "Student's t"))
    assert made.status == status and made.holds is (status == "holds")
    assert made.undecided is (status == "open") and (made.why_open == UNDECIDED) is made.undecided
    assert (made.low, made.tolerance) == (pytest.approx(low, nan_ok=True), 0.1)
    assert made.tolerance_from == "'nearly' is read as 0.1; Student's t"


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("middle", [-1.0, -0.1, 0.0, 0.1, 1.0])
def test_a_wide_interval_never_holds(relation, middle):
    for half in (1.2, 10.0, math.inf):
        made = RELATIONS[relation](Interval(middle, middle - half, middle + half, "t"))
        assert made.status == "open" and not made.holds


def holding(relation, mean, scatter, count=8, tries=2000):
    """How often a claim about a mean holds, by Student's interval."""
    samples = mean + scatter * np.random.default_rng(0).standard_normal((tries, count))
    half = stats.t(count - 1).ppf(1 - LEVEL) * stats.sem(samples, axis=1)
    means = samples.mean(axis=1)
    rows = zip(means, means - half, means + half, strict=True)
    return np.mean([RELATIONS[relation](Interval(*row, "t")).holds for row in rows])


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_does_not_make_a_false_claim_hold(relation):
    wrong = {"≤": 0.11, "≥": -0.11, "=": 0.11}[relation]
    for scatter in (1e-3, 1e-2, 0.1, 1.0):
        # Three standard errors of a rate of 1 % in 2000 tries.
        assert holding(relation, wrong, scatter) <= LEVEL + 3 * math.sqrt(LEVEL / 2000)


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_makes_a_true_claim_hold_less_often(relation):
    rates = [holding(relation, 0.0, scatter) for scatter in (0.01, 0.05, 0.1, 0.2, 1.0)]
    assert rates[0] == 1.0 and rates == sorted(rates, reverse=True) and rates[-1] < 0.1


def test_a_mean_has_students_interval():
    values = np.random.default_rng(0).standard_normal(12)
    found = intervals.of_mean(values, "seeds")
    upper = stats.ttest_1samp(values, 0.0, alternative="less").confidence_interval(0.99).high
    lower = stats.ttest_1samp(values, 0.0, alternative="greater").confidence_interval(0.99).low
    np.testing.assert_allclose(found[:3], (values.mean(), lower, upper))
    assert found.because == "interval by Student's t, 12 seeds, 1 % at each end"


def test_of_several_means_the_interval_holds_the_extreme_one():
    values = np.array([[-5.0, 1.0, 2.0], [-5.2, 1.2, 2.2], [-4.8, 0.8, 1.8]])
    data = xr.DataArray(values, dims=("seed", "case"))
    each = [intervals.of_mean(data[:, i], level=LEVEL / 3) for i in range(3)]
    least, largest, farthest = (
        intervals.of_mean(data, over="seed", which=which)
        for which in ("least", "largest", "farthest")
    )
    np.testing.assert_allclose(least[:3], each[0][:3])
    np.testing.assert_allclose(largest[:3], each[2][:3])
    np.testing.assert_allclose(farthest[:3], (-each[0].value, -each[0].high, -each[0].low))
    around = intervals.of_mean(data - data.mean("seed"), over="seed", which="farthest")
    assert around.low == 0.0 < around.high
    missing = intervals.of_mean(data.where(data > -5.1), over="seed")
    assert all(math.isnan(end) for end in missing[:3])


def test_intervals_cover():
    rng, count = np.random.default_rng(1), 30
    shares = [intervals.of_share(rng.random(count) < 0.7) for _ in range(1000)]
    medians = [intervals.of_median(rng.exponential(size=count)) for _ in range(1000)]
    pairs = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], (1000, count))
    rows = [intervals.of_correlation(np.corrcoef(p.T)[0, 1], count) for p in pairs]
    for found, true in ((shares, 0.7), (medians, math.log(2)), (rows, 0.6)):
        below = np.mean([each.high < true for each in found])
        above = np.mean([each.low > true for each in found])
        # Three standard errors of 1 % in 1000; Fisher's z is an approximation, exact to 1 % here.
        assert max(below, above) <= 2 * LEVEL and np.mean([e.low < e.high for e in found]) == 1
    assert intervals.of_correlation(0.9, 3)[1:3] == (-1.0, 1.0)
    assert intervals.of_median([1.0, 2.0])[1:3] == (-math.inf, math.inf)


def test_the_rate_is_the_planned_power_unless_the_table_says_another():
    interval = intervals.of_mean([0.0, 0.01, -0.01])
    assert SENTENCE.at_most(interval, 0.0, 0.1).rate == PLANNED
    measured = claim("s", "Eq. 1", because="b", rate=0.6)
    assert measured.at_most(interval, 0.0, 0.1).rate == 0.6


def wide(data):
    return [claim("it is small", "Eq. 1").at_most(intervals.of_mean(data["y"].values), 1.0)]


def test_an_interval_that_becomes_too_wide_counts_as_a_changed_verdict():
    data = xr.Dataset({"y": ("run", [0.97, 0.98, 0.99, 0.97, 0.98])})
    assert "y × 1.25" in sensitivity.turned(wide, data)["it is small"]
    noisy = xr.Dataset({"y": ("run", [-9.0, 9.0, 0.0])})
    assert sensitivity.counted(wide(noisy)) == {"it is small": "open"}


def test_a_key_that_does_not_decide_is_a_key_at_which_the_claim_does_not_hold():
    row = lambda status: {"status": status, "kind": "claim", "rate": 0.95}
    runs = {
        "1": {"claims": {"a": row("holds") | {"undecided": False}}},
        "2": {"claims": {"a": row("open") | {"undecided": True}}},
        "3": {"claims": {"a": row("open") | {"undecided": False}}},
    }
    (found,) = replication.table(runs)
    assert (found.held, found.count) == (1, 2)
