"""The plateau of quadratic committees: known numbers, and the equations that they solve."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import learndyn as ld
from learndyn.theory.committee.late_stage import quadratic as quadratic_late
from learndyn.theory.committee.plateau import quadratic as quadratic_plateau

SIZES = [(3, 2), (3, 3), (6, 3), (1, 1)]


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


def test_known_numbers_of_the_escape():
    t = np.array([2.0, 6.0, 10.0])
    on_plateau = [2.1454662941080714e-07, 8.994643587920052e-06, 0.0003163618073821554]
    late = [1.936372447853781e-07, 6.778709963667313e-06, 0.00023730408280934386]
    np.testing.assert_allclose(
        quadratic_plateau.loss_reduction(t, 6, 3, 1e-4), on_plateau, rtol=1e-12
    )
    np.testing.assert_allclose(
        quadratic_plateau.late_loss_reduction(t, 6, 3, 1e-4), late, rtol=1e-12
    )


@pytest.mark.parametrize("x", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("p", "p_star"), SIZES)
def test_plateau_is_a_fixed_point_with_these_rates(quadratics, p, p_star, x):
    eta = x * quadratic_plateau.plateau_end(p, p_star)
    norm = quadratic_plateau.plateau_norm(p, p_star, eta)
    field = quadratics.drift(p, p_star, eta or 0.1, "full" if x else "flow")
    Q, rho = norm * np.eye(p), np.zeros((p, p_star))
    assert max(np.abs(part).max() for part in field(Q, rho)) < 1e-13
    J = quadratics.jacobian(field, Q, rho)
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


def test_norm_and_overlap_follow_the_linear_regime(quadratics):
    p, p_star, size = 3, 2, 1e-6
    rho = size * np.random.default_rng(1).standard_normal((p, p_star))
    t = np.linspace(0, 4, 9)
    begin = quadratics.start(2.0 * np.eye(p), rho)
    tight = {"order": "flow", "rtol": 1e-11, "atol": 1e-16}
    record = ld.solve(quadratics.system(p, p_star, 0.1), t / 0.1, start=begin, **tight)
    path = quadratic_plateau.norm_path(t, p, q0=2.0)
    growth = quadratic_plateau.overlap_growth(t, p, p_star, q0=2.0)
    bound = np.sum(record.R.values[-1] ** 2)  # second order in ρ
    np.testing.assert_allclose(record.Q, path[:, None, None] * np.eye(p), atol=bound)
    np.testing.assert_allclose(record.R, growth[:, None, None] * rho, rtol=10 * bound, atol=1e-14)


def test_loss_reduction_is_that_of_the_flow(quadratics):
    p, p_star, size = 3, 2, 1e-4
    rho = size * np.random.default_rng(2).standard_normal((p, p_star))
    rms, t = np.sqrt(np.mean(rho**2)), np.linspace(0, 3, 9)
    plateau = quadratic_plateau.plateau_risk(p, p_star)
    tight = {"order": "flow", "rtol": 1e-12, "atol": 1e-16}
    errors = [
        ld.solve(
            quadratics.system(p, p_star, 0.1),
            t / 0.1,
            start=quadratics.start(q * np.eye(p), rho),
            **tight,
        ).error
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


def test_second_order_terms(quadratics):
    p, p_star, eps, t = 3, 2, 1e-3, 1.2
    assert quadratic_plateau.settled_error(3.0, np.array([0.1, -0.2])) == pytest.approx(
        np.exp(-3) + 0.04
    )
    assert quadratic_plateau.overlap_square(0.0, p, p_star, eps) == pytest.approx(
        p * p_star * eps**2
    )
    # The flow from entries ε each has |ρ(0)|² = p p* ε².
    begin = quadratics.start(
        quadratic_plateau.norm_fixed_point(p) * np.eye(p), np.full((p, p_star), eps)
    )
    system = quadratics.system(p, p_star, 0.1)
    record = ld.solve(system, [0.0, t / 0.1], start=begin, order="flow", rtol=1e-10, atol=1e-14)
    found = float((record["R"][-1] ** 2).sum())
    assert quadratic_plateau.overlap_square(t, p, p_star, eps) == pytest.approx(found, rel=1e-4)


def test_time_scale_of_the_loss_is_that_of_the_overlaps_squared():
    for p, p_star in [(3, 2), (8, 3)]:
        efold = 1 / (2 * quadratic_plateau.growth_rate(p, p_star))
        assert quadratic_plateau.loss_time_scale(p_star) == pytest.approx(efold / p)


def test_starts_with_overlaps_between_students_grow_as_orthonormalised_ones(quadratics):
    p, p_star, t = 4, 2, 7.0
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((p, p))
    Q, T = np.eye(p) + 0.05 * (noise + noise.T), np.eye(p_star)
    rho = 1e-6 * rng.standard_normal((p, p_star))
    end, Q_end = (quadratics.overlap_flow(Q, rho, T, t)[i] for i in (0, 1))
    level, growth = quadratic_plateau.norm_fixed_point(p), quadratic_plateau.growth_rate(p, p_star)
    expected = np.exp(growth * t) * np.sqrt(level) * quadratic_plateau.orthonormalised(Q, rho)
    left = quadratic_plateau.unlike_left(t, p, Q)
    assert 1e-4 < left < 1e-2 and np.linalg.norm(Q_end / level - np.eye(p), 2) < 2 * left
    assert np.linalg.norm(end[-1] - expected) < left * np.linalg.norm(expected)
    stretch = np.linalg.norm(quadratic_plateau.orthonormalised(Q, rho)) / np.linalg.norm(rho)
    assert abs(np.log(stretch)) < quadratic_plateau.largest_stretch(Q)
    diagonal = np.diag([1.0, 4.0])
    assert quadratic_plateau.largest_stretch(diagonal) == pytest.approx(np.log(2))
    np.testing.assert_allclose(
        quadratic_plateau.orthonormalised(diagonal, np.eye(2)), np.diag([1, 0.5])
    )
