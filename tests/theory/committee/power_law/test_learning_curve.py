"""Power-law spectra at small learning rate: quadrature, direct sums, bounds, references."""

import numpy as np
import pytest
from scipy import integrate, special

import learndyn as ld
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import learning_curve
from learndyn.theory.committee.setting import CommitteeSetting

CASES = [(L, beta) for L in (8, 128, 2000) for beta in (0.01, 0.3, 0.5, 1.0, 1.5)]
ETA, SIGMA = 0.01, 0.7
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def units(L, beta, eta=ETA, sigma_J=SIGMA):
    lam_plus = learning_curve.lam_plus(L, beta)
    return {"lam_plus": lam_plus, "L": L, "beta": beta, "eta": eta, "sigma_J": sigma_J}


def window(L, beta):
    given = units(L, beta)
    del given["sigma_J"]
    return learning_curve.window(**given)


def summand(k, x, beta):
    return k ** -(1 + beta) * np.exp(-x * k ** -(1 + beta))


def scale(given):
    """(1+σ_J²) λ₊/(2L), the summand's factor."""
    return (1 + given["sigma_J"] ** 2) * given["lam_plus"] / (2 * given["L"])


@pytest.mark.parametrize(("L", "beta"), CASES)
def test_eigenvalues_are_those_of_the_spectrum(L, beta):
    values = ld.PowerLaw(3 * L, L, beta).values
    assert learning_curve.lam_plus(L, beta) == pytest.approx(values[0], rel=1e-13)


