"""Landmarks against trained networks, the limit of small catapults, and sensitive starts."""

import importlib.util
import pathlib

import numpy as np
import pytest

import learndyn as ld
from learndyn.theory.quadratic_model.catapult import Regime, follow
from learndyn.theory.quadratic_model.landmarks import NUDGE, STABLE

_here = pathlib.Path(__file__).with_name("conftest.py")
_spec = importlib.util.spec_from_file_location("quadratic_cases", _here)
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)

ONE = np.array([[0.9, -0.4, 1.3]])
COURSE = {"peak_loss", "peak_step", "final_kernel"}


@pytest.mark.parametrize("m", [30, 300, 3000])
def test_landmarks_are_what_trained_twins_do(m):
    """All weights trained, in float64: rounding of 1e-13, by 1e4 as a stable start allows."""
    for delta in (0.05, 0.8, 1.3):
        for y in (0.0, 1.0):
            system, model = cases.drawn("relu", 3, m, ONE, [y], 2 + delta)
            marks = ld.theory_of(system).landmarks()
            begin = ld.start(system, weights=model.weights)
            run = ld.simulate(system, np.arange(700.0), start=begin, dtype="float64").isel(run=0)
            error = run["error"].values
            if str(run.outcome.values) == "diverged":
                assert not COURSE & set(marks)
                continue
            assert float(run["kernel"][-1, 0]) == pytest.approx(marks["final_kernel"], rel=1e-6)
            assert (np.argmax(error) > 0) == ("peak_loss" in marks) == ("peak_step" in marks)
            if np.argmax(error) > 0:
                assert error.max() == pytest.approx(marks["peak_loss"], rel=1e-6)
                assert np.argmax(error) == marks["peak_step"]


def test_a_course_that_ends_in_a_cycle_has_a_peak_and_no_last_kernel():
    """A narrow network with a target, just above 2/λ, trained in float64."""
    system, model = cases.drawn("relu", 3, 20, ONE / 2, [1.0], 2.05, seed=6)
    begin = ld.start(system, weights=model.weights)
    marks = ld.theory_of(system).landmarks(state=begin.state)
    run = ld.simulate(system, np.arange(700.0), start=begin, dtype="float64").isel(run=0)
    kernel, error = run["kernel"].values[:, 0], run["error"].values
    assert kernel[-1] == pytest.approx(kernel[-3]) and kernel[-1] != pytest.approx(kernel[-2])
    assert np.argmax(error) == marks["peak_step"] > 0
    assert error.max() == pytest.approx(marks["peak_loss"], rel=1e-6)
    assert "final_kernel" not in marks


def line(c, y, eta):
    """A linear network on one example with the curvature c, at a rate η on ½ r²."""
    x = np.array([[np.sqrt(2 * c)]])
    return ld.System(cases.half_sum(x, [y]), ld.MLP([1, 2, 1], "linear"), ld.GradientDescent(eta))


def marks_of(c, y, r, v):
    """The landmarks of the residual r and the kernel 1."""
    return ld.theory_of(line(c, y, v)).landmarks(state=ld.Residuals([r], [1.0]))


def test_small_catapults_are_the_limit():
    """Relative errors of the limits fall with δ, as δ."""
    deltas = np.array([0.1, 0.05, 0.025])
    marks = [marks_of(1e-9, 0.0, 1.0, 2 + delta) for delta in deltas]
    ratio = lambda name: np.array([m[f"small_delta_{name}"] / m[name] for m in marks])
    for error in (1 - ratio("peak_loss"), (ratio("final_kernel") - 1) / deltas):
        assert np.all(np.abs(error) < 2 * deltas)
        assert np.all(np.abs(error[1:] / error[:-1] - 0.5) < 2 * deltas[:-1])
    assert np.all(np.abs(ratio("peak_step") - 1) < 2 * deltas)
    assert abs(marks_of(1e-9, 0.0, 1.0, 2.8)["small_delta_final_kernel"] - 1.2 / 2.8) < 1e-12


def test_landmarks_that_depend_too_much_on_the_start_are_left_out():
    """By the map of each start alone: near ηλ = 4 a share of the last kernels is left out."""
    rng = np.random.default_rng(4)
    n, y = 60, 1.0
    v, c = rng.uniform(3.8, 3.99, n), 10.0 ** rng.uniform(-4, -2, n)
    r = rng.standard_normal(n) - y
    marks = [marks_of(*each) for each in zip(c, np.full(n, y), r, v, strict=True)]
    nudged = [(1.0, 1.0)] + [(1 + a * NUDGE, 1 + b * NUDGE) for a in (1, -1) for b in (1, -1)]
    courses = [follow(r * a, b, c, y, v) for a, b in nudged]
    ends = np.all([each.regime == Regime.CATAPULT for each in courses], axis=0)
    for name, values in (
        ("final_kernel", np.array([each.kernel for each in courses])),
        ("peak_loss", np.array([each.peak for each in courses])),
    ):
        moved = np.abs(values / values[0] - 1).max(axis=0)
        clear = ~ends | (
            np.abs(np.log(moved / STABLE)) > 0.7
        )  # not at the edge, which rounding moves
        expected = ends & (moved < STABLE)
        seen = np.array([name in each for each in marks])
        np.testing.assert_array_equal(seen[clear], expected[clear])
        assert np.sum(clear) > 0.8 * n
    assert np.sum(["peak_loss" in each and "final_kernel" not in each for each in marks]) > 3
    assert all("critical_learning_rate" in each for each in marks)


def test_diverging_systems_have_critical_rates_only():
    """Beyond 4/λ, and below it with a target and a large curvature (a width of 10)."""
    for found in (marks_of(0.01, 0.0, 1.0, 4.3), marks_of(0.1, 1.0, -1.0, 3.3)):
        assert not COURSE & set(found)
        assert {"critical_learning_rate", "maximal_learning_rate"} <= set(found)


def test_a_direction_without_a_kernel_stays_and_does_not_hinder():
    network = cases.drawn("relu", 1, 30, [[1.0]], [0.0], 1.0)[0].network
    data = cases.half_sum(cases.LINE[:, None], cases.SIGNS)
    system = ld.System(data, network, ld.GradientDescent(1.2))
    theory = ld.theory_of(system)
    state = ld.Residuals([0.1, -theory.setting.a[1]], [2.0, 0.0])
    marks = theory.landmarks(state=state)
    record = ld.solve(system, np.arange(200.0), start=ld.start(system, state=state))
    assert float(record.error.max()) == pytest.approx(marks["peak_loss"], rel=1e-9)
    assert float(record["kernel"][-1, 0]) == pytest.approx(marks["final_kernel"], rel=1e-9)
    assert set(theory.landmark_units(state=state)) == set(marks)
