"""The plateau of erf committees: reference numbers, the true vector field and Jacobian, the ODE."""

import equinox as eqx
import jax
import numpy as np
import pytest

import learndyn as ld
from learndyn.runtime.precision import to_numpy
from learndyn.solving.fixed_points import find_fixed_point, jacobian_spectrum
from learndyn.theory.committee import errata
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform

# M, T, D, T2, D2, eta, R*, Q*; and error, tau, g_r, prefactor of the corrected Eq. 115.
REFERENCE = np.array(
    [
        [4, 1.0, 0.0, 2.3469726429577906, 0.0, 0.1, 0.1889822365046136, 0.14285714285714285],
        [3, 1.2, 0.09, 2.0, -0.05, 0.2, 0.3232077920412164, 0.24293785310734467],
        [2, 1.0, 0.0, 1.0, 0.0, 1.0, 0.4082482904638631, 0.3333333333333333],
    ]
)
RATES = np.array(
    [
        [0.007094315967593768, 478.10648430259596, 0.008911839139635818, 0.02376490437236218],
        [0.0088109922791078, 153.54578846044822, 0.016080778425942684, 0.03618175145837104],
        [0.0058054201563342, 30.41834006980209, 0.03287490368327999, 0.06574980736655998],
    ]
)
LAM, ETA = np.array([1.9, 0.7, 0.4]), 0.3


def theory_of(K, M, eta=ETA):
    spectrum = ld.Spectrum(LAM, [100, 100, 100])
    data = ld.TeacherStudent(spectrum, ld.Committee(M, "erf", scale=M**-0.5))
    return ld.theory_of(ld.System(data, ld.Committee(K, "erf", scale=M**0.5 / K), ld.SGD(eta)))


def flow(theory, state):
    with jax.enable_x64(True):
        return to_numpy(_flow(theory, state))


_flow = eqx.filter_jit(lambda theory, state: theory.drift(state, "flow"))


def uniform(T, D):
    """Level blocks (L, 3, 3) with diagonals T and off-diagonal row sums D."""
    T, D = np.asarray(T)[:, None, None], np.asarray(D)[:, None, None]
    return T * np.eye(3) + D / 2 * (1 - np.eye(3))


def teacher(M, key=3):
    """Level blocks of a drawn teacher: neither uniform nor diagonal."""
    return np.asarray(ld.start(theory_of(M, M).system, key=key).state.T)


def moment(blocks, l):
    return np.einsum("k,k...->...", LAM**l, blocks)


UNIFORM = uniform([0.5, 0.3, 0.2], [0.12, -0.05, 0.04])
(T1, D1), (T2, D2) = (erf_uniform.uniform_part(moment(UNIFORM, l)) for l in (1, 2))


@pytest.mark.parametrize("row", range(3))
def test_closed_forms(row):
    T, D, T2, D2, eta, R, Q = REFERENCE[row, 1:]
    M, (error, tau, gain, depth) = int(REFERENCE[row, 0]), RATES[row]
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13)
    close(erf_uniform.plateau_overlaps(T, D, M), (R, Q))
    close(erf_uniform.plateau_error(T, D, M), error)
    close(erf_uniform.escape_gain(T, D, M), gain)
    close(erf_uniform.escape_time(T, D, T2, D2, M, eta), tau)
    close(erf_uniform.escape_depth(T, D, M), depth)


@pytest.mark.parametrize("K", [3, 2])
def test_plateau_is_a_fixed_point_for_any_teacher(K):
    theory = theory_of(K, 3)
    for key in range(3):
        state = erf_plateau.plateau_state(teacher(3, key), LAM, K)
        drift = flow(theory, theory.as_state(state))
        assert max(np.abs(drift.Q).max(), np.abs(drift.R).max()) < 1e-15


def test_newton_from_the_approximate_heights_ends_on_the_exact_plateau():
    """Eqs. 95 and 96 as the start; the approximation itself errs by more than a percent."""
    t, theory = teacher(3), theory_of(3, 3)
    exact = erf_plateau.plateau_state(t, LAM)
    levels = [erf_uniform.approximate_moments(block, moment(t, 1)) for block in t]
    R, Q = np.array([r for r, _ in levels]), np.array([q for _, q in levels])
    begin = ld.Overlaps(Q[:, None, None] + 0 * exact.Q, R[:, None, :] + 0 * exact.R, t)
    assert np.abs(begin.R - exact.R).max() > 0.01 * np.abs(exact.R).max()
    found = find_fixed_point(theory, begin, symmetry=erf_plateau.equal_students)
    assert found.converged and found.steps < 8
    np.testing.assert_allclose(found.state.R, exact.R, atol=1e-13)
    np.testing.assert_allclose(found.state.Q, exact.Q, atol=1e-13)


