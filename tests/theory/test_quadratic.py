"""Closed forms of the quadratic committee: known numbers, and the equations they solve."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import learndyn as ld
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic as quadratic_late
from learndyn.theory.committee.plateau import quadratic as quadratic_plateau

SIZES = [(3, 2), (3, 3), (6, 3), (1, 1)]


def system(p, p_star, eta):
    teacher = ld.Committee(p_star, "quadratic", scale=1 / p_star, init=ld.Orthonormal(1.0))
    problem = ld.TeacherStudent(ld.Isotropic(100), teacher, loss_scale=1.0)
    return ld.System(problem, ld.Committee(p, "quadratic", scale=1 / p), ld.SGD(eta))


def drift(p, p_star, eta, order="full"):
    """(Q, ρ) → their drift per t = η α."""
    theory = ld.theory_of(system(p, p_star, eta))

    def field(Q, rho):
        rate = theory.drift(ld.Overlaps(Q, rho, np.eye(p_star)), order)
        return rate.Q[0] / eta, rate.R[0] / eta

    return field


def jacobian(field, Q, rho, h=1e-6):
    """The derivative of the drift on symmetric Q and all ρ, by central differences."""
    p, p_star = rho.shape
    rows, columns = np.triu_indices(p)
    pack = lambda A, B: np.concatenate([A[rows, columns], B.ravel()])
    derivative = []
    for unit in np.eye(len(rows) + p * p_star):
        dQ = np.zeros((p, p))
        dQ[rows, columns] = dQ[columns, rows] = unit[: len(rows)]
        step = h * dQ, h * unit[len(rows) :].reshape(p, p_star)
        ahead, behind = field(Q + step[0], rho + step[1]), field(Q - step[0], rho - step[1])
        derivative.append((pack(*ahead) - pack(*behind)) / (2 * h))
    return np.array(derivative).T


def start_of(Q, rho):
    p, p_star = rho.shape
    return ld.start(system(p, p_star, 0.1), state=ld.Overlaps(Q, rho, np.eye(p_star)))


@pytest.mark.parametrize(
    ("p", "p_star", "omega", "risk", "eta_c", "eta", "norm", "rate"),
    [
        (3, 2, 4 / 3, 1.4, 0.375, 0.1, 0.6597413905208823, 1.2005746877313728),
        (3, 3, 8 / 9, 16 / 15, 0.45, 0.4, 0.8781387928285894, 0.27080268260313434),
    ],
)
def test_known_numbers(p, p_star, omega, risk, eta_c, eta, norm, rate):
    assert quadratic_plateau.norm_fixed_point(p) == pytest.approx(0.6, rel=1e-14)
    assert quadratic_plateau.decay_rate(p) == pytest.approx(16 / 15, rel=1e-14)
    assert quadratic_plateau.growth_rate(p, p_star) == pytest.approx(omega, rel=1e-14)
    assert quadratic_plateau.plateau_risk(p, p_star) == pytest.approx(risk, rel=1e-14)
    assert quadratic_late.critical_learning_rate(p, p_star) == pytest.approx(eta_c, rel=1e-14)
    assert quadratic_plateau.plateau_norm(p, p_star, eta) == pytest.approx(norm, rel=1e-13)
    assert quadratic_plateau.plateau_growth_rate(p, p_star, eta) == pytest.approx(rate, rel=1e-12)


def test_known_numbers_of_escape_and_tail():
    t = np.array([2.0, 6.0, 10.0])
    on_plateau = [2.1454662941080714e-07, 8.994643587920052e-06, 0.0003163618073821554]
    late = [1.936372447853781e-07, 6.778709963667313e-06, 0.00023730408280934386]
    np.testing.assert_allclose(
        quadratic_plateau.loss_reduction(t, 6, 3, 1e-4), on_plateau, rtol=1e-12
    )
    np.testing.assert_allclose(
        quadratic_plateau.late_loss_reduction(t, 6, 3, 1e-4), late, rtol=1e-12
    )
    assert quadratic_late.tail_risk(3, 2, 0.0) == pytest.approx(0.05625, rel=1e-14)
    assert quadratic_late.tail_risk(6, 3, 0.0) == pytest.approx(0.52734375, rel=1e-14)
    assert quadratic_late.critical_learning_rate(1, 1) == pytest.approx(1 / 12, rel=1e-14)


@pytest.mark.parametrize("x", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("p", "p_star"), SIZES)
def test_plateau_is_a_fixed_point_with_these_rates(p, p_star, x):
    eta = x * quadratic_plateau.plateau_end(p, p_star)
    norm = quadratic_plateau.plateau_norm(p, p_star, eta)
    field = drift(p, p_star, eta or 0.1, "full" if x else "flow")
    Q, rho = norm * np.eye(p), np.zeros((p, p_star))
    assert max(np.abs(part).max() for part in field(Q, rho)) < 1e-13
    J = jacobian(field, Q, rho)
    pairs = p * (p + 1) // 2
    growth = quadratic_plateau.plateau_growth_rate(p, p_star, eta)
    # Central differences: h² of truncation, and rounding over h.
    np.testing.assert_allclose(J[pairs:, pairs:], growth * np.eye(p * p_star), atol=1e-9)
    rates = np.linalg.eigvals(J[:pairs, :pairs]).real
    assert np.abs(rates - quadratic_plateau.plateau_norm_rate(p, p_star, eta)).min() < 1e-8
    if x == 0:
        assert growth == pytest.approx(quadratic_plateau.growth_rate(p, p_star), rel=1e-13)
        assert norm == pytest.approx(quadratic_plateau.norm_fixed_point(p), rel=1e-14)
        # All but the common norm are traceless, and decay alike.
        assert np.sum(np.abs(rates + quadratic_plateau.decay_rate(p)) < 1e-8) == pairs - 1


@pytest.mark.parametrize("x", [0.0, 0.5, 1.3])
@pytest.mark.parametrize(("p", "p_star"), SIZES)
def test_rates_at_zero_error(p, p_star, x):
    eta = x * quadratic_late.critical_learning_rate(p, p_star)
    S = solutions.polar_factor(np.random.default_rng(3).standard_normal((p, p_star)))
    rho, Q = solutions.solution_overlaps(S)
    J = jacobian(drift(p, p_star, eta or 0.1, "full" if x else "flow"), Q, rho)
    rates = np.linalg.eigvals(J).real
    trace, scale = quadratic_late.trace_rate(p, p_star, eta), quadratic_late.scale_rate(p, p_star)
    assert np.abs(rates - trace).min() < 1e-7
    assert np.abs(rates - scale).min() < 1e-7
    assert rates.min() > scale - 1e-7
    # Equal rates that share a direction are split by the square root of rounding; null modes
    # are always there, unless p = p* = 1.
    assert rates.max() == pytest.approx(trace, abs=1e-7) if x > 1 else rates.max() < 1e-4
    assert (trace > 0) == (x > 1)


@pytest.mark.parametrize(("p", "p_star"), [(3, 3), (4, 3), (10, 3), (7, 5)])
def test_learning_rates_of_the_plateau(p, p_star):
    trapping, end = (
        f(p, p_star)
        for f in (quadratic_plateau.trapping_learning_rate, quadratic_plateau.plateau_end)
    )
    assert abs(quadratic_plateau.plateau_growth_rate(p, p_star, trapping)) < 1e-12
    assert quadratic_late.critical_learning_rate(p, p_star) <= trapping * (1 + 1e-12) < end
    # The roots meet as the square root of the distance to the end.
    assert abs(quadratic_plateau.plateau_norm_rate(p, p_star, end * (1 - 1e-10))) < 1e-4
    assert np.isnan(quadratic_plateau.plateau_norm(p, p_star, end * (1 + 1e-10)))
    speed = lambda eta: -eta * quadratic_plateau.plateau_growth_rate(p, p_star, eta)
    best = minimize_scalar(speed, bounds=(0, trapping), method="bounded", options={"xatol": 1e-9})
    assert quadratic_plateau.fastest_learning_rate(p, p_star) == pytest.approx(best.x, rel=1e-6)


def test_where_the_plateau_ends_first():
    for p in (2, 3, 8):
        end = quadratic_plateau.plateau_end(p, 2)
        assert quadratic_plateau.trapping_learning_rate(p, 2) == pytest.approx(end, rel=1e-12)
        assert np.isnan(quadratic_plateau.trapping_learning_rate(p, 1))
        last = quadratic_plateau.plateau_end(p, 1) * (1 - 1e-9)
        assert quadratic_plateau.plateau_growth_rate(p, 1, last) > 0.1 / p
        equal = quadratic_plateau.trapping_learning_rate(p, p)
        assert equal == pytest.approx(quadratic_late.critical_learning_rate(p, p), rel=1e-14)


def test_norm_and_overlap_follow_the_linear_regime():
    p, p_star, size = 3, 2, 1e-6
    rho = size * np.random.default_rng(1).standard_normal((p, p_star))
    t = np.linspace(0, 4, 9)
    begin = start_of(2.0 * np.eye(p), rho)
    tight = {"order": "flow", "rtol": 1e-11, "atol": 1e-16}
    record = ld.solve(system(p, p_star, 0.1), t / 0.1, start=begin, **tight)
    path = quadratic_plateau.norm_path(t, p, q0=2.0)
    growth = quadratic_plateau.overlap_growth(t, p, p_star, q0=2.0)
    bound = np.sum(record.R.values[-1] ** 2)  # second order in ρ
    np.testing.assert_allclose(record.Q, path[:, None, None] * np.eye(p), atol=bound)
    np.testing.assert_allclose(record.R, growth[:, None, None] * rho, rtol=10 * bound, atol=1e-14)


def test_loss_reduction_is_that_of_the_flow():
    p, p_star, size = 3, 2, 1e-4
    rho = size * np.random.default_rng(2).standard_normal((p, p_star))
    rms, t = np.sqrt(np.mean(rho**2)), np.linspace(0, 3, 9)
    plateau = quadratic_plateau.plateau_risk(p, p_star)
    tight = {"order": "flow", "rtol": 1e-12, "atol": 1e-16}
    errors = [
        ld.solve(system(p, p_star, 0.1), t / 0.1, start=start_of(q * np.eye(p), rho), **tight).error
        for q in (quadratic_plateau.norm_fixed_point(p), 1.0)
    ]
    reduction = (errors[0][0] - errors[0]) / errors[0][0]
    late = (plateau - errors[1][-1]) / plateau
    bound = np.sum(rho**2) * np.exp(2 * quadratic_plateau.growth_rate(p, p_star) * t[-1])
    expected = quadratic_plateau.loss_reduction(t, p, p_star, rms)
    np.testing.assert_allclose(reduction[1:], expected[1:], rtol=bound)
    # What the norms' transient leaves in the loss, over the reduction itself.
    bound += np.exp(-16 * t[-1] / p) / expected[-1]
    assert float(late) == pytest.approx(
        quadratic_plateau.late_loss_reduction(t[-1], p, p_star, rms), rel=bound
    )


def test_half_loss_time_solves_its_definition():
    t = quadratic_plateau.half_loss_time(6, 3, 0.01)
    left = quadratic_plateau.plateau_risk(6, 3) * (
        1 - quadratic_plateau.late_loss_reduction(t, 6, 3, 0.01)
    )
    assert left == pytest.approx(quadratic_plateau.start_risk(6, 3) / 2, rel=1e-12)


@pytest.mark.parametrize(("order", "x"), [("flow", 0.0), ("full", 0.4)])
def test_tail(order, x):
    p, p_star, last = 3, 2, 2000.0
    eta = x * quadratic_late.critical_learning_rate(p, p_star) or 0.1
    begin = start_of(np.eye(p), 0.1 * np.random.default_rng(4).standard_normal((p, p_star)))
    times = np.array([0, last / 2, last]) / eta
    record = ld.solve(
        system(p, p_star, eta), times, start=begin, order=order, rtol=1e-11, atol=1e-14
    )
    t = np.array([last / 2, last])
    risk = record.error.values[1:] * t**2
    spare = np.linalg.eigvalsh(record.Q.values)[1:, 0] * t
    # The tail's clock starts late: a deviation of order 1/t, halved when t doubles.
    for found, limit in (
        (risk, quadratic_late.tail_risk(p, p_star, eta if x else 0.0)),
        (spare, quadratic_late.tail_norm(p, p_star)),
    ):
        off = found / limit - 1
        assert 0 < off[1] < 0.01 and off[1] == pytest.approx(off[0] / 2, rel=0.05)
