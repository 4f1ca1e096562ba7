"""Reading in the compiled program: whatever is read, whenever, from whichever start."""

import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.theory import committee, deep_linear


def committee_system(eta=0.5, N=60, activation="erf", rule=ld.SGD):
    data = ld.TeacherStudent(ld.Isotropic(N), ld.Committee(2, activation))
    return ld.System(data, ld.Committee(2, activation), rule(eta))


def small_network(rate=0.1, rule=ld.GradientDescent):
    x = np.random.default_rng(0).normal(size=(8, 3))
    return ld.System(ld.Dataset(x, x[:, :1]), ld.MLP([3, 4, 1], "tanh"), rule(rate))


@pytest.mark.parametrize("make", [committee_system, small_network])
def test_every_step_is_what_single_times_give(make):
    it = make()
    unit = it.dim if make is committee_system else 1
    every = ld.simulate(it, np.arange(601) / unit, method="direct", key=3)
    some = ld.simulate(it, np.array([0, 7, 300, 600]) / unit, method="direct", key=3)
    np.testing.assert_array_equal(every.error.values[:, [0, 7, 300, 600]], some.error.values)
    assert every.attrs["steps_per_second"] > 0


def test_probes_are_traced_where_they_can_be():
    seen, factor = [], [1.0]

    def traced(model):
        seen.append(type(model.weights))
        return factor[0] * jnp.sum(model.weights**2)

    probes = {
        "traced": traced,
        "outside": lambda model: np.linalg.norm(np.asarray(model.weights)) ** 2,
        "rank": lambda model: float(np.linalg.matrix_rank(model.weights)),
    }
    times = np.arange(5)
    record = ld.simulate(committee_system(), times, runs=2, probes=probes, method="direct")
    assert record.attrs["read_between_pieces"] == "outside, rank"
    np.testing.assert_allclose(record["traced"], record["outside"], rtol=1e-5)
    assert len(seen) < 4 and record["traced"].dims == ("run", "time")
    assert np.all(record["rank"] == 2)
    factor[0] = 3.0
    again = ld.simulate(
        committee_system(), times, runs=2, probes={"traced": traced}, method="direct"
    )
    np.testing.assert_allclose(again["traced"], 3 * record["traced"], rtol=1e-6)
    assert "read_between_pieces" not in again.attrs


def test_probes_do_not_see_diverged_weights():
    it = committee_system(eta=4.0, activation="quadratic")
    probes = {"largest": lambda model: np.linalg.svd(np.asarray(model.weights))[1][0]}
    record = ld.simulate(it, [0, 5, 20], runs=2, probes=probes, method="direct")
    assert set(record.outcome.values) == {"diverged"}
    assert np.all(record["largest"][:, 0] > 0) and np.all(np.isnan(record["largest"][:, -1]))


def test_several_starts_are_compared_one_by_one():
    it = committee_system()
    start = ld.start(it)
    theory = ld.solve(it, [0, 1], start=start)
    runs = ld.simulate(it, [0, 1], starts=[start, start], runs=2, method="direct")
    for act in (ld.compare, ld.plot):
        with pytest.raises(ValueError, match=r"\Asimulation: got the dimension 'start'; .*\Z"):
            act(theory, runs)
    assert "verdict" in ld.compare(theory, runs.isel(start=0)).attrs


def growing():
    """A probe that cannot be traced, and returns one number more at each reading."""
    seen = []

    def probe(model):
        seen.append(float(np.asarray(model.weights[0].weight).sum()))
        return seen

    return probe


PROBES = {
    "raises": (lambda model: {}["nothing"], "got KeyError ('nothing'); allowed is a function"),
    "none": (lambda model: None, "got None returned; allowed are real numbers"),
    "text": (lambda model: "large", "got 'large' returned; allowed are real numbers"),
    "dict": (lambda model: {"a": 1.0}, "got {'a': 1.0} returned; allowed are real numbers"),
    "complex": (lambda model: 1j, "got 1j returned; allowed are real numbers"),
    "ragged": (lambda model: [[1.0], [1.0, 2.0]], "got [[1.0], [1.0, 2.0]] returned; allowed are"),
}


