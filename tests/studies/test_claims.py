"""Claims: kinds, names, verdicts, and what a run says of them."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from learndyn.studies import claims
from learndyn.studies.claims import Claim, claim
from learndyn.studies.statistics import (
    clopper_pearson,
    mean_square_bound,
    median_interval,
    rank_slope,
    spread_exponent_error,
    student_bound,
)


@pytest.mark.parametrize(
    ("relation", "measured", "holds"),
    [("=", 1.05, True), ("=", 1.2, False), ("≤", 1.1, True), ("≤", 1.2, False),
     ("≥", 0.9, True), ("≥", 0.8, False), ("=", float("nan"), False)],
)  # fmt: skip
def test_claims_can_fail(relation, measured, holds):
    made = Claim("s", "Eq. 1", relation, 1.0, measured, 0.1 + 1e-12, "theory")
    assert made.holds is holds and made.status == ("holds" if holds else "fails")
    opened = made.open("not decided")
    assert opened.status == "open" and opened.tolerance is None and not opened.holds


def test_the_builder_says_what_the_claim_says():
    because = {"because": "theory", "rate": 0.99}
    made = claim("s", "Eq. 1", kind="finding", name="n").equals(1.1, 1, within=0.2, **because)
    expected = Claim("s", "Eq. 1", "=", 1.0, 1.1, 0.2, "theory", "finding", rate=0.99, label="n")
    assert made == expected
    assert claim("s", "Eq. 1").at_most(np.float32(2), 1.0, because="t").status == "fails"
    assert claim("s", "Eq. 1").at_least(2.0, 1.0, because="t").status == "holds"
    assert math.isnan(claim("s", "Eq. 1").open("no data").measured)


@pytest.mark.parametrize(("printed", "holds"), [(1.4, False), (1.6, True), (1.0, False)])
def test_a_wrong_print_misses_by_five_tolerances(printed, holds):
    made = claim("s", "Eq. 1").erratum("so", printed).equals(1.0, 1.0, within=0.1, because="t")
    assert made.kind == "erratum" and made.holds is holds


@pytest.mark.parametrize(("printed", "holds"), [(0.0, True), (1.0, False), (2.0, False)])
def test_a_wrong_print_does_not_satisfy_the_bound(printed, holds):
    made = claim("s", "Eq. 1").erratum("so", printed).at_least(3.0, 1.0, because="t")
    assert made.holds is holds


def test_an_erratum_needs_its_corrected_value():
    made = claim("s", "Eq. 1").erratum("so").equals(2.0, 1.0, within=0.1, because="t")
    assert made.status == "fails"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate": 0.0}, "rate: got 0.0; allowed"),
        ({"kind": "erratum"}, "printed: got ''; allowed"),
        ({"printed": "so"}, "printed: got 'so'; allowed"),
        ({"why_open": "no data"}, "tolerance: got 0.1 with why_open 'no data'; allowed"),
        ({"tolerance": None}, "tolerance: got None with why_open ''; allowed"),
    ],
)
def test_what_a_claim_may_not_be(change, said):
    given = {"tolerance": 0.1, "tolerance_from": "theory"} | change
    with pytest.raises(ValueError, match=re.escape(said)):
        Claim("s", "Eq. 1", "=", 1.0, 1.0, **given)


def test_names_are_the_same_at_every_key():
    name = lambda statement: claim(statement, "Eq. 1").open("no data").name
    assert name("β = 0.5: it falls (by 1.23 at 4)") == "β = 0.5: it falls"
    assert name("f(1) + w_(i+1) (largest gap)") == "f(1) + w_(i+1) (largest gap)"
    given = claim("worst at 3.2", "Eq. 1", name="worst").open("no data")
    assert given.name == "worst" and claims.repeated([given, given]) == ["worst"]


def rows(**status):
    value = {"holds": 1.0, "fails": 2.0}
    made = {
        name: claim(name, "Eq. 1").equals(value[said], 1.0, within=0.1, because="t")
        for name, said in status.items()
    }
    return list(made.values())


@pytest.mark.parametrize(
    ("status", "listed", "own", "said"),
    [
        ({"a": "holds"}, {}, True, []),
        ({"a": "fails"}, {}, False, ["fails and is not listed: a"]),
        ({"a": "fails"}, {"a": "why"}, True, []),
        ({"a": "holds"}, {"a": "why"}, True, ["listed as failing and does not fail: a"]),
        ({"a": "holds"}, {"a": "why"}, False, []),
        ({"a": "holds"}, {"b": "why"}, True, ["listed as failing and does not fail: b"]),
    ],
)
def test_complaints(status, listed, own, said):
    assert claims.complaints(rows(**status), listed, own=own) == said


def test_only_what_a_paper_says_may_be_listed_as_failing():
    ours = claim("a", "Eq. 1", kind="finding").equals(2.0, 1.0, within=0.1, because="t")
    said = claims.complaints([ours], {"a": "why"}, own=True)
    assert said == ["is ours and listed as failing: a"]


def test_tally_keeps_the_kinds_apart():
    proof = claim("p", "Eq. 1", kind="theorem").at_most(0.0, 1.0, because="t")
    found = claims.tally([*rows(a="holds", b="fails"), proof])
    assert found == {
        "claim": {"holds": 1, "fails": 1, "open": 0},
        "theorem": {"holds": 1, "fails": 0, "open": 0},
    }


def test_student_bound_is_of_the_table():
    np.testing.assert_allclose(student_bound(10), 3.2498, atol=1e-4)
    np.testing.assert_allclose(student_bound(10, level=0.02, sides=1), 2.3984, atol=1e-4)
    assert student_bound(10, 5, 0.05) == student_bound(10)


def test_clopper_pearson_is_exact():
    low, high = clopper_pearson(20, 20)
    np.testing.assert_allclose(low, 0.025 ** (1 / 20))
    assert high == 1.0
    low, high = clopper_pearson(0, 5)
    assert low == 0.0
    np.testing.assert_allclose(high, 1 - 0.025 ** (1 / 5))


def test_bounds_of_known_errors_and_mean_squares():
    np.testing.assert_allclose(student_bound(math.inf, 2, 0.05), stats.norm.ppf(1 - 0.05 / 4))
    rng = np.random.default_rng(0)
    beyond = np.abs(np.mean(rng.standard_normal((4000, 50)) ** 2, 1) - 1) > mean_square_bound(50)
    assert 0 < beyond.mean() < 0.01


def test_error_of_an_exponent_of_spreads():
    rng, sizes, count = np.random.default_rng(1), np.array([64, 128, 256, 512]), 32
    spreads = rng.standard_normal((3000, 4, count)).std(-1, ddof=1)
    found = np.polyfit(np.log(sizes), np.log(spreads).T, 1)[0]
    np.testing.assert_allclose(found.std(), spread_exponent_error(sizes, count), rtol=0.05)


def test_a_median_with_its_interval():
    found = median_interval([*range(1, 10), math.inf], level=0.05)
    assert found == (5.5, 2.0, 9.0)  # P(Bin(10, ½) ≤ 1) = 0.0107, ≤ 2: 0.0547
    assert median_interval([1.0, 2.0, 3.0]) == (2.0, -math.inf, math.inf)


def test_a_rank_slope_is_not_carried_by_stragglers():
    rng = np.random.default_rng(0)
    x = np.repeat(np.log([1, 2, 4, 8]), 64)
    y = 0.5 * x + rng.standard_normal(256)
    y[-5:] += 1e3
    found = rank_slope(x, y)
    assert found.low < 0.5 < found.high and found.low > 0.1 and found.high < 0.9
