"""The late stage: reference matrices, the Jacobian at the teacher, the ODE."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.solving.fixed_points import jacobian_spectrum
from learndyn.theory.committee import errata
from learndyn.theory.committee.late_stage import deviations, erf_symmetric
from learndyn.theory.committee.late_stage import erf as erf_late

SPECTRUM, ETA = ld.PowerLaw(90, 3, 1.0), 0.4
LAM, PHI = SPECTRUM.values, SPECTRUM.counts / SPECTRUM.dim
ROOT3 = np.sqrt(3)


def system_of(M, eta=ETA):
    net = lambda: ld.Committee(M, "erf", scale=M**-0.5)
    return ld.System(ld.TeacherStudent(SPECTRUM, net()), net(), ld.SGD(eta))


def near_teacher(system, size, seed=0):
    """Overlaps of a drawn teacher and a student with e of order `size`, r^k = t^k."""
    M, rng = system.network.units, np.random.default_rng(seed)
    C = ld.theory_of(system).project(*rng.standard_normal((2, M, SPECTRUM.dim)))
    return ld.Overlaps(C.T + size * C.Q, C.T, C.T)


def test_reference_matrices():
    """H and G of M = 5, from a linearisation by hand."""
    G = [[1, 4 * ROOT3 / 2, 0, 0], [ROOT3 / 2, 3.598076211353316, 0, 0]]
    G += [[-2, -4 * ROOT3, 2, 4 * ROOT3], [-ROOT3, -7.196152422706632, ROOT3, 7.196152422706632]]
    H = [[-1 / 3, -ROOT3, 1 / 2, ROOT3], [0, 0, 0.21650635094610965, 0]]
    H += [[-2 / 3, -2 * ROOT3, 1, 2 * ROOT3], [0, 0, 0.4330127018922193, 0]]
    np.testing.assert_allclose(erf_symmetric.decay_matrix(5), G, atol=1e-15)
    np.testing.assert_allclose(erf_symmetric.coupling_matrix(5), H, atol=1e-15)
    np.testing.assert_allclose(erf_symmetric.rate_unit(5, 1.0), 0.07351051938957227, rtol=1e-14)


@pytest.mark.parametrize("M", [2, 5])
def test_eigenvalues_of_the_matrices(M):
    found = np.sort(np.linalg.eigvals(erf_symmetric.decay_matrix(M)).real)
    slow, fast = erf_symmetric.late_exponents(M)
    np.testing.assert_allclose(found, np.sort([slow / 2, slow, fast / 2, fast]), rtol=1e-13)
    found = np.sort(np.linalg.eigvals(erf_symmetric.coupling_matrix(M)).real)
    split = np.sqrt(27 * M - 11) / 12
    np.testing.assert_allclose(found, [1 / 3 - split, 0, 0, 1 / 3 + split], atol=1e-7)
    # The first exponent is that of every M, the second is printed for M = 2.
    printed = errata.printed_late_exponents()
    np.testing.assert_allclose(printed[0], slow, rtol=1e-15)
    assert np.isclose(printed[1], fast) == (M == 2)


@pytest.mark.parametrize("order", ["flow", "full"])
def test_linearisation_is_the_jacobian_at_the_teacher(order):
    """All 4L eigenvalues are in the true spectrum; with the printed f₅ they are not."""
    M = 3
    theory, t = ld.theory_of(system_of(M)), PHI[:, None, None] * np.eye(M)
    true = jacobian_spectrum(theory, ld.Overlaps(t, t, t), order).rates
    distance = lambda A: max(
        np.abs(true - erf_symmetric.rate_unit(M, ETA) * v).min() for v in np.linalg.eigvals(A)
    )
    eta = ETA if order == "full" else 0.0
    assert distance(erf_symmetric.late_matrix(LAM, PHI, M, eta)) < 1e-12
    if order == "full":
        assert distance(errata.printed_late_matrix(LAM, PHI, M, eta)) > 1e-4


def test_printed_f5_agrees_for_two_units_only():
    assert errata.printed_f5(2) == erf_symmetric.noise_coefficients(2)[4]
    assert errata.printed_f5(3) != pytest.approx(erf_symmetric.noise_coefficients(3)[4], rel=0.01)


def test_two_groups_are_the_exact_modes_of_a_typical_teacher():
    M, rng, alphas = 3, np.random.default_rng(2), np.array([0.0, 5.0, 100.0])
    r, s, q, c = 1e-3 * rng.standard_normal((4, len(LAM)))
    x, y = (q - 2 * r)[:, None, None], (c - 2 * s)[:, None, None]
    e = x * np.eye(M) + y * (1 - np.eye(M))
    groups = erf_symmetric.late_groups(alphas, r, s, q, c, LAM, M, ETA)
    curve = erf_late.late_curve(alphas, e, np.eye(M), LAM, ETA)
    np.testing.assert_allclose(groups.slow + groups.fast, curve, atol=1e-18)
    np.testing.assert_allclose(
        erf_symmetric.linear_error(LAM @ r, LAM @ s, LAM @ q, LAM @ c, M), curve[0]
    )
    # The same from the 4L-dimensional system, whose other directions carry no error.
    rates, V = np.linalg.eig(
        erf_symmetric.rate_unit(M, ETA) * erf_symmetric.late_matrix(LAM, PHI, M)
    )
    x = V @ (np.exp(rates * alphas[1]) * np.linalg.solve(V, np.concatenate([r, s, q, c])))
    parts = x.real.reshape(4, -1) @ LAM
    np.testing.assert_allclose(erf_symmetric.linear_error(*parts, M), curve[1], rtol=1e-10)


def test_curve_and_error_of_a_state_are_those_of_its_deviations():
    M, alphas = 3, np.array([0.0, 30.0, 200.0])
    t, off = PHI[:, None, None] * np.eye(M), 1 - np.eye(M)
    sizes = np.random.default_rng(2).uniform(0, 0.05, (2, len(LAM), 1, 1))
    e = sizes[0] * np.eye(M) + 0.3 * sizes[1] * off  # alike, r^k = t^k
    state = ld.Overlaps(t + e, t, t)
    general = erf_late.late_curve(alphas, deviations.deviation(state), np.eye(M), LAM, ETA)
    found = erf_symmetric.late_curve(alphas, state, LAM, ETA)
    np.testing.assert_allclose(found, general, rtol=1e-12)
    np.testing.assert_allclose(erf_symmetric.state_error(state, LAM), general[0], rtol=1e-12)


@pytest.mark.slow
def test_late_curve_approaches_the_ode_in_first_order():
    """From J − B outside the teachers' span: a quarter of e, a quarter of the relative gap."""
    system, gaps = system_of(3), []
    alphas = np.array([0.0, 1.0, 5.0, 10.0])
    for size in (4e-4, 1e-4):
        state = near_teacher(system, size)
        begin = ld.start(system, state=state)
        record = ld.solve(system, alphas, start=begin, order="flow", rtol=1e-10, atol=1e-15)
        T = np.einsum("k,kij->ij", LAM, state.T)
        curve = erf_late.late_curve(alphas, deviations.deviation(state), T, LAM, ETA)
        gaps.append(record.error.values / curve - 1)
    np.testing.assert_allclose(gaps[0] / gaps[1], 4, rtol=0.05)


