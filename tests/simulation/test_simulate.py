"""The direct engine: reproducible, bounded, honest about what ran."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import learndyn as ld
from learndyn.numerics.generators import generator


def system(eta=0.5, N=60, activation="erf", **rule):
    data = ld.TeacherStudent(ld.Isotropic(N), ld.Committee(2, activation), label_noise=0.1)
    return ld.System(data, ld.Committee(2, activation), ld.SGD(eta, **rule))


def simulate(it, times, **options):
    return ld.simulate(it, times, method="direct", **options)


def test_record_is_labelled():
    record = simulate(system(), [0, 1, 2.5], runs=3)
    assert record.Q.dims == ("run", "time", "student", "student'")
    assert record.R.dims == ("run", "time", "student", "teacher")
    np.testing.assert_array_equal(record.step, [0, 60, 150])
    assert record.attrs["dtype"] == "float32" and record.attrs["method"] == "direct"
    assert record.attrs["generator"] == "SplitMix64"
    assert list(record.outcome.values) == ["finished"] * 3


def test_a_run_does_not_depend_on_the_others():
    few, many = (simulate(system(), [1, 4], runs=r, key=7) for r in (2, 5))
    np.testing.assert_array_equal(few.R, many.R[:2])
    assert np.all(np.std(many.R.values, axis=0) > 0)


def test_a_run_does_not_depend_on_the_times_asked_for():
    often = simulate(system(), [0.5, 1, 2, 3], key=7)
    once = simulate(system(), [3], key=7)
    np.testing.assert_array_equal(often.R[:, -1], once.R[:, -1])


def test_first_step_is_update():
    it = system(activation="quadratic", eta=0.1)
    begin = ld.start(it, key=2)
    one = simulate(it, [1 / 60], start=begin, key=3, dtype="float64")
    weights = ld.update(it, begin.weights, teacher=begin.teacher, key=3)
    assert weights.dtype == np.float64
    # `update` with key k draws what run 0 of the seed k draws at its first step.
    np.testing.assert_allclose(
        ld.theory_of(it).project(weights, begin.teacher).R[0], one.R[0, 0], rtol=1e-13
    )
    single = begin.weights.astype(np.float32)
    assert ld.update(it, single, teacher=begin.teacher, key=3).dtype == np.float32


def test_batch_is_the_mean_over_examples():
    it, double = system(), system(batch=4)
    begin = ld.start(it, key=0)
    spread = lambda s: simulate(s, [1], start=begin, runs=40).R.std("run").mean().values
    # Four examples a step halve the noise of a step; 40 runs know a spread to 11 %.
    assert spread(double) / spread(it) == pytest.approx(0.5, rel=0.35)


def test_precisions_agree():
    it = system(N=100)
    begin = ld.start(it, key=0)
    a, b = (simulate(it, [5], start=begin, runs=64, key=1, dtype=d) for d in
            ("float32", "float64"))  # fmt: skip
    error = np.hypot(a.R.std("run"), b.R.std("run")) / 8
    assert np.all(np.abs(a.R.mean("run") - b.R.mean("run")) < 4.5 * error)


def test_precisions_are_named_as_numpy_and_jax_name_them():
    it = system()
    ways = {"float32": (jnp.float32,), "float64": (np.float64, np.dtype("float64"))}
    for name, others in ways.items():
        named = simulate(it, [1], dtype=name)
        for other in (simulate(it, [1], dtype=way) for way in others):
            assert other.attrs["dtype"] == name
            np.testing.assert_array_equal(other.R, named.R)
    for bad in (None, "float16", np.int32, jnp.bfloat16, 64, "double trouble", {}):
        with pytest.raises(ValueError, match=r"\Adtype: got .*; allowed is one of 'float32', '.*"):
            simulate(it, [1], dtype=bad)


def test_divergence_is_a_result():
    record = simulate(system(eta=4.0, activation="quadratic"), [0, 5, 10, 20], runs=2)
    assert set(record.outcome.values) == {"diverged"}
    for run in range(2):
        gone = record.time.values >= float(record.diverged_at[run])
        assert np.all(np.isnan(record.error[run, gone]))
        assert np.all(np.isfinite(record.error[run, ~gone]))


def test_without_a_theory_the_error_is_held_out():
    data = ld.TeacherStudent(ld.Isotropic(30), ld.Committee(1, "linear"), label_noise=0.2)
    mixed = ld.System(data, ld.Committee(3, "erf"), ld.Optax(optax.sgd(0.2), batch=1))
    record = ld.simulate(mixed, [0, 20], runs=2)
    assert "held-out" in record.attrs["error_from"] and "Q" not in record
    assert np.all(record.error[:, 1] < 0.5 * record.error[:, 0])
    begin = ld.start(mixed, key=0)
    x = np.random.default_rng(0).standard_normal((20_000, 30))
    h = x @ begin.weights.T / np.sqrt(30)
    from scipy.special import erf

    loss = 0.5 * (x @ begin.teacher[0] / np.sqrt(30) - erf(h / np.sqrt(2)).sum(1)) ** 2
    error = loss.std() * np.sqrt(1 / 20_000 + 1 / 4096)
    assert abs(loss.mean() - float(record.error[0, 0])) < 4.5 * error


@pytest.mark.parametrize(
    "rule", [ld.GradientDescent(0.2), ld.NaturalGradient(0.2), ld.Optax(optax.sgd(0.2))]
)
def test_descent_on_an_unknown_population_is_refused(rule):
    data = ld.TeacherStudent(ld.Isotropic(30), ld.Committee(1, "linear"))
    with pytest.raises(ValueError, match=r"\Arule: got [^\n]*; allowed are deep linear [^\n]*\Z"):
        ld.System(data, ld.MLP([30, 3, 1], "erf"), rule)


def test_times_between_steps_are_told_once():
    said = "simulate: 2 times lie between steps; 0.012 stands for step 1, which is time 0.01666"
    with pytest.warns(UserWarning, match=said) as told:
        record = simulate(system(), [0, 0.012, 0.03, 1], runs=2)
    assert len(told) == 1
    np.testing.assert_array_equal(record.time, [0, 0.012, 0.03, 1])
    assert record.step[-1] == 60


def test_probes_see_the_weights():
    probes = {
        "norms": lambda model: np.sum(model.weights**2, axis=1) / model.weights.shape[1],
        "first": lambda model: model.weights[0, 0],
    }
    record = simulate(system(), [0, 1], runs=2, probes=probes)
    assert record.norms.dims == ("run", "time", "norms_0")
    np.testing.assert_allclose(record.norms, np.diagonal(record.Q, axis1=2, axis2=3), rtol=1e-5)
    assert record["first"].dims == ("run", "time")


def test_progress_ends_at_one():
    seen = []
    simulate(system(), [0, 2], runs=3, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == pytest.approx(1.0)


def test_memory_does_not_grow_with_the_number_of_steps(peak_memory):
    """The inputs of 60 000 steps at N = 2000 would take 480 MB in float32."""
    it = system(N=2000)
    simulate(it, [1])
    assert peak_memory(lambda: simulate(it, [30])) < 50


def test_the_measure_of_memory_sees_what_xla_holds(peak_memory):
    assert peak_memory(lambda: jnp.ones(2**25).block_until_ready()) > 120  # of 128 MB


def other_sizes():
    """A start of another dimension and one of another width."""
    wide = ld.System(system().problem, ld.Committee(5, "erf"), ld.SGD(0.5))
    return {"dimension": ld.start(system(N=50), key=1), "width": ld.start(wide, key=1)}


@pytest.mark.parametrize(
    ("what", "method"),  # a state says nothing of the dimension: only weights do
    [("dimension", "direct"), ("width", "direct"), ("width", "reduced"), ("width", "solve")],
)
def test_a_start_of_another_size_is_refused(what, method):
    start = other_sizes()[what]
    act = ld.solve if method == "solve" else lambda *a, **k: ld.simulate(*a, method=method, **k)
    with pytest.raises(ValueError, match=r"\A(weights|state): got [^\n]*; allowed is [^\n]*\Z"):
        act(system(), [0, 1], start=start)


@pytest.mark.parametrize("act", [ld.solve, ld.simulate])
def test_times_past_the_last_step_number_are_refused(act):
    with pytest.raises(ValueError, match=r"\Atimes: got 1e\+30, which is step [^\n]*\Z"):
        act(system(), [0, 1e30])


@pytest.mark.parametrize("key", [-1, 2**63, True, 10**30])
def test_one_check_of_keys(key):
    it = system()
    weights = ld.start(it).weights
    for act in (
        lambda: ld.start(it, key=key),
        lambda: ld.solve(it, [1], key=key),
        lambda: ld.simulate(it, [1], key=key),
        lambda: ld.update(it, weights, teacher=weights, key=key),
    ):
        with pytest.raises(ValueError, match=r"\Akey: got [^\n]*allowed[^\n]*\Z"):
            act()


def test_the_largest_key_runs():
    record = simulate(system(), [0, 1], key=2**63 - 1)
    assert np.all(np.isfinite(record.error))
    assert not np.array_equal(record.error, simulate(system(), [0, 1], key=2**31 - 1).error)


def test_a_diverged_network_without_a_theory_is_a_result():
    data = ld.Dataset(np.eye(3), np.ones(3))
    it = ld.System(data, ld.MLP([3, 4, 1], "quadratic"), ld.GradientDescent(1e3))
    record = ld.simulate(it, [0, 1, 5, 20])
    assert str(record.outcome.values[0]) == "diverged" and np.isnan(record.error[0, -1])


def test_philox_gives_the_numbers_of_version_0_1():
    """The error at the end, as that version gave it, to the rounding of 505 steps in float32."""
    teacher = ld.Committee(3, "erf", init=ld.Orthonormal(1.0))
    student = ld.Committee(4, "erf", init=ld.Normal(0.5))
    data = ld.TeacherStudent(ld.Isotropic(101), teacher)
    system, times = ld.System(data, student, ld.SGD(0.5)), [0, 1.0, 5.0]
    options = {"runs": 3, "key": 1, "method": "direct"}
    with generator("Philox4x32-10"):
        record = ld.simulate(system, times, **options)
    assert record.attrs["generator"] == "Philox4x32-10"
    np.testing.assert_allclose(record.error[0, -1], 0.04908879437372583, rtol=1e-4)
    assert abs(float(ld.simulate(system, times, **options).error[0, -1]) / 0.0490888 - 1) > 1e-3
