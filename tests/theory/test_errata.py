"""The printed form is the one the reference lists as wrong, and it is wrong."""

import numpy as np

from learndyn.theory.committee.errata import printed_eq34_noise


def test_printed_eq34():
    Q, rho = np.array([[0.736]]), np.array([[0.169]])
    printed = printed_eq34_noise(Q, rho, 0.05)
    np.testing.assert_allclose(printed, 0.17312320000000003, rtol=1e-12)
    assert abs(printed[0, 0] - 0.19105513344) > 0.01  # ⟨FF⟩ by brute-force Wick pairings
