"""The largest eigenvalue of a matrix while tracing, against LAPACK's."""

import jax
import numpy as np
import pytest

from learndyn.numerics.lanczos import TRACED, largest_eigenvalue

SIZE = 3 * TRACED
TRACED_LARGEST = jax.jit(largest_eigenvalue)


def symmetric(values: np.ndarray, seed: int) -> np.ndarray:
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((SIZE, SIZE)))[0]
    return basis * values @ basis.T


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (np.r_[np.linspace(0, 1, SIZE - 1), 2.0], 1e-12),  # a gap
        (np.r_[np.zeros(SIZE - 3), 1.0, 2.0, 3.0], 1e-12),  # a Krylov space of four vectors
        (-np.r_[np.ones(SIZE - 1), 3.0], 1e-12),  # all negative
        (np.linspace(-1, 1, SIZE), 2 * (np.log(SIZE) / (2 * TRACED)) ** 2),  # no gap: the bound
    ],
)
def test_the_largest_eigenvalue_while_tracing(values, error):
    with jax.enable_x64(True):
        for seed in range(3):
            found = float(TRACED_LARGEST(symmetric(values, seed)))
            assert values.max() - error <= found <= values.max() + 1e-12
