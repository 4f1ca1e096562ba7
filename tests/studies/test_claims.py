"""Claims: kinds, names, verdicts, and what a run says of them."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from learndyn.studies import verdicts
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim, with_rates
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
    made = claim("s", "Eq. 1", kind="finding", name="n", **because).equals(1.1, 1, within=0.2)
    expected = Claim("s", "Eq. 1", "=", 1.0, 1.1, 0.2, "theory", "finding", rate=0.99, label="n")
    assert made == expected
    assert claim("s", "Eq. 1", because="t").at_most(np.float32(2), 1.0).status == "fails"
    assert claim("s", "Eq. 1", because="t").at_least(2.0, 1.0).status == "holds"
    assert math.isnan(claim("s", "Eq. 1").open("no data").measured)


@pytest.mark.parametrize(("printed", "holds"), [(1.4, False), (1.6, True), (1.0, False)])
def test_a_wrong_print_misses_by_five_tolerances(printed, holds):
    made = claim("s", "Eq. 1", because="t").erratum("so", printed).equals(1.0, 1.0, within=0.1)
    assert made.kind == "erratum" and made.holds is holds


@pytest.mark.parametrize(("printed", "holds"), [(0.0, True), (1.0, False), (2.0, False)])
def test_a_wrong_print_does_not_satisfy_the_bound(printed, holds):
    made = claim("s", "Eq. 1", because="t").erratum("so", printed).at_least(3.0, 1.0)
    assert made.holds is holds


def test_an_erratum_needs_its_corrected_value():
    made = claim("s", "Eq. 1", because="t").erratum("so").equals(2.0, 1.0, within=0.1)
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
def test_invalid_claims_are_refused(change, said):
    given = {"tolerance": 0.1, "tolerance_from": "theory"} | change
    with pytest.raises(ValueError, match=re.escape(said)):
        Claim("s", "Eq. 1", "=", 1.0, 1.0, **given)


def test_names_are_the_same_at_every_key():
    name = lambda statement: claim(statement, "Eq. 1").open("no data").name
    assert name("β = 0.5: it falls (by 1.23 at 4)") == "β = 0.5: it falls"
    assert name("f(1) + w_(i+1) (largest gap)") == "f(1) + w_(i+1) (largest gap)"
    given = claim("worst at 3.2", "Eq. 1", name="worst").open("no data")
    assert given.name == "worst" and verdicts.repeated([given, given]) == ["worst"]


def rows(**status):
    value = {"holds": 1.0, "fails": 2.0}
    made = {
        name: claim(name, "Eq. 1", because="t").equals(value[said], 1.0, within=0.1)
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
    assert verdicts.complaints(rows(**status), listed, own=own) == said


def test_only_what_a_paper_says_may_be_listed_as_failing():
    ours = claim("a", "Eq. 1", kind="finding", because="t").equals(2.0, 1.0, within=0.1)
    said = verdicts.complaints([ours], {"a": "why"}, own=True)
    assert said == ["is ours and listed as failing: a"]


def test_tally_keeps_the_kinds_apart():
    proof = claim("p", "Eq. 1", kind="theorem", because="t").at_most(0.0, 1.0)
    found = verdicts.tally([*rows(a="holds", b="fails"), proof])
    assert found == {
        "claim": {"holds": 1, "fails": 1, "open": 0},
        "theorem": {"holds": 1, "fails": 0, "open": 0},
    }


WEAK = {"weak": 0.3}  # as a study has it


def test_claims_about_draws_promise_less_than_certainty():
    @with_rates
    def check(data):
        chance = claim("known", "Eq. 1", because="t", rate=0.99).equals(data, 1.0, within=0.1)
        rows = [claim(name, "Eq. 1", because="t").at_most(data, 2.0) for name in ("a", "weak")]
        return [*rows, chance, claim("p", "Eq. 1", kind="theorem", because="t").at_most(data, 2.0)]

    assert [row.rate for row in check(1.0)] == [PLANNED, 0.3, 0.99, 1.0]
    assert all(row.holds for row in check(1.0))


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


def test_tolerances_add_their_values_their_reasons_and_their_chances_of_missing():
    chance, size = Tolerance(0.1, "Student's t", 0.99), Tolerance(0.2, "finite size")
    assert chance + size == Tolerance(0.1 + 0.2, "Student's t; finite size", 0.99)
    both = chance + Tolerance(0.1, "normal noise", 0.95)
    np.testing.assert_allclose(both.rate, 0.94)
    assert (chance + chance).because == "Student's t"
    never = Tolerance(1.0, "a", 0.4) + Tolerance(1.0, "b", 0.5)
    assert 0 < never.rate < 1e-6
    assert 2 * chance == chance * 2 == np.float64(2) * chance == Tolerance(0.2, "Student's t", 0.99)


def test_a_sentence_of_the_table_adds_its_tolerance_to_that_of_the_check():
    fixed = claim("s", "Eq. 1", within=Tolerance(0.1, "finite size"))
    made = fixed.equals(1.0, 1.0)
    assert (made.tolerance, made.tolerance_from, made.rate) == (0.1, "finite size", 1.0)
    made = fixed.equals(1.0, 1.0, Tolerance(0.2, "Student's t", 0.99))
    np.testing.assert_allclose(made.tolerance, 0.3)
    assert (made.tolerance_from, made.rate) == ("finite size; Student's t", 0.99)
    reason = claim("s", "Eq. 1", because="rounding", rate=0.9)
    made = reason.equals(1.0, 1.0, 0.5)
    assert (made.tolerance, made.tolerance_from, made.rate) == (0.5, "rounding", 0.9)
    assert reason.at_most(1.0, 1.0).tolerance == 0.0


def test_a_sentence_is_filled_in_and_recognised():
    sentence = claim("{panel}: the loss (seen {n:g} times)", "Fig. {fig}", because="of {panel}")
    sentence = sentence.erratum("{panel} prints 2")
    made = sentence.format(panel="a", n=3.0, fig=4).erratum(value=2.0).at_most(0.0, 1.0)
    assert (made.statement, made.source) == ("a: the loss (seen 3 times)", "Fig. 4")
    assert (made.tolerance_from, made.printed, made.printed_value) == ("of a", "a prints 2", 2.0)
    assert made.name == "a: the loss" and sentence.says(made)
    other = claim("the loss", "Fig. 4", because="t").at_most(0.0, 1.0)
    assert not sentence.says(other)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: claim("s", "E", within=Tolerance(1, "a"), because="b"), "because: got 'b'; all"),
        (lambda: claim("s", "E").equals(1, 1), "within: got none; allowed"),
        (lambda: claim("s", "E").equals(1, 1, 0.1), "because: got none for 's'; allowed"),
        (lambda: claim("s", "E").at_most(1, 1), "because: got none for 's'; allowed"),
        (lambda: claim("{x}", "E", because="b").at_most(1, 1), "statement: got '{x}'; allowed"),
    ],
)
def test_invalid_sentences_are_refused(make, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        make()
