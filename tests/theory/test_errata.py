"""The printed form is the one the reference lists as wrong, and it is wrong."""

import numpy as np

from learndyn.theory.committee.errata import printed_eq34_noise, printed_extreme_ratio
from learndyn.theory.committee.quadratic import finite_size_noise
from learndyn.theory.committee.stationary import negative_to_null_ratio


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
