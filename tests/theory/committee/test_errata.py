"""The printed form is the one the reference lists as wrong, and it is wrong."""

import numpy as np

import learndyn as ld
from learndyn.theory.committee.dynamics import moments
from learndyn.theory.committee.dynamics.overlaps import finite_size_noise
from learndyn.theory.committee.errata import (
    printed_eq6,
    printed_eq13_rate,
    printed_eq25,
    printed_eq34_noise,
    printed_eq44,
    printed_extreme_ratio,
    printed_outside_norm,
)
from learndyn.theory.committee.landscape.spectra import negative_to_null_ratio
from learndyn.theory.committee.landscape.stationary import stationary_point
from learndyn.theory.committee.plateau.quadratic import growth_rate


def test_printed_eq34():
    Q, rho = np.array([[0.736]]), np.array([[0.169]])
    printed = printed_eq34_noise(Q, rho, 0.05)
    np.testing.assert_allclose(printed, 0.17312320000000003, rtol=1e-12)
    assert abs(printed[0, 0] - 0.19105513344) > 0.01  # ⟨FF⟩ by brute-force Wick pairings


def test_printed_extreme_is_not_the_ratio_at_the_largest_plateau():
    assert printed_extreme_ratio(12, 2) == 4 / 7
    np.testing.assert_allclose(negative_to_null_ratio(12, 10, 2), 4 / 9, rtol=1e-14)


def test_finite_size_noise():
    # Reference: N times the exact one-step mean of Q for N = 50, p = p* = 1, η = 0.05.
    first_order, noise = -0.3327863999999999, 0.19105513344
    exact = first_order + finite_size_noise(50) * noise
    np.testing.assert_allclose(exact, -0.11880465054719991, rtol=1e-12)


def test_printed_eq6_from_the_printed_matrices():
    """Companion matrix A_1 of Eq. 27, eigenvectors with first entry 1, b of Eq. 6."""
    spectrum, eta, alphas = ld.PowerLaw(30, 3, 1.0), 0.5, np.array([0.0, 0.3, 2.0])
    lam, L = spectrum.values, 3
    A1 = np.diag(-np.ones(L - 1), 1)
    A1[-1] += np.poly(lam)[:0:-1]
    u = np.array([np.mean(lam**l) for l in range(1, L + 1)])
    rates, W = np.linalg.eig(A1 + eta * np.outer(u, np.eye(L)[1]))
    b = np.linalg.solve(W / W[0], u)
    terms = b * np.abs(rates) * np.exp(-2 * eta * np.abs(np.multiply.outer(alphas, rates)))
    found = printed_eq6(alphas, spectrum, eta, 1.0)
    np.testing.assert_allclose(found, terms.sum(axis=1) / L, rtol=1e-10)
    # At α = 0 the error is (1 + σ_J²)/2, and the printed form (1 − η) T^(2)/L of it.
    np.testing.assert_allclose(found[0], (1 - eta) * u[1] / L, rtol=1e-12)
    np.testing.assert_allclose(printed_eq6(alphas, spectrum, 1.0, 1.0), 0.0, atol=1e-14)


def test_eq44_is_the_corner_of_the_inverse_and_its_print_is_not():
    spectrum, eta = ld.PowerLaw(40, 4, 1.0), 0.7
    lam, phi = spectrum.values, spectrum.counts / spectrum.dim
    corner = np.linalg.inv(moments.student_matrix(lam, phi, eta))[0, 0]
    np.testing.assert_allclose(moments.inverse_corner(lam, eta), corner, rtol=1e-11)
    assert abs(printed_eq44(lam, eta) / corner - 1) > 0.01
    # −A₄/2 has the eigenvalues λ̃_k of the corrected Eq. 6.
    rates = np.sort(np.linalg.eigvals(-moments.student_matrix(lam, phi, 0.0) / 2).real)
    np.testing.assert_allclose(rates, lam[::-1], rtol=1e-10)


def test_printed_eq25_has_the_other_sign_at_first_order():
    """Against the level equation dr^k = η λ_k (t^k − r^k), dq^k = 2 η λ_k (r^k − q^k) + η² …"""
    lam, phi, eta = np.array([1.5, 0.5]), np.array([0.5, 0.5]), 0.3
    q, r, t = np.array([[0.7, 0.4], [0.2, -0.1], [0.6, 0.5]])
    state = moments.moments_of(ld.Overlaps(*(x[:, None, None] for x in (q, r, t))), lam)
    first_R, first_Q = lam @ (eta * lam * (t - r)), lam @ (2 * eta * lam * (r - q))
    noise = lam @ (eta**2 * lam * phi) * (lam @ (q - 2 * r + t))
    dR, dQ = printed_eq25(state, lam, phi, eta)
    np.testing.assert_allclose(dR, [[-first_R]], rtol=1e-13)
    np.testing.assert_allclose(dQ, [[noise - first_Q]], rtol=1e-13)
    true = moments.drift(state, lam, phi, eta, "linear")
    np.testing.assert_allclose(true.Q[-1], [[noise + first_Q]], rtol=1e-13)


def test_printed_rate_of_the_loss_is_right_in_the_other_clock():
    p, p_star = 8, 3
    assert printed_eq13_rate(p_star) == p * 2 * growth_rate(p, p_star)


def test_printed_norm_outside_the_teacher_is_not_stationary():
    for p, r in [(3, 2), (6, 3)]:
        alpha = printed_outside_norm(p, r)
        np.testing.assert_allclose(1 - r / p - 2 * alpha / p, 0, atol=1e-15)
        assert abs(stationary_point(p, 2, s=0, r=r).b - alpha) > 0.05
