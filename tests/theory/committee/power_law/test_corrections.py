"""What the power laws leave out: quadrature, exact sums, exact curves, worst cases."""

import numpy as np
import pytest
from scipy import special

import learndyn as ld
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import corrections, learning_curve
from learndyn.theory.committee.setting import CommitteeSetting

CASES = [(L, beta) for L in (8, 128, 2000) for beta in (0.01, 0.3, 1.0, 1.5)]
ETA, SIGMA = 0.01, 0.7


def units(L, beta, eta=ETA, sigma_J=SIGMA):
    lam_plus = learning_curve.lam_plus(L, beta)
    return {"lam_plus": lam_plus, "L": L, "beta": beta, "eta": eta, "sigma_J": sigma_J}


def without(given, name):
    return {key: value for key, value in given.items() if key != name}


@pytest.mark.parametrize(("L", "beta"), CASES)
def test_sum_remainder_is_the_integral_and_a_bound(L, beta):
    given = units(L, beta)
    x = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 60)])
    alpha, k = x / (2 * ETA * given["lam_plus"]), np.geomspace(1, L, 20_001)
    u = np.multiply.outer(x, k ** -(1 + beta))
    slope = (1 + beta) * k ** -(2 + beta) * np.exp(-u) * (u - 1)
    scale = (1 + SIGMA**2) * given["lam_plus"] / (2 * L)
    grid = scale * np.sum(np.abs(np.diff(slope, axis=1)), axis=1) / 8
    found = corrections.sum_remainder(alpha, **given)
    # The grid misses a turning point by half a step of 4e-4 in ln k: the square of it.
    np.testing.assert_allclose(found, grid, rtol=1e-5)
    gap = learning_curve.error_sum(alpha, **given) - learning_curve.error_integral(alpha, **given)
    rounding = 1e-13 * learning_curve.error_sum(alpha, **given)
    assert np.all(np.abs(gap - learning_curve.end_correction(alpha, **given)) <= found + rounding)


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_next_order_is_what_the_corrected_form_leaves_out(beta):
    given = units(10**5, beta)
    plain = without(given, "sigma_J")
    alpha_max = learning_curve.window(**plain)[1]
    alpha, s = alpha_max * np.array([1e-5, 1e-4, 1e-3, 1e-2]), learning_curve.exponent(beta)
    form = learning_curve.error_power_law(alpha, **given) * (1 - (alpha / alpha_max) ** s)
    left = learning_curve.error_first_gamma(alpha, **given) / form - 1
    # The term after it is z (1+s)/(2 (2+s)) of it, z < α/α_max.
    found = corrections.gamma_remainder(alpha, **plain)
    np.testing.assert_allclose(left, found, rtol=0.01, atol=1e-13)
    assert np.all(left <= found + 1e-13)


@pytest.mark.parametrize("beta", [0.01, 0.5, 1.5])
def test_decay_of_the_second_gamma_function_up_to_its_next_order(beta):
    given = units(128, beta)
    x = np.array([10.0, 20.0, 40.0])
    second = lambda x: np.log(special.gammaincc(learning_curve.exponent(beta), x))
    log = lambda x: second(x) + (1 - learning_curve.exponent(beta)) * np.log(x)
    missed = 1 + (log(x * 1.0001) - log(x / 1.0001)) / (x * 1.0001 - x / 1.0001)
    found = np.array([corrections.decay_remainder(v, beta=beta) for v in x])
    # The term after it is of relative order 1/x.
    assert np.all(np.abs(missed / found - 1) < 4 / x) and np.all(missed < found)
    alpha = x / (2 * ETA * given["lam_plus"])
    gap = learning_curve.error_first_gamma(alpha, **given)
    gap = (gap - learning_curve.error_integral(alpha, **given)) * x
    slope = -np.diff(np.log(gap[:2])) / np.diff(x[:2])
    assert abs(slope[0] - 1) < found[0]


@pytest.mark.parametrize("eta", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.5, 1.0, 1.5])
def test_noise_factor_up_to_its_next_order(beta, eta):
    L = 2000
    data = ld.TeacherStudent(ld.PowerLaw(L, L, beta), ld.Committee(1, "linear"))
    student = ld.Committee(1, "linear", init=ld.Normal(SIGMA))
    setting, given = CommitteeSetting.of(ld.System(data, student, ld.SGD(eta))), units(L, beta, eta)
    first, last = learning_curve.window(**without(given, "sigma_J"))
    alpha = np.exp(np.linspace(np.log(first), np.log(last), 9)[2:6])
    full, flow = (linear.mean_curve(setting, alpha, order)["error"] for order in ("full", "flow"))
    off = full / flow / corrections.noise_factor(eta) - 1
    assert np.all(np.abs(off) < corrections.noise_remainder(alpha, **given))
    # And it is an order: smaller later on.
    assert abs(off[-1]) < abs(off[0])