def test_uniform_teacher():
    """Eqs. 97, 98 and 99 corrected are exact; the printed 98 and 99 are not for D ≠ 0."""
    state = erf_plateau.plateau_state(UNIFORM, LAM)
    R, Q = erf_uniform.plateau_overlaps(T1, D1, 3)
    error = theory_of(3, 3).observe(state)["error"]
    np.testing.assert_allclose(erf_uniform.plateau_error(T1, D1, 3), error, rtol=1e-12)
    assert abs(errata.printed_eq99(T1, D1, 3) / error - 1) > 0.05
    for l in range(4):
        R_l, Q_l = moment(state.R, l), moment(state.Q, l)
        heights = erf_uniform.uniform_part(moment(UNIFORM, l))
        found = erf_uniform.plateau_moments(*heights, T1, D1, 3)
        np.testing.assert_allclose(R_l, found[0], rtol=1e-13)
        np.testing.assert_allclose(Q_l, found[1], rtol=1e-13)
        if l > 1:
            printed = errata.printed_eq98(heights[0], T1, D1, 3)
            assert abs(printed[0] / found[0] - 1) > 0.01
    np.testing.assert_allclose(erf_uniform.approximate_overlaps(moment(UNIFORM, 1))[0], R)
    np.testing.assert_allclose(erf_uniform.approximate_overlaps(moment(UNIFORM, 1))[1], Q)


def test_eq95_errs_in_first_order_of_the_spread():
    rng = np.random.default_rng(1)
    spread = rng.standard_normal((4, 4))
    gaps = []
    for size in (4e-3, 1e-3):
        T = np.eye(4) + size * (spread + spread.T)
        gaps.append(
            np.abs(
                erf_uniform.approximate_overlaps(T)[0] - T @ erf_plateau.plateau_weights(T)
            ).max()
        )
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.05)


def test_eq96_needs_its_factor():
    t = uniform([0.8, 0.5, 0.3], [0, 0, 0])
    state, T = erf_plateau.plateau_state(t, LAM), moment(t, 1)
    right = erf_uniform.approximate_moments(moment(t, 2), T)
    printed = errata.printed_eq96(moment(t, 2), T)
    np.testing.assert_allclose(moment(state.R, 2), np.tile(right[0], (3, 1)), rtol=1e-13)
    np.testing.assert_allclose(moment(state.Q, 2), right[1], rtol=1e-13)
    np.testing.assert_allclose(printed[1] / right[1], T[0, 0], rtol=1e-13)


@pytest.mark.parametrize("K", [3, 2])
def test_escape_rates_are_eigenvalues_of_the_jacobian(K):
    """Every rate K − 1 times, at the top; for uniform T the largest is 1/τ, (K−1)(M−1) times."""
    theory = theory_of(K, 3)
    for t in (UNIFORM, teacher(3)):
        rates = ETA * erf_plateau.escape_rates(moment(t, 1), moment(t, 2), K)
        found = jacobian_spectrum(theory, erf_plateau.plateau_state(t, LAM, K)).rates
        np.testing.assert_allclose(found[: 2 * (K - 1)], np.repeat(rates[:2], K - 1), rtol=1e-9)
        assert found[2 * (K - 1)].real < 1e-3 * rates[1]
        # The M-th decays: it too is in the spectrum, to the rounding of the largest rate.
        assert np.sum(np.abs(found - rates[2]) < 1e-12) >= K - 1
    tau = erf_uniform.escape_time(T1, D1, T2, D2, 3, ETA)
    uniform_rates = erf_plateau.escape_rates(moment(UNIFORM, 1), moment(UNIFORM, 2), K)
    np.testing.assert_allclose(ETA * uniform_rates[:2], 3 / K / tau, rtol=1e-12)