@pytest.mark.parametrize("method", ["direct", "flow"])
def test_a_probe_that_fails_is_named(method):
    shapes = "got shape (2,) after (1,); allowed is one shape at all times"
    cases = PROBES if method == "direct" else {"raises": PROBES["raises"]}
    for name, (probe, said) in {**cases, "growing": (growing(), shapes)}.items():
        with pytest.raises(ValueError) as error:
            ld.simulate(small_network(), [0, 1, 2], probes={name: probe}, method=method)
        assert str(error.value).startswith(f"probes[{name!r}]: {said}"), error.value
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError) as error:
        ld.simulate(small_network(), [0], probes={"raises": PROBES["raises"][0]})
    assert isinstance(error.value.__cause__, KeyError)  # where the probe itself failed


def test_a_probe_may_return_what_numpy_takes_for_numbers():
    probes = {
        "pair": lambda model: [jnp.sum(model.weights), 1],
        "truth": lambda model: jnp.sum(model.weights**2) > 0,
        "whole": lambda model: 3,
    }
    record = ld.simulate(committee_system(), [0, 1], probes=probes, method="direct")
    assert record["pair"].shape == (1, 2, 2) and np.all(record["truth"] == 1)
    assert np.all(record["whole"] == 3) and "read_between_pieces" not in record.attrs


@pytest.mark.parametrize("method", ["direct", "reduced", "flow"])
def test_starts_run_as_each_would_alone(method):
    it = committee_system(rule=ld.GradientDescent if method == "flow" else ld.SGD)
    starts = [ld.start(it, key=k) for k in (4, 9, 2)]
    both = ld.simulate(it, [0, 1, 2], starts=starts, runs=2, key=5, method=method)
    assert both.error.dims == ("start", "run", "time") and both.outcome.dims == ("start", "run")
    for number, start in enumerate(starts):
        alone = ld.simulate(it, [0, 1, 2], start=start, runs=2, key=5 + number, method=method)
        np.testing.assert_array_equal(both.R[number], alone.R)


def test_starts_that_are_not_are_refused():
    it = committee_system()
    start = ld.start(it)
    for starts, said in (([], "a list"), ([1], "got an int"), (start, "a list")):
        with pytest.raises(ValueError, match=f"starts: .*{said}"):
            ld.simulate(it, [1], starts=starts)
    with pytest.raises(ValueError, match="starts: got a list and also a start"):
        ld.simulate(it, [1], start=start, starts=[start])


def test_one_rule_of_divergence_on_every_road():
    """A linear student whose error grows as exp(rate · α): all find it at one of two times."""
    data = ld.TeacherStudent(ld.Isotropic(200), ld.Committee(1, "linear"))
    it = ld.System(data, ld.Committee(1, "linear"), ld.SGD(3.0))
    times, start = np.arange(0, 12, 0.25), ld.start(it, key=1)
    ends = [float(ld.solve(it, times, start=start).diverged_at)]
    ends += [
        float(ld.simulate(it, times, start=start, key=k, method=m).diverged_at[0])
        for m in ("direct", "reduced") for k in (1, 2)
    ]  # fmt: skip
    # Q grows as exp(3 α): a factor of 2 by fluctuations is 0.25 of α.
    assert np.ptp(ends) <= 1.0 and np.all(np.isfinite(ends))
    mean = ld.solve(it, times, start=start, order="finite")
    assert abs(float(mean.diverged_at) - ends[0]) <= 0.5


def test_a_network_without_a_theory_diverges_before_it_is_not_a_number():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    linear = ld.System(ld.Dataset(x, x[:, :1]), ld.MLP([3, 1], "linear"), ld.GradientDescent(50.0))
    record = ld.simulate(linear, np.arange(0, 20), dtype="float64")
    assert str(record.outcome.values[0]) == "diverged"
    largest = np.nanmax(record.error.values)
    assert np.isfinite(largest) and largest < 1e14  # weights of 10⁵, loss of their square


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (committee.theory.CommitteeTheory, committee_system),
        (deep_linear.theory.DeepLinearTheory, lambda: ld.System(
            ld.TeacherStudent(ld.Isotropic(3), ld.LinearTeacher(2, np.eye(2, 3))),
            ld.DeepLinear([3, 3, 2]), ld.GradientDescent(0.1))),
    ],
)  # fmt: skip
def test_a_theory_is_looked_up_once_a_call(kind, make, monkeypatch):
    it, count = make(), []
    covers = kind.covers.__func__
    monkeypatch.setattr(
        kind, "covers", classmethod(lambda cls, s: count.append(1) or covers(cls, s))
    )
    ld.simulate(it, [0, 1], method="direct")
    assert len(count) == 1