def test_deviation_needs_equal_sizes():
    state = ld.Overlaps(np.eye(3), np.zeros((3, 2)), np.eye(2))
    with pytest.raises(ValueError, match="allowed is K = M"):
        deviations.deviation(state)


def test_students_in_the_order_of_their_teachers():
    """A teacher's permuted copy, a little off: the order is found, and the deviations are small."""
    rng = np.random.default_rng(4)
    B, noise = rng.standard_normal((2, 3, SPECTRUM.dim))
    theory, order = ld.theory_of(system_of(3)), [2, 0, 1]
    found = deviations.in_teachers_order(theory.project((B + 1e-3 * noise)[order], B), LAM)
    direct = theory.project(B + 1e-3 * noise, B)
    np.testing.assert_allclose(found.gram, direct.gram, atol=1e-14)
    # |J − B|²/|B|² is 10⁻⁶ on average, with 3 · 90 weights of unequal variance on both sides.
    assert deviations.distance(found, LAM) == pytest.approx(1e-3, rel=0.5)
    # 1 − cos is half of the squared angle, at most 10⁻⁶.
    np.testing.assert_allclose(deviations.alignments(found, LAM), 1, atol=2e-6)
    assert np.all(deviations.alignments(theory.project(noise, B), LAM) < 0.9)
    r, s, q, c = deviations.mean_deviations(found)
    i, off = np.arange(3), ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(r, (direct.R - direct.T)[:, i, i].mean(1), atol=1e-15)
    np.testing.assert_allclose(c, (direct.Q - direct.T)[:, off].mean(1), atol=1e-15)
    # With e^k = q^k − r^k − r^kᵀ + t^k the four are one equation for each kind of entry.
    e = deviations.deviation(found)
    np.testing.assert_allclose(q - 2 * r, e[:, i, i].mean(1), atol=1e-15)
    np.testing.assert_allclose(c - 2 * s, e[:, off].mean(1), atol=1e-15)