def test_escape_of_the_true_trajectory():
    """R leaves with 1/τ and the error with 2/τ and the corrected depth; the print is far off."""
    r0, tau = 1e-4, erf_uniform.escape_time(T1, D1, T2, D2, 3, ETA)
    w = erf_plateau.plateau_weights(moment(UNIFORM, 1))
    # Rows J_i = Σ_m W_im B_m with R_ii = R* + r0 and R_im = R* − r0/2.
    W = w + r0 / (T1 - D1 / 2) * (1.5 * np.eye(3) - 0.5)
    state = ld.Overlaps(W @ UNIFORM @ W.T, W @ UNIFORM, UNIFORM)
    system, alphas = theory_of(3, 3).system, tau * np.array([0.0, 1.0, 2.0, 3.0])
    begin = ld.start(system, state=state)
    record = ld.solve(system, alphas, start=begin, order="flow", rtol=1e-11, atol=1e-14)
    R, _ = erf_uniform.plateau_overlaps(T1, D1, 3)
    r = record.R.values[:, 0, 0] - R
    # Higher orders are of relative size r/R*, at the end 2e-3/0.3.
    np.testing.assert_allclose(r, erf_uniform.overlap_escape(alphas, r0, tau), rtol=1e-2)
    drop = erf_uniform.plateau_error(T1, D1, 3) - record.error.values
    predicted = erf_uniform.error_escape(alphas, r0, tau, T1, D1, 3)
    np.testing.assert_allclose(drop[1:], predicted[1:], rtol=1e-2)
    printed = errata.printed_eq115(alphas, r0, tau, T1, D1, 3)
    assert abs(printed[-1] / drop[-1] - 1) > 0.5


def test_plateau_length():
    """App. C.4: 2751 from half the escape time; consistently 478.1 ln(0.33/0.000279)."""
    tau = RATES[0, 1]
    printed = erf_uniform.plateau_length(239.0, 2.47, 0.01, 7000)
    assert printed == pytest.approx(2751, abs=7)  # τ and constant to three digits
    assert erf_uniform.escape_length(tau, 0.33, 0.000279) == pytest.approx(
        3384, abs=8
    )  # B to two digits


def test_lengths_of_app_c4():
    """From the numbers of its text; half of the time, and the e-folds of ½ ln N too many."""
    tau, R, sigma_P, sigma_J, N = RATES[0, 1], REFERENCE[0, 6], 0.000279, 0.01, 7000
    B = erf_uniform.departure_size(R)
    np.testing.assert_allclose(R + B, np.e * R, rtol=1e-13)
    assert abs(B - 0.33) < 0.006
    printed = errata.printed_plateau_length(tau, R, sigma_P, sigma_J, N)
    assert printed == pytest.approx(2751, abs=20)  # B to two digits
    folds = 2 * printed / tau - erf_uniform.escape_length(tau, B, sigma_P) / tau
    assert folds == pytest.approx(np.log(N) / 2, rel=1e-12)
    assert erf_uniform.length_remainder(1) == 1.0


def test_typical_escape_time_scales_as_eq15_says():
    spectrum = lambda L: ld.PowerLaw(L, L, 0.5).values
    tau = lambda L, M: erf_uniform.typical_escape_time(spectrum(L), M, 0.1)
    M, L = 1000, 10**5
    assert np.log2(tau(L, 2 * M) / tau(L, M)) == pytest.approx(2, abs=1 / M)
    assert np.log2(tau(2 * L, M) / tau(L, M)) == pytest.approx(-1, abs=2 * L**-0.5)
    system = theory_of(4, 4).system
    exact = ld.theory_of(system).landmarks()["escape_time_constant"] / ETA
    assert erf_uniform.typical_escape_time(LAM, 4, ETA) == pytest.approx(exact, rel=1e-10)


def test_error_of_equal_students():
    """That of the theory on the plateau of a drawn teacher, Eq. 99 on a uniform one."""
    t, theory = teacher(3), theory_of(3, 3)
    state = erf_plateau.plateau_state(t, LAM)
    Q, R, T = (moment(x, 1) for x in (state.Q, state.R, state.T))
    found = erf_plateau.equal_students_error(Q[0, 0], R[0], T)
    assert found == pytest.approx(float(theory.observe(state)["error"]), rel=1e-12)
    R1, Q1 = erf_uniform.plateau_overlaps(T1, D1, 3)
    found = erf_plateau.equal_students_error(Q1, np.full(3, R1), moment(UNIFORM, 1))
    assert found == pytest.approx(erf_uniform.plateau_error(T1, D1, 3), rel=1e-12)


