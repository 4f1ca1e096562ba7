"""The engine: one compilation a shape, divergence as a result, times as asked."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.runtime.precision import full_precision
from learndyn.solving.integrate import _advance, _begin
from learndyn.theory.dynamics import Explicit


def quadratic(eta, N=500, p=3, p_star=2):
    teacher = ld.Committee(p_star, "quadratic", scale=1 / p_star, init=ld.Orthonormal(1.0))
    data = ld.TeacherStudent(ld.Isotropic(N), teacher, loss_scale=1.0)
    return ld.System(data, ld.Committee(p, "quadratic", scale=1 / p), ld.SGD(eta))


def test_record_is_labelled():
    record = ld.solve(quadratic(0.1), [0, 1, 2.5])
    assert record.time.attrs["unit"] == "steps / N"
    np.testing.assert_array_equal(record.step, [0, 500, 1250])
    assert record.Q.dims == ("time", "student", "student'")
    assert record.R.dims == ("time", "student", "teacher")
    assert record.error.attrs["long_name"] == "generalisation error"
    assert record.attrs["size"] == 500 and record.attrs["order"] == "full"
    assert ld.System.from_json(record.attrs["system"]).to_json() == quadratic(0.1).to_json()


def test_start_holds_at_time_zero_whatever_the_first_time():
    system, begin = quadratic(0.1), None
    begin = ld.start(system, key=3)
    late = ld.solve(system, [20.0], start=begin)
    whole = ld.solve(system, [0.0, 10.0, 20.0], start=begin)
    np.testing.assert_allclose(late.R[0], whole.R[2], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(whole.R[0], begin.state.R[0], rtol=1e-14)
    only = ld.solve(system, [0.0], start=begin)
    np.testing.assert_allclose(only.Q[0], begin.state.Q[0], rtol=1e-14)


def test_error_follows_the_tolerance():
    system = quadratic(0.1)
    begin, times = ld.start(system, key=1), [10.0, 40.0]
    exact = ld.solve(system, times, start=begin, rtol=1e-13, atol=1e-15)
    for rtol in (1e-5, 1e-8):
        off = np.abs(ld.solve(system, times, start=begin, rtol=rtol, atol=rtol).Q - exact.Q)
        assert float(off.max()) < 30 * rtol  # local errors add up over tens of steps


def test_divergence_is_a_result():
    record = ld.solve(quadratic(5.0), np.linspace(0, 50, 11))
    assert str(record.outcome.values) == "diverged"
    end = float(record.diverged_at)
    assert 0 < end < 50
    alive = record.time.values < end
    assert np.all(np.isfinite(record.error.values[alive]))
    assert np.all(np.isnan(record.error.values[~alive]))


def test_flow_is_the_limit_of_small_learning_rates():
    times = np.array([0.0, 1.0, 5.0])
    begin = ld.start(quadratic(0.1), key=2)
    gaps = []
    for eta in (0.02, 0.01):
        system = quadratic(eta)
        full = ld.solve(system, times / eta, start=begin)
        flow = ld.solve(system, times / eta, start=begin, order="flow")
        gaps.append(float(np.abs(full.Q - flow.Q).max()))
    assert 1.7 < gaps[0] / gaps[1] < 2.3  # the difference is of first order in η


def programs():
    return _advance._cached._cache_size()


def test_compiles_once_for_all_learning_rates_spectra_starts_times_and_noises():
    def make(eta, values, noise):
        teacher = ld.Committee(2, "erf")
        data = ld.TeacherStudent(ld.Spectrum(values, [30, 30]), teacher, label_noise=noise)
        return ld.System(data, ld.Committee(2, "erf"), ld.SGD(eta))

    ld.solve(make(0.1, [1.5, 0.5], 0.0), [0, 1, 2])
    before = programs()
    ld.solve(make(0.2, [1.2, 0.8], 0.3), np.linspace(0, 3, 20), key=5, rtol=1e-7)
    assert programs() == before


def test_compiles_once_for_all_powers_between_0_and_1():
    def error(power):
        data = ld.TeacherStudent(ld.Isotropic(5), ld.LinearTeacher(3, np.eye(3, 5)))
        network = ld.DeepLinear([5, 4, 3], init=ld.Aligned(np.full((3, 2), 0.3)))
        system = ld.System(data, network, ld.NaturalGradient(0.1, power=power))
        return float(ld.solve(system, [0.0, 1.0], order="flow", states=True).error[1])

    first, before = error(0.5), programs()
    assert error(0.25) > first > error(0.75) and programs() == before


@pytest.mark.parametrize("order", ["full", "finite"])
def test_progress_ends_at_one(order):
    seen = []
    ld.solve(quadratic(0.1), np.linspace(0, 50, 6), order=order, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == 1.0 and len(seen) > 2


def test_progress_changes_no_number():
    system, times = quadratic(0.1), np.linspace(0, 50, 6)
    shown = ld.solve(system, times, progress=lambda fraction: None)
    assert np.array_equal(shown.Q, ld.solve(system, times).Q)


def test_the_compiled_program_does_not_call_python():
    """JAX keeps no program that does in its persistent cache."""
    theory = ld.theory_of(quadratic(0.1))
    state, times = ld.start(quadratic(0.1)).state, np.array([0.0, 1.0])
    about = theory, theory.dynamics("full"), Explicit(state), times, *np.ones(3), False
    with full_precision():
        walk = _begin(*about)
        program = _advance.lower(walk, *about, np.int64(2), np.int64(10)).as_text()
    assert "while" in program and "callback" not in program


def test_a_tolerance_that_cannot_be_met_is_a_result():
    """1e-300 is below rounding: steps shrink until they are lost in the time."""
    record = ld.solve(quadratic(0.1), [0.0, 10.0], rtol=1e-300, atol=1e-300)
    assert str(record.outcome.values) == "tolerance not reached"
    assert np.isfinite(record.error[0]) and np.isnan(record.error[1])


def test_a_map_diverges_at_a_time():
    record = ld.solve(quadratic(5.0), np.linspace(0, 50, 11), order="finite")
    end = float(record.diverged_at)
    assert end in record.time.values
    assert np.all(np.isnan(record.error.values[record.time.values >= end]))


def test_a_map_is_not_iterated_for_days():
    said = r"\Atimes: got 1e\+12, which is step 5e\+14 of a map[^\n]*; allowed are steps up to 1e"
    with pytest.raises(ValueError, match=said):
        ld.solve(quadratic(0.1), [0, 1e12], order="finite")


def test_refusals_list_what_is_allowed():
    """Of orders, noise and theories, by the theory itself."""
    committee = quadratic(0.1)
    data, rule = ld.Dataset(np.ones((1, 1)), np.ones(1)), ld.GradientDescent(0.1)
    linear = ld.System(data, ld.MLP([1, 2, 1], "linear"), rule)
    cases = [
        (
            lambda: ld.solve(committee, [0, 1], order="finite", fluctuations=True),
            "fluctuations: got True, but order='finite' is a map, whose noise is not known; "
            "allowed is order='full' or 'flow'",
        ),
        (
            lambda: ld.solve(linear, [0, 1], fluctuations=True),
            "fluctuations: got True, but the quadratic model theory states no diffusion; "
            "allowed is False",
        ),
        (
            lambda: ld.solve(committee, [0, 1], theory="quadratic model"),
            "allowed is 'committee' for this system",
        ),
        (
            lambda: ld.theory_of(committee).drift(ld.start(committee).state, "finite"),
            "order: got 'finite', which is no flow of the committee theory; "
            "allowed is 'full' or 'flow'",
        ),
    ]
    for call, said in cases:
        with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
            call()
        assert said in str(caught.value)
