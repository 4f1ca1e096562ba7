"""The late stage of quadratic committees: rates at a solution, and the algebraic tail."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic

SIZES = [(3, 2), (3, 3), (6, 3), (1, 1)]


@pytest.mark.parametrize("x", [0.0, 0.5, 1.3])
@pytest.mark.parametrize(("p", "p_star"), SIZES)
def test_rates_at_zero_error(quadratics, p, p_star, x):
    eta = x * quadratic.critical_learning_rate(p, p_star)
    S = solutions.polar_factor(np.random.default_rng(3).standard_normal((p, p_star)))
    rho, Q = solutions.solution_overlaps(S)
    J = quadratics.jacobian(
        quadratics.drift(p, p_star, eta or 0.1, "full" if x else "flow"), Q, rho
    )
    rates = np.linalg.eigvals(J).real
    trace, scale = quadratic.trace_rate(p, p_star, eta), quadratic.scale_rate(p, p_star)
    assert np.abs(rates - trace).min() < 1e-7
    assert np.abs(rates - scale).min() < 1e-7
    assert rates.min() > scale - 1e-7
    # Equal rates that share a direction are split by the square root of rounding; null modes
    # are always there, unless p = p* = 1.
    assert rates.max() == pytest.approx(trace, abs=1e-7) if x > 1 else rates.max() < 1e-4
    assert (trace > 0) == (x > 1)


@pytest.mark.parametrize(
    ("order", "x"), [("flow", 0.0), pytest.param("full", 0.4, marks=pytest.mark.slow)]
)
def test_tail(quadratics, order, x):
    p, p_star, last = 3, 2, 2000.0
    eta = x * quadratic.critical_learning_rate(p, p_star) or 0.1
    begin = quadratics.start(np.eye(p), 0.1 * np.random.default_rng(4).standard_normal((p, p_star)))
    times = np.array([0, last / 2, last]) / eta
    record = ld.solve(
        quadratics.system(p, p_star, eta), times, start=begin, order=order, rtol=1e-11, atol=1e-14
    )
    t = np.array([last / 2, last])
    risk = record.error.values[1:] * t**2
    spare = np.linalg.eigvalsh(record.Q.values)[1:, 0] * t
    # The tail's clock starts late: a deviation of order 1/t, halved when t doubles.
    for found, limit in (
        (risk, quadratic.tail_risk(p, p_star, eta if x else 0.0)),
        (spare, quadratic.tail_norm(p, p_star)),
    ):
        off = found / limit - 1
        assert 0 < off[1] < 0.01 and off[1] == pytest.approx(off[0] / 2, rel=0.05)


@pytest.mark.parametrize("eta", [0.0, 0.3])
@pytest.mark.parametrize("p, p_star", [(3, 2), (4, 1), (6, 3)])
def test_approach_to_the_solution_is_algebraic(quadratics, p, p_star, eta):
    t, Q0, T = 400.0, np.eye(p), np.eye(p_star)
    rho0 = np.random.default_rng(12).standard_normal((p, p_star)) / 10
    half, Q_half = (
        x[-1] if x.ndim == 3 else x for x in quadratics.overlap_flow(Q0, rho0, T, t / 2, eta)
    )
    end = quadratics.overlap_flow(Q_half, half, T, t / 2, eta)[0][-1]
    rho_bar = solutions.solution_overlaps(solutions.polar_factor(rho0))[0]
    growth = 1 / np.linalg.norm(end - rho_bar) - 1 / np.linalg.norm(half - rho_bar)
    rate = growth / (t / 2) * quadratic.approach_distance(p, p_star)
    # The next order, −k/t, averaged over the half, leaves O(log t/t²).
    k = quadratic.approach_correction(p, p_star, eta)
    assert abs(rate - 1 + k * np.log(2) / (t / 2)) < 20 / t**2
    # From another solution, what is missing of the distance between both falls in the same way.
    other = solutions.solution_overlaps(solutions.polar_factor(rho0[::-1] + 0.05))[0]
    missing = [1 - np.sum((x - other) ** 2) / np.sum((rho_bar - other) ** 2) for x in (half, end)]
    rate = (1 / missing[1] - 1 / missing[0]) / (t / 2) * quadratic.approach_share(p, p_star)
    assert abs(rate - 1 + k * np.log(2) / (t / 2)) < 20 / t**2


def test_approach_is_exponential_without_spare_units():
    assert quadratic.approach_distance(3, 3) == 0


def test_known_numbers():
    assert quadratic.tail_risk(3, 2, 0.0) == pytest.approx(0.05625, rel=1e-14)
    assert quadratic.tail_risk(6, 3, 0.0) == pytest.approx(0.52734375, rel=1e-14)
    assert quadratic.critical_learning_rate(1, 1) == pytest.approx(1 / 12, rel=1e-14)


def test_a_clock_that_starts_late_moves_a_tail_by_no_more_than_tail_error():
    delay, t = 3.0, np.array([1000.0, 1010.0])
    for power in (1, 2):
        late = (t - delay) ** -float(power)
        ratio = late[0] * t[0] ** power
        slope = np.diff(np.log(late))[0] / np.diff(np.log(t))[0]
        bound = quadratic.tail_error(power, delay, t[0])
        assert ratio - 1 == pytest.approx(bound, rel=0.01)
        assert -slope - power == pytest.approx(bound, rel=0.01)
        assert quadratic.tail_error(power, delay, t[0], 5.0) == pytest.approx(5 * bound)


def test_errors_of_rates_are_first_order():
    assert quadratic.linear_error(-3.0, 1e-6) == pytest.approx(3e-3)
    p, p_star, delta = 3, 2, 1e-4
    rate = quadratic.disturbed_rate_error(p, p_star, delta)
    assert rate == -quadratic.scale_rate(p, p_star) * delta
    # A rate that is off by its error vanishes elsewhere by the bound's.
    eta_c = quadratic.critical_learning_rate(p, p_star)
    moved = eta_c + quadratic.disturbed_bound_error(p, p_star, delta)
    assert quadratic.trace_rate(p, p_star, moved) == pytest.approx(rate)
    half = quadratic.approach_correction(p, p_star, 0.1) / 50.0
    assert quadratic.approach_error(p, p_star, 0.1, 100.0) == pytest.approx(half)