@pytest.mark.parametrize("second", [1.2, 3.0, -5.0])
def test_what_a_second_mode_takes_from_the_rate(second):
    grown = np.exp(np.linspace(0.5, 6, 12))
    rate = max(1 / second, 0.0)  # a mode that decays counts as one that stays
    missing = (1 - rate) / (1 + grown ** (1 - rate))
    bound = np.array([erf_plateau.second_mode_remainder(1.0, second, g) for g in grown])
    assert np.all(missing <= bound) and bound[-1] <= 1.4 * missing[-1]


def test_uniform_overlaps_are_taken_apart_again():
    T = erf_uniform.uniform_overlaps(1.2, -0.3, 4)
    np.testing.assert_allclose(erf_uniform.uniform_part(T), (1.2, -0.3), rtol=1e-14)
    np.testing.assert_allclose(T.sum(axis=1), 0.9, rtol=1e-14)
    assert erf_uniform.unevenness(T) < 1e-15 and erf_uniform.uniform_overlaps(2.0, 0.0, 1) == [[2]]


def test_bad_input_is_one_line():
    with pytest.raises(ValueError, match=r"T: got shape \(3,\); allowed is \(M, M\)"):
        erf_plateau.plateau_weights([1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="T_levels: got"):
        erf_plateau.plateau_state(UNIFORM, LAM[:2])


def test_near_plateau_is_of_weights_that_part():
    """By weights: J_i = Σ w_m B_m + size (B_i − mean B), level by level."""
    rng, size = np.random.default_rng(3), 0.1
    blocks = rng.standard_normal((len(LAM), 3, 7))
    t = blocks @ blocks.swapaxes(1, 2) / 7
    w = erf_plateau.plateau_weights(moment(t, 1))
    students = np.einsum("m,kmn->kn", w, blocks)[:, None] + size * (
        blocks - blocks.mean(axis=1, keepdims=True)
    )
    found = erf_plateau.near_plateau(t, LAM, size)
    np.testing.assert_allclose(found.R, students @ blocks.swapaxes(1, 2) / 7, atol=1e-14)
    np.testing.assert_allclose(found.Q, students @ students.swapaxes(1, 2) / 7, atol=1e-14)
    np.testing.assert_allclose(
        erf_plateau.near_plateau(t, LAM, 0.0).R, erf_plateau.plateau_state(t, LAM).R, atol=1e-15
    )


def test_symmetric_functions_err_in_second_order_of_the_unevenness():
    """Mean height and mean rate of growth: halved unevenness, a quarter of the error."""
    rng = np.random.default_rng(5)
    shapes = [x + x.T for x in rng.standard_normal((2, 4, 4))]
    misses, sizes = [], []
    for size in (8e-3, 4e-3):
        T1, T2 = (scale * np.eye(4) + size * x for scale, x in zip((1, 2), shapes, strict=True))
        (T, D), (T_2, D_2) = erf_uniform.uniform_part(T1), erf_uniform.uniform_part(T2)
        mean = (T1 @ erf_plateau.plateau_weights(T1)).mean()
        rate = erf_plateau.escape_rates(T1, T2)[:3].mean()
        formulas = (
            erf_uniform.plateau_overlaps(T, D, 4)[0],
            1 / erf_uniform.escape_time(T, D, T_2, D_2, 4, 1.0),
        )
        misses.append(np.abs(np.array([mean, rate]) / formulas - 1))
        sizes.append(erf_uniform.unevenness(T1))
    assert sizes[0] / sizes[1] == pytest.approx(2, rel=0.02)
    np.testing.assert_allclose(misses[0] / misses[1], 4, rtol=0.1)
    assert np.all(misses[0] < sizes[0] ** 2)


def test_at_unit_norm_the_print_of_eq_115_is_wrong_in_the_exponent_alone():
    alphas, (r0, tau) = np.linspace(0, 3, 4), (1e-3, 2.0)
    for D in (0.0, 0.3):
        printed = errata.printed_eq115(2 * alphas, r0, tau, 1.0, D, 4)
        right = erf_uniform.error_escape(alphas, r0, tau, 1.0, D, 4)
        np.testing.assert_allclose(printed, right, rtol=1e-12)
