"""Quadrature: moments by Isserlis, an average in closed form, and convergence."""

import numpy as np
import pytest
from scipy import special

from learndyn.numerics.quadrature import gaussian_average

C = np.array([[1.0, 0.4, 0.5], [0.4, 0.8, 0.3], [0.5, 0.3, 1.2]])


def test_moments_are_exact():
    found = gaussian_average(lambda z: z[:, 0] ** 2 * z[:, 1] * z[:, 2], C, 4)
    assert found == pytest.approx(C[0, 0] * C[1, 2] + 2 * C[0, 1] * C[0, 2], rel=1e-13)
    assert gaussian_average(lambda z: z[:, 0] ** 3, C, 4) == pytest.approx(0, abs=1e-13)


def test_average_of_error_functions():
    """E[erf(u/√2) erf(v/√2)] = (2/π) arcsin(C_uv/√((1 + C_uu)(1 + C_vv)))."""
    product = lambda z: special.erf(z / np.sqrt(2)).prod(axis=1)
    exact = 2 / np.pi * np.arcsin(0.4 / np.sqrt(2.0 * 1.8))
    misses = [abs(gaussian_average(product, C[:2, :2], n) / exact - 1) for n in (10, 20, 40)]
    assert misses[0] > misses[1] > misses[2] and misses[2] < 1e-8
