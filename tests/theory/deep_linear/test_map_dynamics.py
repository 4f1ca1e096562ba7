import itertools

import jax
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq
from scipy.special import hyp2f1

from learndyn.networks.solvable.matrix_product import natural_direction
from learndyn.theory.deep_linear import map_dynamics, modes

direction = jax.jit(natural_direction)
STIFFNESS = [0.0, 0.3, 0.5, 0.75, 1.0, 4 / 3, 1.5, 1.9, 2.0, 2.5]
TARGET = 1.7

# σ̄(t) of σ̄_* = 1.7, η̄ = 1 at t = 0.5, 1, 3, 10, by (p, start).
TIMES = np.array([0.5, 1.0, 3.0, 10.0])
PATHS = {
    (0, 0.01): [0.6749631850856495, 1.0782837444202624, 1.6158598544583098, 1.6999232741187014],
    (0, 0): [0.6688978784885232, 1.074604950008548, 1.6153619837746311, 1.6999228201194039],
    (0.5, 0.01): [0.2485238126028604, 0.6583603211902377, 1.58722054639698, 1.6999873161466499],
    (0.5, 0): [0.1685605435651574, 0.5580837910039341, 1.5692180386291972, 1.6999852089242444],
    (0.75, 0.01): [0.0755764817379907, 0.2644702107332721, 1.4767096724358546, 1.6999926161939085],
    (0.75, 0): [0.002037132012444201, 0.03213154776128375, 1.1390771524583438, 1.6999776157976427],
    (1, 0.01): [0.02321353943090325, 0.053335817209678775, 0.8372939926703592, 1.69998810604215],
    (1.5, 0.01): [
        0.010901485432869173,
        0.011929975075773739,
        0.017920451768173865,
        0.3114323358097068,
    ],
}
# F_p at x = 0.01, 0.25, 0.5, 0.9, 0.999.
POINTS = np.array([0.01, 0.25, 0.5, 0.9, 0.999])
F = {
    0: [
        0.01005033585350144,
        0.28768207245178096,
        0.6931471805599453,
        2.302585092994046,
        6.907755278982136,
    ],
    0.5: [
        0.20067069546215122,
        1.0986122886681096,
        1.7627471740390865,
        3.636892918464134,
        8.29354945249779,
    ],
    0.75: [
        1.267455038813856,
        2.993706591379861,
        3.8468227767601224,
        5.874325926678033,
        10.557242819131206,
    ],
    1: [-4.59511985013459, -1.0986122886681096, 0.0, 2.1972245773362196, 6.906754778648552],
    1.5: [
        -19.79932930453785,
        -2.9013877113318904,
        -1.0656799507071038,
        1.5287078116852144,
        6.292548701872244,
    ],
}
HALF_FROM_ZERO = {
    0.0: 0.6931471805599453,
    0.5: 1.7627471740390865,
    2 / 3: 2.8131209717260157,
    0.75: 3.8468227767601224,
    0.9: 9.927306850067273,
}
HALF_FROM_HUNDREDTH = {
    1.0: 4.59511985013459,
    4 / 3: 11.304110343226665,
    1.5: 18.733649353830746,
    2.0: 102.5951198501346,
}
# (d, q): p, d_eff, η̄/η.
RATES = {
    (2, 1): (0.0, 1.0, 1.0),
    (2, 2): (0.5, 1.3333333333333333, 1.4142135623730951),
    (2, 10): (0.9, 1.8181818181818181, 1.8660659830736148),
    (3, 1.5): (0.4444444444444445, 1.2857142857142858, 1.4422495703074085),
    (3, 3): (0.888888888888889, 1.8, 2.080083823051904),
    (4, 1): (0.0, 1.0, 1.0),
    (4, 2): (0.75, 1.6, 2.0),
    (4, 10): (1.35, 3.076923076923077, 3.4822022531844965),
    (8, 1.5): (0.5833333333333334, 1.411764705882353, 2.0),
    (8, 3): (1.1666666666666667, 2.4, 4.000000000000001),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("d, q", list(RATES))
def test_reference_rates(d, q):
    p, depth, rate = RATES[d, q]
    assert abs(map_dynamics.stiffness(d, 1 / q) - p) < 1e-15
    np.testing.assert_allclose(map_dynamics.effective_depth(d, 1 / q), depth, rtol=1e-14)
    np.testing.assert_allclose(
        map_dynamics.depth_calibrated_rate(0.3, d, 1 / q), 0.3 * rate, rtol=1e-14
    )


def test_effective_depth_is_as_stiff_under_gradient_descent():
    for d, power in itertools.product((1, 2, 5, 50), (0, 0.2, 0.5, 1)):
        depth = map_dynamics.effective_depth(d, power)
        expected = map_dynamics.stiffness(d, power)
        np.testing.assert_allclose(map_dynamics.stiffness(depth, 0), expected, atol=1e-15)
    assert map_dynamics.effective_depth(7, 0) == 7
    assert map_dynamics.effective_depth(7, 1) == 1
    np.testing.assert_allclose(map_dynamics.effective_depth(1e9, 1 / 3), 3, rtol=1e-8)
    assert map_dynamics.stiffness(np.inf, 0) == 2


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("power", [0, 1 / 3, 1 / 2, 1])
def test_velocity_is_that_of_balanced_modes(d, power):
    sigma_bar, target = np.array([0.2, 1.3]), np.array([1.0, 0.4])
    sigma = np.repeat(sigma_bar[:, None] ** (1 / d), d, axis=1)
    through_layers = np.sum(
        modes.coupling(sigma) * modes.velocity(sigma, target, power=power), axis=1
    )
    p = map_dynamics.stiffness(d, power)
    rate = map_dynamics.depth_calibrated_rate(1.0, d, power)
    found = map_dynamics.map_velocity(sigma_bar, target, p, rate)
    np.testing.assert_allclose(found, through_layers, rtol=1e-13)


@pytest.mark.parametrize("p, start", list(PATHS))
def test_reference_paths(p, start):
    found = map_dynamics.solution(TIMES, TARGET, start, p)
    np.testing.assert_allclose(found, PATHS[p, start], rtol=1e-12)


@pytest.mark.parametrize("start", [0.01, 0.3, 1.2, 1.8, 6.0])
@pytest.mark.parametrize("p", STIFFNESS)
def test_solutions_against_an_integrator(p, start):
    rate = 0.7
    end = 2 * map_dynamics.half_maximum_time(TARGET, start, p, rate) if start < 0.5 else 4.0
    times = np.linspace(0, float(end), 9)
    run = solve_ivp(
        lambda _, y: map_dynamics.map_velocity(y, TARGET, p, rate),
        (0, times[-1]),
        [start],
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-14,
    )
    found = map_dynamics.solution(times, TARGET, start, p, rate)
    np.testing.assert_allclose(found, run.y[0], rtol=1e-8, atol=0)


@pytest.mark.parametrize("p", STIFFNESS)
def test_time_to_inverts_the_solution(p):
    start = np.array([[0.02], [0.9], [2.0], [9.0]])
    times = np.array([1e-3, 0.1, 1.0, 5.0])
    sigma_bar = map_dynamics.solution(times, TARGET, start, p, 0.7)
    found = map_dynamics.time_to(sigma_bar, TARGET, start, p, 0.7)
    np.testing.assert_allclose(found, np.broadcast_to(times, found.shape), rtol=1e-9)


@pytest.mark.parametrize("p", STIFFNESS)
def test_time_to_is_the_integral(p):
    def integral(x, x0):
        return quad(lambda s: 1 / ((1 - s) * s**p), x0, x, epsrel=1e-12, limit=200)[0]

    for x, x0 in ((0.4, 0.1), (0.7, 0.02), (0.999, 0.6), (1.2, 3.0), (1.001, 1.9), (5.0, 8.0)):
        found = map_dynamics.time_to(x, 1.0, x0, p)
        np.testing.assert_allclose(found, integral(x, x0), rtol=1e-10)
        backward = map_dynamics.time_to(x0, 1.0, x, p)
        np.testing.assert_allclose(backward, -found, rtol=1e-12)


@pytest.mark.parametrize("p", list(F))
def test_reference_implicit_solution(p):
    x0 = POINTS[0]
    found = map_dynamics.time_to(POINTS, 1.0, x0, p)
    np.testing.assert_allclose(found, np.array(F[p]) - F[p][0], rtol=1e-13, atol=1e-13)
    if p < 1:
        np.testing.assert_allclose(map_dynamics.time_to(POINTS, 1.0, 0.0, p), F[p], rtol=1e-13)


def test_hypergeometric_form_and_the_approach_to_the_target():
    p = 0.6
    x = np.array([0.05, 0.4, 0.49, 0.51, 0.8])
    expected = x ** (1 - p) / (1 - p) * hyp2f1(1, 1 - p, 2 - p, x)
    np.testing.assert_allclose(map_dynamics.time_to(x, 1.0, 0.0, p), expected, rtol=1e-13)
    # Close to the target τ grows by log 10 for each digit.
    gaps = 10.0 ** -np.arange(6, 12)
    late = map_dynamics.time_to(1 - gaps, 1.0, 0.0, p)
    np.testing.assert_allclose(np.diff(late), np.log(10), rtol=1e-4)


@pytest.mark.parametrize("p", [0.999, 1 - 1e-9, 1 + 1e-9, 1.999999999])
def test_no_digits_are_lost_next_to_the_integers(p):
    start = 0.01
    near, at = (map_dynamics.time_to(0.5, 1.0, start, q) for q in (p, round(p)))
    slope = quad(lambda s: -np.log(s) / ((1 - s) * s ** round(p)), start, 0.5, limit=200)[0]
    assert abs(near - at - slope * (p - round(p))) < 200 * (p - round(p)) ** 2 + 1e-12 * at
    times = np.array([0.5, 3.0])
    found, logistic = (map_dynamics.solution(times, TARGET, 0.1, q) for q in (p, round(p)))
    np.testing.assert_allclose(found, logistic, rtol=5 * abs(p - round(p)) + 1e-12)


def test_times_may_be_large_and_starts_small():
    for p in STIFFNESS:
        found = map_dynamics.solution(np.array([1e4, 1e9]), TARGET, np.array([0.5, 4.0]), p)
        np.testing.assert_allclose(found, TARGET, rtol=1e-14)
    time = map_dynamics.half_maximum_time(TARGET, 1e-9, 2.0)
    assert abs(map_dynamics.solution(time, TARGET, 1e-9, 2.0) / TARGET - 0.5) < 1e-6
    for p in (0.3, 0.5, 0.9):
        early = map_dynamics.solution(1e-6, 1.0, 0.0, p)
        np.testing.assert_allclose(early, ((1 - p) * 1e-6) ** (1 / (1 - p)), rtol=1e-5)


@pytest.mark.parametrize("p", STIFFNESS)
def test_fixed_points(p):
    times = np.array([0.0, 1.0, 1e4])
    np.testing.assert_allclose(map_dynamics.solution(times, TARGET, TARGET, p), TARGET, rtol=1e-15)
    from_zero = map_dynamics.solution(times, TARGET, 0.0, p)
    assert from_zero[0] == 0
    assert np.all(from_zero[1:] > 0 if p < 1 else from_zero == 0)
    assert map_dynamics.time_to(TARGET, TARGET, 0.3, p) == np.inf
    assert map_dynamics.time_to(2.0, TARGET, 0.3, p) == np.inf
    assert map_dynamics.time_to(0.3, TARGET, 2.0, p) == np.inf
    assert map_dynamics.time_to(0.3, TARGET, TARGET, p) == np.inf
    assert map_dynamics.time_to(0.3, TARGET, 0.3, p) == 0
    assert map_dynamics.time_to(0.0, TARGET, 0.0, p) == 0
    assert np.isfinite(map_dynamics.time_to(0.3, TARGET, 0.0, p)) == (p < 1)


def test_reference_half_maximum_times():
    target, rate = 3.0, 0.2
    for p, tau in HALF_FROM_ZERO.items():
        found = map_dynamics.half_maximum_time(target, 0.0, p, rate)
        np.testing.assert_allclose(found, tau / (rate * target**p), rtol=1e-13)
        assert map_dynamics.escape_time(target, 1e-9, p, rate) == found
    for p, tau in HALF_FROM_HUNDREDTH.items():
        found = map_dynamics.half_maximum_time(target, target / 100, p, rate)
        np.testing.assert_allclose(found, tau / (rate * target**p), rtol=1e-13)


@pytest.mark.parametrize("p", [0.4, 0.75, 1.0, 1.5, 2.0])
def test_escape_times_lead(p):
    starts = 1.7 * 10.0 ** -np.array([6.0, 9.0, 12.0, 15.0])
    exact = map_dynamics.half_maximum_time(1.7, starts, p, 0.5)
    leading = map_dynamics.escape_time(1.7, starts, p, 0.5)
    error = np.abs(leading / exact - 1)
    assert np.all(np.diff(error) <= 1e-12) and error[-1] < 1e-3
    assert map_dynamics.escape_time(1.7, 0.0, 1.5) == np.inf


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("power", [0, 1 / 3, 1 / 2, 1])
def test_scaling_laws_of_orthogonal_layers(d, power):
    rng = np.random.default_rng(d)
    orthogonal = [np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(d)]
    for alpha in (0.3, 1.4):
        weights = tuple(alpha * O for O in orthogonal)
        gap = rng.standard_normal((3, 3))
        move, gradient = (direction(weights, gap, q) for q in (float(power), 0.0))
        loss = np.sum(gap**2) / 2
        speed = np.sqrt(sum(np.sum(w**2) for w in move) / loss)
        rate = -sum(np.sum(w * g) for w, g in zip(move, gradient, strict=True)) / loss
        np.testing.assert_allclose(map_dynamics.update_speed(alpha, d, power), speed, rtol=1e-12)
        np.testing.assert_allclose(map_dynamics.loss_rate(alpha, d, power), rate, rtol=1e-12)


@pytest.mark.parametrize("power", [0, 1 / 4, 1 / 2, 3 / 4, 1])
def test_the_exponent_of_the_largest_rate_is_that_of_one_step(power):
    """Balanced modes: the rate at which the first step, or one near the target, overshoots."""
    d, rates = 3, []
    alphas = np.array([1e-4, 1e-3])
    for alpha in alphas:
        step = map_dynamics.update_speed(alpha, d, power) / np.sqrt(2 * d)  # of σ_i, |Δ| = 1
        first = (2 ** (1 / d) - alpha) / step
        rates.append(min(first, 2 / map_dynamics.depth_calibrated_rate(1.0, d, power)))
    slope = np.diff(np.log(rates)) / np.diff(np.log(alphas))
    expected = map_dynamics.largest_rate_exponent(d, power)
    np.testing.assert_allclose(slope, expected, atol=1e-3)


@pytest.mark.parametrize("power", [0, 1 / 4, 1 / 2, 3 / 4, 1])
@pytest.mark.parametrize("blocks", [False, True])
def test_the_exponent_of_an_imbalance_is_that_of_what_is_conserved(power, blocks):
    """Modes of two layers, from (α, 2 α) to the σ_1 σ_2 = 1 where the invariant is the same."""
    kept = lambda a, b: float(modes.invariants(np.array([a, b]), power=power, blocks=blocks)[0])
    alphas, grown = np.array([1e-6, 1e-5]), []
    for alpha in alphas:
        excess = lambda a, alpha=alpha: kept(a, 1 / a) - kept(alpha, 2 * alpha)
        a = brentq(excess, 0.1, 10, xtol=1e-15, rtol=1e-15)
        grown.append((a**-2 - a**2) / (3 * alpha**2))
    slope = np.diff(np.log(grown)) / np.diff(np.log(alphas))
    expected = map_dynamics.imbalance_exponent(power, blocks=blocks)
    np.testing.assert_allclose(slope, expected, atol=1e-2)


def test_lines_of_singular_maps():
    """Against the determinant on a fine grid of the line."""
    rng, found = np.random.default_rng(3), []
    for _ in range(40):
        begin, end = rng.standard_normal((2, 2, 2))
        s = np.linspace(0, 1, 2001)[:, None, None]
        signs = np.sign(np.linalg.det((1 - s) * begin + s * end))
        found.append(map_dynamics.line_is_singular(begin, end))
        assert found[-1] == bool(np.any(signs != signs[0]))
    assert 0 < sum(found) < 40


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: map_dynamics.stiffness(0, 0.5), "d: got 0; allowed is a depth of at least 1"),
        (lambda: map_dynamics.stiffness(2, 1.5), r"power: got 1\.5; allowed is from 0 to 1"),
        (lambda: map_dynamics.effective_depth(2, -0.1), r"power: got -0\.1; allowed"),
        (lambda: map_dynamics.depth_calibrated_rate(1, np.nan, 0), "d: got nan; allowed"),
        (lambda: map_dynamics.solution(1.0, 0.0, 0.1, 1), "target: got 0; allowed is positive"),
        (lambda: map_dynamics.solution(-1.0, 1.0, 0.1, 1), "t: got -1; allowed is non-negative"),
        (lambda: map_dynamics.solution(1.0, 1.0, 0.1, -1), "p: got -1; allowed is a non-negative"),
        (lambda: map_dynamics.time_to(0.5, 1.0, -0.1, 1), r"start: got -0\.1; allowed"),
        (lambda: map_dynamics.map_velocity(-0.1, 1.0, 0.5, 1.0), r"sigma_bar: got -0\.1"),
        (lambda: map_dynamics.solution(1.0, 1.0, 0.1, 1, 0), "eta_bar: got 0; allowed"),
        (lambda: map_dynamics.update_speed(0, 2, 1), "alpha: got 0; allowed is positive"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_errors_of_a_depth_and_of_an_exponent():
    assert map_dynamics.spline_depth_error(0.1, 4, 0.0) == pytest.approx(10 * 0.1**3 * 8)
    # dd/dp = d²/2 at power 0: what an error of the stiffness does to the depth.
    d, shift = 4.0, 1e-6
    nearby = 1 / (1 - (map_dynamics.stiffness(d, 0.0) + shift) / 2)
    assert nearby - d == pytest.approx(shift * d**2 / 2, rel=1e-4)
    # Times that are off by no more than the curve's error over its speed turn the exponent less.
    targets, error = np.array([2.0, 1.4, 1.0]), 1e-6
    bound = map_dynamics.half_maximum_exponent_error(error, targets)
    for p in (0.0, 0.5, 1.0, 1.5, 2.0):
        start = 0.01 * targets if p >= 1 else 0 * targets
        times = map_dynamics.half_maximum_time(targets, start, p)
        off = error * np.array([1, 0, -1]) * 2 ** (1 + p) / targets**p
        slope = np.polyfit(np.log(targets), np.log(times + off), 1)[0]
        assert abs(slope + p) < bound < 1e-4
