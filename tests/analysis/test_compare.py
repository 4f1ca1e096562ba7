"""Verdicts on synthetic records whose answer is known."""

import json

import numpy as np
import pytest
from scipy import stats

import learndyn as ld
from learndyn.analysis import mean_and_error
from learndyn.records import Outcome, join, make_record

TIMES = np.linspace(0, 1, 6)
CURVE = np.exp(-TIMES)
SYSTEM = {"kind": "System", "rule": {"kind": "SGD", "learning_rate": 0.1}, "sizes": [3, 4]}


def record(values, outcomes=None, runs=True, dtype="float64", times=TIMES):
    dims = ("run", "time") if runs else ("time",)
    outcomes = outcomes or [Outcome("finished", np.nan)] * (len(values) if runs else 1)
    return make_record(
        {"error": (dims, np.asarray(values), {})},
        times=times,
        steps=np.rint(100 * times).astype(int),
        time_unit="steps / N",
        lead={"run": len(values)} if runs else {},
        outcomes=outcomes,
        attributes={"size": 100, "dtype": dtype, "system": json.dumps(SYSTEM)},
    )


def noisy(runs, spread, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return record(CURVE + shift + spread * rng.standard_normal((runs, len(TIMES))))


THEORY = record(CURVE, runs=False)
PREDICTED = THEORY.assign(error_std=("time", np.full(len(TIMES), 0.02)))


def test_a_true_theory_agrees():
    found = ld.compare(THEORY, noisy(20, 0.1))
    assert found.verdict == "agrees"
    assert found.largest_z < found.allowed_z
    assert "largest |z|" in found.reason and found.runs == 20


def test_runs_without_random_numbers_that_differ_are_an_ensemble():
    """Networks from starts of their own, whose rule does not sample; equal ones are one run."""
    apart = noisy(20, 0.1).assign_attrs(generator="none")
    found = ld.compare(THEORY, apart)
    assert found.verdict == "agrees" and "20 runs" in found.reason
    equal = record(np.tile(CURVE, (20, 1))).assign_attrs(generator="none")
    assert ld.compare(THEORY, equal).reason.startswith("largest relative deviation")
    off = ld.compare(THEORY, record(np.tile(1.1 * CURVE, (20, 1))).assign_attrs(generator="none"))
    assert off.verdict == "deviates"


def test_compared_variables_are_labelled():
    attributes = {"long_name": "loss", "units": "J"}
    theory = THEORY.assign(error=THEORY.error.assign_attrs(attributes))
    found = ld.compare(theory, noisy(3, 0.1))
    assert found.error_deviation.attrs["units"] == found.error_spread.attrs["units"] == "J"
    assert found.error_z.attrs == {
        "long_name": "loss: mean over runs less theory, in standard errors",
        "units": "1",
    }
    assert found.time.attrs == THEORY.time.attrs


def test_a_notebook_shows_the_verdict_first():
    shown = ld.compare(THEORY, noisy(20, 0.1))._repr_html_()
    assert shown.startswith("<table><caption>agrees: largest |z|") and "<th>error</th>" in shown


def test_false_alarms_are_as_rare_as_promised():
    alarms = sum(ld.compare(THEORY, noisy(8, 0.02, seed=s)).verdict != "agrees" for s in range(300))
    assert alarms <= 10  # 1 % of 300 expected; more than 10 has probability 3e-4


def test_a_small_bias_is_told_from_a_large_one():
    assert ld.compare(THEORY, noisy(400, 0.05, shift=0.02)).verdict == "agrees within finite size"
    assert ld.compare(THEORY, noisy(400, 0.05, shift=0.2)).verdict == "deviates"


def test_more_than_chance_but_not_more_than_finite_size_decides_nothing():
    noise = np.random.default_rng(0).standard_normal((20, len(TIMES)))
    noise -= noise.mean(axis=0)  # so that the mean deviates by the shift itself, in spreads
    shifted = lambda spreads: ld.compare(PREDICTED, record(CURVE + 0.02 * (noise + spreads)))
    chance = stats.norm.isf(0.005 / len(TIMES)) / 20**0.5
    assert shifted(0.9 * chance).verdict == "agrees"
    assert shifted(0.9).verdict == "agrees within finite size"
    between = shifted(1 + 0.9 * chance)
    assert between.verdict == "undecided"
    assert "not outside the spread of one run by more than chance" in between.reason
    assert shifted(1 + 1.1 * chance).verdict == "deviates"


def test_deviation_and_its_scales():
    found = ld.compare(THEORY, record(np.stack([CURVE + 0.1, CURVE + 0.3])))
    np.testing.assert_allclose(found.error_deviation, 0.2)
    np.testing.assert_allclose(found.error_z, 2.0)  # standard error of (0.1, 0.3) is 0.1
    np.testing.assert_allclose(found.error_scaled, 0.2 * 10 / 1.0)


def test_one_run_decides_nothing():
    assert ld.compare(THEORY, noisy(1, 0.1)).verdict == "undecided"


def test_a_predicted_spread_serves_one_run():
    found = ld.compare(PREDICTED, noisy(1, 0.02))
    assert found.verdict == "agrees" and "band predicted by the theory" in found.reason
    assert found.allowed_z == pytest.approx(stats.norm.isf(0.005 / len(TIMES)))
    assert ld.compare(PREDICTED, noisy(1, 0.02, shift=0.2)).verdict == "deviates"
    assert "band from the runs" in ld.compare(THEORY, noisy(20, 0.1)).reason


def test_a_predicted_spread_needs_no_variance_of_the_runs():
    found = ld.compare(PREDICTED, record(np.stack([CURVE + 0.02, CURVE + 0.06])))
    np.testing.assert_allclose(found.error_z, 0.04 / (0.02 / 2**0.5))  # not those of the runs
    np.testing.assert_allclose(found.error_spread, 0.02)


@pytest.mark.slow
def test_a_predicted_spread_keeps_the_promised_rate_of_alarms():
    alarms = [ld.compare(PREDICTED, noisy(1, 0.02, seed=s)).verdict != "agrees" for s in range(300)]
    assert sum(alarms) <= 10  # 1 % of 300 expected; more than 10 has probability 3e-4


def test_where_no_spread_is_predicted_rounding_decides():
    theory = THEORY.assign(error_std=("time", 0.02 * (TIMES > 0)))  # a common start: 0 at time 0
    run = noisy(1, 0.02 * (TIMES > 0))
    assert ld.compare(theory, run).verdict == "agrees"
    run["error"][0, 0] += 1e-9
    assert ld.compare(theory, run).verdict == "deviates"


def test_many_runs_see_the_bias_of_finite_size_under_a_predicted_spread():
    found = ld.compare(PREDICTED, noisy(400, 0.02, shift=0.01))
    assert found.verdict == "agrees within finite size"


def with_small(record, error):
    """A record with a variable a thousand times smaller than its error, off by `error` at 0."""
    small = 1e-3 * record["error"] + error * (record["time"] == 0)
    std = {"small_std": 1e-3 * record["error_std"]} if "error_std" in record else {}
    return record.assign(small=small, **std)


def test_rounding_of_a_small_variable_is_that_of_the_large_terms_it_is_made_of():
    theory = with_small(THEORY.assign(error_std=("time", 0.02 * (TIMES > 0))), 0.0)
    run = noisy(1, 0.02 * (TIMES > 0))
    found = ld.compare(theory, with_small(run, 1e-15))  # 500 ε of the small one
    assert found.verdict == "agrees" and found.small_z[0] < 1
    assert ld.compare(theory, with_small(run, 1e-12)).verdict == "deviates"


def test_the_detectable_deviation_is_stated():
    found = ld.compare(PREDICTED, noisy(4, 0.02))
    # The curve's largest value is 1, the standard error 0.02 / √4.
    assert found.detectable == pytest.approx(found.allowed_z * 0.01)
    seen = "; a deviation of 3.1 % of the curve of error would have been seen"
    assert found.verdict == "agrees" and seen in found.reason
    weak = ld.compare(PREDICTED.assign(error_std=4 * PREDICTED.error_std), noisy(1, 0.08))
    assert weak.verdict == "undecided" and weak.detectable == pytest.approx(weak.allowed_z * 0.08)
    assert (
        "a deviation of 10 % of the curve of error could not have been seen, 25 % could"
        in weak.reason
    )


@pytest.mark.parametrize("runs", [2, 3])
def test_few_runs_do_not_agree_with_a_wrong_theory(runs):
    teacher, student = ld.Committee(2, "linear"), ld.Committee(2, "linear")
    problem = ld.TeacherStudent(ld.Isotropic(200), teacher)
    system = ld.System(problem, student, ld.SGD(0.5))
    wrong = ld.System(problem, student, ld.SGD(0.4))
    times = np.linspace(0, 4, 9)
    for key in range(5):
        start = ld.start(system, key=key)
        networks = ld.simulate(system, times, start=start, runs=runs, key=key, method="reduced")
        verdict = ld.compare(
            ld.solve(wrong, times, start=start), networks, same_system=False
        ).verdict
        assert verdict in ("undecided", "deviates")


def test_a_spread_too_wide_for_linear_noise_is_not_used():
    wide = THEORY.assign(error_std=("time", np.full(len(TIMES), 0.3)))
    found = ld.compare(wide, noisy(400, 0.3))
    reason = "linear noise cannot hold, the predicted spread of error reaches 30 %"
    assert found.verdict == "agrees" and "band from the runs (Student's t" in found.reason
    assert reason in found.reason
    one = ld.compare(wide, noisy(1, 0.3))
    assert one.verdict == "undecided" and reason in one.reason


def test_noise_that_is_not_linear_may_shift_the_mean_by_some_spreads():
    for theory in (THEORY, THEORY.assign(error_std=("time", np.full(len(TIMES), 0.2)))):
        shifted = ld.compare(theory, noisy(400, 0.2, shift=0.3))
        assert shifted.verdict == "undecided" and "linear noise cannot hold" in shifted.reason
        assert "not outside 3 spreads of one run by more than chance" in shifted.reason
        assert ld.compare(theory, noisy(400, 0.2, shift=0.8)).verdict == "deviates"


def test_a_curve_that_has_converged_does_not_hide_a_weak_test():
    spread = np.array([1e-4, 0.02, 1e-4, 1e-4, 1e-4, 1e-4])  # wide at one early time only
    found = ld.compare(THEORY, noisy(3, spread))
    assert found.verdict == "undecided" and found.detectable > 0.1


def test_runs_that_spread_more_than_predicted_are_judged_by_their_own_spread():
    runs = noisy(40, 0.06)
    found = ld.compare(PREDICTED, runs)
    assert "linear noise does not hold, the runs spread 3" in found.reason
    np.testing.assert_allclose(found.error_z, ld.compare(THEORY, runs).error_z)
    assert found.verdict == "agrees"


def test_runs_that_spread_less_than_predicted_are_said_to():
    found = ld.compare(PREDICTED, noisy(40, 0.006))
    assert found.verdict == "agrees" and "band predicted by the theory" in found.reason
    assert ": the runs spread 0." in found.reason
    np.testing.assert_allclose(found.error_spread, 0.02)


def test_rounding_is_not_a_deviation():
    exact = record(np.repeat(CURVE[None].astype("float32"), 3, axis=0), dtype="float32")
    assert ld.compare(THEORY, exact).verdict == "agrees"


def test_divergence_counts():
    gone = [Outcome("diverged", 0.5)] * 2
    lost = record(np.full((2, len(TIMES)), np.nan), gone)
    assert ld.compare(THEORY, lost).verdict == "deviates"
    both = record(CURVE, [Outcome("diverged", 0.4)], runs=False)
    assert ld.compare(both, lost).verdict == "agrees"
    mixed = [Outcome("finished", np.nan), Outcome("finished", np.nan), gone[0]]
    one = record(np.stack([CURVE, CURVE + 0.01, CURVE * np.nan]), mixed)
    found = ld.compare(THEORY, one)
    assert found.runs == 2 and "1 of 3 runs diverged" in found.reason


def test_times_are_matched():
    later = record(np.stack([CURVE[::2]] * 2), times=TIMES[::2])
    assert ld.compare(THEORY, later).sizes["time"] == 3
    with pytest.raises(ValueError, match="no time of the theory"):
        ld.compare(THEORY, record(np.stack([CURVE] * 2), times=TIMES + 0.05))
    with pytest.raises(ValueError, match="no variable"):
        ld.compare(THEORY, later.rename(error="loss"))


def test_close_times_are_not_one():
    early = TIMES * 1e-9
    found = ld.compare(record(CURVE, runs=False, times=early), record([CURVE] * 2, times=early))
    assert found.sizes["time"] == len(TIMES)
    np.testing.assert_array_equal(found.error_deviation, 0)


def changed(record, **fields):
    return record.assign_attrs(system=json.dumps({**SYSTEM, **fields}))


def test_two_systems_are_told_apart():
    other = changed(noisy(20, 0.1), rule={"kind": "SGD", "learning_rate": 0.2})
    said = r"simulation: its system differs in rule\.learning_rate \(0\.1 against 0\.2\); allowed"
    with pytest.raises(ValueError, match=said):
        ld.compare(THEORY, other)
    assert ld.compare(THEORY, other, same_system=False).verdict == "agrees"


def test_differences_of_systems_are_named_three_at_most():
    hashed = {"shape": [9, 9], "sha256": "0123456789abcdef"}
    given = changed(noisy(2, 0.1), sizes=[5, 4], x=hashed, rule={"kind": "Adam"}, y=1, z=2)
    said = r"rule \(SGD against Adam\), sizes\[0\] \(3 against 5\), x \(absent against an array"
    with pytest.raises(ValueError, match=said + r" of shape \(9, 9\) #01234567\) and 2 more;"):
        ld.compare(THEORY, given)
    said = r"sizes \(2 entries against 3 entries\); allowed are records of one system, or same_"
    with pytest.raises(ValueError, match=said):
        ld.compare(THEORY, changed(noisy(2, 0.1), sizes=[3, 4, 5]))
    nan = changed(noisy(2, 0.1), x=float("nan"))
    assert ld.compare(changed(THEORY, x=float("nan")), nan).runs == 2  # NaN is no difference


def test_other_sizes_and_units_and_what_is_no_record():
    runs = noisy(3, 0.1)
    steps = runs.assign_coords(time=runs.time.assign_attrs(unit="steps"))
    for same in (True, False):
        with pytest.raises(ValueError, match=r"its time is in 'steps', that of theory in 'steps /"):
            ld.compare(THEORY, steps, same_system=same)
    foreign = runs.drop_attrs()
    with pytest.raises(ValueError, match="simulation: got no attribute 'size'; allowed are"):
        ld.compare(THEORY, foreign)
    with pytest.raises(ValueError, match=r"simulation: got no attribute 'system'; .*same_system="):
        ld.compare(THEORY, foreign.assign_attrs(size=100))
    assert ld.compare(THEORY, foreign.assign_attrs(size=100), same_system=False).runs == 3
    with pytest.raises(ValueError, match="theory: got no coordinate 'time'; allowed"):
        ld.compare(THEORY.drop_vars(["time", "step"]), runs)
    with pytest.raises(ValueError, match="theory: got no variable 'outcome' and no attribute"):
        ld.compare(join(theory=THEORY).drop_vars("step"), runs)
    wide = runs.assign(error=runs.error.expand_dims(student=2))
    with pytest.raises(ValueError, match="simulation: got error of sizes"):
        ld.compare(THEORY, wide)


def test_runs_are_compared_with_a_theory_only():
    with pytest.raises(ValueError, match="theory: got a record of runs; allowed is a record of"):
        ld.compare(noisy(3, 0.1), noisy(3, 0.1))
    with pytest.raises(ValueError, match="simulation: got no dimension 'run'; allowed is"):
        ld.compare(THEORY, THEORY)


def test_no_number_decides_nothing():
    empty = THEORY.assign(error=THEORY.error * np.nan)
    for theory, runs in [(empty, noisy(3, 0.1)), (THEORY, record(np.full((3, 6), np.nan)))]:
        for given in (runs, runs.assign_attrs(generator="none")):
            found = ld.compare(theory, given)
            assert found.verdict == "undecided" and found.reason.startswith("no entry is a number")
            assert np.isnan(found.largest_z)


def test_a_variable_without_numbers_is_left_out_and_named():
    theory, runs = (r.assign(Q=r.error * np.nan) for r in (THEORY, noisy(20, 0.1)))
    found = ld.compare(theory, runs.assign(Q=runs.error))
    assert found.verdict == "agrees" and found.reason.endswith("; no number in both: Q")
    assert ld.compare(theory, noisy(400, 0.1, shift=0.3).assign(Q=runs.Q)).verdict == "deviates"


def test_a_common_start_decides_nothing():
    theory, runs = THEORY.isel(time=[0]), record(np.stack([CURVE] * 3))
    found = ld.compare(theory, runs)
    assert found.verdict == "undecided" and "time 0 is the only common time" in found.reason
    moved = runs.assign(error=runs.error + 0.1)  # another start is a deviation still
    assert ld.compare(theory, moved).verdict == "deviates"


def test_mean_and_error():
    mean, error = mean_and_error(record(np.stack([CURVE, CURVE + 2]))["error"])
    np.testing.assert_allclose(mean, CURVE + 1)
    np.testing.assert_allclose(error, 1.0)


@pytest.mark.statistical
def test_theory_agrees_with_networks_and_a_wrong_theory_does_not():
    data = ld.TeacherStudent(ld.Isotropic(400), ld.Committee(2, "erf"), label_noise=0.2)
    system = ld.System(data, ld.Committee(2, "erf"), ld.SGD(1.5))
    begin, times = ld.start(system, key=1), [0, 1, 2, 4, 8]
    runs = ld.simulate(system, times, start=begin, runs=24, key=2)
    assert ld.compare(ld.solve(system, times, start=begin), runs).verdict.startswith("agrees")
    flow = ld.solve(system, times, start=begin, order="flow")  # without the η² term
    assert ld.compare(flow, runs).verdict == "deviates"


@pytest.mark.slow
@pytest.mark.parametrize("key", [0, 1, 2])
def test_a_plateau_left_at_random_times_is_beyond_linear_noise(key):
    """K = 3, M = 2, N = 500: the predicted band would reject a correct theory, |z| about 70."""
    teacher = ld.Committee(2, "erf", scale=2**-0.5, init=ld.Orthonormal(1.0))
    student = ld.Committee(3, "erf", scale=2**0.5 / 3, init=ld.Normal(0.01))
    problem = ld.TeacherStudent(ld.Isotropic(500), teacher)
    system, times = ld.System(problem, student, ld.SGD(1.5)), np.linspace(0, 800, 161)
    start = ld.start(system, key=key)
    theory = ld.solve(system, times, start=start, fluctuations=True)
    runs = ld.simulate(system, times, start=start, runs=8, key=key + 10, method="reduced")
    found = ld.compare(theory, runs)
    assert found.verdict != "deviates" and "8 runs" in found.reason
    assert "linear noise cannot hold, the predicted spread" in found.reason
    names = [name for name in theory.data_vars if not str(name).endswith("_std")]
    measured = ld.compare(theory[names], runs)
    assert measured.verdict != "deviates"
    # How far eight runs spread depends on the key: at key 0 by less than a tenth.
    letters = ("Q", "R", "error")
    spread = max(float(runs[name].std("run", ddof=1).max()) for name in letters)
    wide = spread > 0.1 * max(float(np.abs(theory[name]).max()) for name in letters)
    assert ("linear noise cannot hold, the spread of the runs" in measured.reason) is wide