def test_equations_7_and_8_are_the_mean_curve_in_the_flow_limit():
    L, beta, alphas = 32, 0.75, np.array([0.0, 0.3, 4.0, 60.0])
    data = ld.TeacherStudent(ld.PowerLaw(64, L, beta), ld.Committee(1, "linear"))
    student = ld.Committee(1, "linear", init=ld.Normal(SIGMA))
    setting = CommitteeSetting.of(ld.System(data, student, ld.SGD(ETA)))
    curve, given = linear.mean_curve(setting, alphas, "flow"), units(L, beta)
    R, Q = learning_curve.overlaps(alphas, **given)
    np.testing.assert_allclose(R, curve["R"][:, 0, 0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(Q, curve["Q"][:, 0, 0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        learning_curve.error_sum(alphas, **given), curve["error"], rtol=1e-12
    )
    np.testing.assert_allclose((1 - 2 * R + Q) / 2, curve["error"], rtol=1e-11)


def test_reference_values():
    given = units(128, 1.0, eta=1.0, sigma_J=1.0)
    alphas = [1.0, 10.0, 100.0]
    eq8 = [0.038550837289941305, 0.009081736560149462, 0.0007305247234814903]
    eq9 = [0.03853242080221526, 0.009064832629347803, 0.0007233481314659201]
    np.testing.assert_allclose(learning_curve.error_sum(alphas, **given), eq8, rtol=1e-12)
    np.testing.assert_allclose(learning_curve.error_integral(alphas, **given), eq9, rtol=1e-12)


@pytest.mark.parametrize(("L", "beta"), CASES)
@pytest.mark.parametrize("x", [0.0, 1e-8, 0.1, 1.0, 30.0, 1e4])
def test_gamma_functions_are_the_integral(L, beta, x):
    given = units(L, beta)
    alpha = x / (2 * ETA * given["lam_plus"])
    # In ln k the integrand is smooth on the whole range; Gauss-Legendre converges fast.
    u = np.log(L) * (NODES + 1) / 2
    area = np.log(L) / 2 * np.sum(WEIGHTS * np.exp(u) * summand(np.exp(u), x, beta))
    found = learning_curve.error_integral(alpha, **given)
    np.testing.assert_allclose(found, scale(given) * area, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("x", [0.5, 3.0, 40.0])
def test_one_gamma_function_is_the_integral_from_zero(x):
    given = units(64, 0.5)
    alpha = x / (2 * ETA * given["lam_plus"])
    area, error = integrate.quad(summand, 1e-3, 64, (x, 0.5), epsabs=0, epsrel=1e-12, limit=400)
    found = learning_curve.error_first_gamma(alpha, **given)
    np.testing.assert_allclose(found, scale(given) * area, rtol=1e-10 + error / area)


def test_power_law_is_reached_inside_the_window():
    L, beta = 20_000, 1.0
    given, (alpha_min, alpha_max) = units(L, beta), window(L, beta)
    # From x = 1000 on the sum is the integral to rounding: by Poisson's formula and the saddle
    # point they differ by exp(−1.5 π (x/π)^(1/3)) of themselves for β = 1, but for f(L)/2.
    alpha = np.geomspace(1000 * alpha_min, 1e-4 * alpha_max, 20)
    s, z = learning_curve.exponent(beta), 2 * ETA * given["lam_plus"] * alpha / L ** (1 + beta)
    assert s == 0.5
    ratio = learning_curve.error_sum(alpha, **given) / learning_curve.error_power_law(
        alpha, **given
    )
    # Γ(s, z)/Γ(s) = 1 − z^s/Γ(1+s) + O(z^(1+s)); f(L)/2 of the sum is beta/(2L) of that.
    np.testing.assert_allclose(1 - ratio, z**s / special.gamma(1 + s), rtol=1e-3)


@pytest.mark.parametrize(("L", "beta"), CASES)
def test_window_ends_where_the_first_two_terms_cancel(L, beta):
    given, (alpha_min, alpha_max) = units(L, beta), window(L, beta)
    s = learning_curve.exponent(beta)
    z = 2 * ETA * given["lam_plus"] * alpha_max / L ** (1 + beta)
    assert 2 * ETA * given["lam_plus"] * alpha_min == pytest.approx(1, rel=1e-13)
    assert z**s / s == pytest.approx(special.gamma(s), rel=1e-11)


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_local_exponent_is_the_slope_of_equation_52(beta):
    L = 10**5
    given, alpha_max = units(L, beta), window(L, beta)[1]
    alpha, s = alpha_max * np.array([1e-6, 1e-4, 1e-3]), learning_curve.exponent(beta)
    step = 1e-4
    up, down = (learning_curve.error_first_gamma(alpha * np.exp(h), **given) for h in (step, -step))
    slope = -(np.log(up) - np.log(down)) / (2 * step)
    del given["sigma_J"]
    # Neglected: z^(1+s)/(1+s) of Γ(s, z), z < α/α_max, whose slope is z^(1+s).
    left = special.gamma(s) * (1 - (alpha / alpha_max) ** s)
    bound = 2 * (alpha / alpha_max) ** (1 + s) / left + 1e-7
    assert np.all(np.abs(learning_curve.local_exponent(alpha, **given) - slope) < bound)


@pytest.mark.parametrize("beta", [0.3, 0.5])
def test_small_exponents_need_the_correction(beta):
    """The exponent of the sum itself, by a pure power law and with the finite-L term."""
    L = 2000
    given, (alpha_min, alpha_max) = units(L, beta), window(L, beta)
    alpha, s = np.geomspace(10 * alpha_min, 0.02 * alpha_max, 40), learning_curve.exponent(beta)
    error = learning_curve.error_sum(alpha, **given)
    corrected = ld.analysis.fit_cut_power_law(alpha, error, end=alpha_max).exponent
    pure = ld.analysis.fit_cut_power_law(alpha, error).exponent
    assert pure - s > 0.5 * s * (alpha[0] / alpha_max) ** s / (1 - (alpha[0] / alpha_max) ** s)
    # Slopes of what the corrected form leaves out, at the end of the fit: z^(1+s)/Γ(s) of the
    # gamma function, and the sum's last half step, by which α_max^-s changes β/(2L) of itself.
    end = alpha[-1] / alpha_max
    left = 1 - end**s
    assert (
        abs(corrected - s) < end ** (1 + s) / special.gamma(s) / left + s * end**s * beta / L / left
    )


@pytest.mark.parametrize(("L", "beta"), CASES)
def test_euler_maclaurin_and_its_bounds(L, beta):
    given = units(L, beta)
    x = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 60)])
    alpha = x / (2 * ETA * given["lam_plus"])
    total, area = (
        f(alpha, **given) for f in (learning_curve.error_sum, learning_curve.error_integral)
    )
    gap, rounding = total - area, 1e-13 * total
    # Sum − integral − (f(1) + f(L))/2 = −∫ f'' A with −1/8 ≤ A ≤ 0, and ∫|f''| on a fine grid.
    k = np.geomspace(1, L, 20_001)
    slope = np.array([(1 + beta) * summand(k, y, beta) / k * (y * k ** -(1 + beta) - 1) for y in x])
    remainder = scale(given) * np.sum(np.abs(np.diff(slope)), axis=1)
    assert np.all(
        np.abs(gap - learning_curve.end_correction(alpha, **given)) <= remainder / 8 + rounding
    )
    del given["eta"]
    first, worst = learning_curve.initial_gap(**given), errata.printed_worst_case_bound(**given)
    np.testing.assert_allclose(gap[0], first, rtol=1e-9)
    assert np.all(gap <= first * (1 + 1e-9)) and first < worst
    # Euler-Maclaurin for ζ: the two brackets differ by L^-(1+β)/2 up to (1+β)/12 L^-(2+β).
    over, power = (worst - first) / scale(given), float(L) ** -(1 + beta)
    assert abs(over - power / 2) <= (1 + beta) / 12 * power / L + 1e-12


@pytest.mark.parametrize(("L", "beta"), CASES)
def test_printed_bound_49_holds_at_the_beginning_only(L, beta):
    given = units(L, beta)
    x = np.array([0.0, 0.5, 1.0, 2.0, 20.0])
    alpha = x / (2 * ETA * given["lam_plus"])
    gap = learning_curve.error_sum(alpha, **given) - learning_curve.error_integral(alpha, **given)
    del given["beta"]
    holds = np.abs(gap) < errata.printed_eq49(alpha, **given)
    assert holds.tolist() == [True, True, True, True, False]


def test_learning_rate_of_figure_7():
    # The caption's 1/(2 λ₊) ≈ 0.001 is 0.0095.
    assert 1 / (2 * learning_curve.lam_plus(128, 0.5)) == pytest.approx(0.0095, abs=5e-5)
