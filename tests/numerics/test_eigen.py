"""Lanczos iteration on NumPy, JAX and PyTorch vectors against known spectra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics.lanczos import eigen, spectral_norm
from learndyn.numerics.vectors import as_numpy

RNG = np.random.default_rng(0)
BULK = RNG.uniform(-0.5, 0.5, 300)
VALUES = np.r_[BULK, 1, 1.02, 2, 3, -1.5, -4.0]


def kinds():
    yield "numpy", np.asarray
    yield "jax", jnp.asarray
    try:
        import torch
    except ImportError:
        return
    yield "torch", lambda a: torch.from_numpy(np.array(a))


def sought(which, k):
    up = np.sort(VALUES)
    ends = {"largest": up[-k:], "smallest": up[:k], "both": np.r_[up[:k], up[-k:]]}
    return ends[which][::-1]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in kinds()])
@pytest.mark.parametrize(("which", "k"), [("largest", 4), ("smallest", 2), ("both", 2)])
def test_values_vectors_and_residuals(make, which, k):
    """To machine precision, with no more vectors held than allowed, and so with restarts."""
    with jax.enable_x64(True):
        A, start = make(VALUES), make(RNG.standard_normal(len(VALUES)))
        kept = type(start)
        found = eigen(lambda v: A * v, start, k, which=which, tolerance=0, basis=10)
        loose = eigen(lambda v: A * v, start, k, which=which, basis=10)
    expected = sought(which, k)
    assert isinstance(found.vectors, kept) and found.products > 10 >= len(found.values)
    assert loose.products < found.products
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-13 * 4)
    rows = as_numpy(found.vectors)
    np.testing.assert_allclose(rows * VALUES, rows * expected[:, None], atol=1e-12)
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    rows = as_numpy(loose.vectors)  # the residual is what it says, and bounds the error
    residuals = np.linalg.norm(rows * VALUES - rows * loose.values[:, None], axis=1)
    np.testing.assert_allclose(loose.residuals, residuals, atol=1e-12)
    assert np.all(abs(loose.values - expected) <= residuals + 1e-12)
    assert np.all(residuals <= 1e-3 * abs(loose.values) + 1e-12)


def test_exhausted_spaces():
    """The start vector spans few directions; others are found all the same."""
    start = np.r_[1.0, np.zeros(len(VALUES) - 1)]
    found = eigen(lambda v: VALUES * v, start, 2, tolerance=0)
    np.testing.assert_allclose(found.values, [3, 2], atol=1e-12)
    assert eigen(lambda v: 0 * v, np.ones(100), 2).values.tolist() == [0, 0]
    np.testing.assert_allclose(eigen(lambda v: -v, np.ones(100), 2).values, [-1, -1])


def test_norms_and_what_is_not_finite():
    start = RNG.standard_normal(len(VALUES))
    assert spectral_norm(lambda v: VALUES * v, start) == pytest.approx(4, rel=1e-13)
    assert np.isnan(eigen(lambda v: v * np.nan, start).values).all()


def test_single_precision_ends():
    start = RNG.standard_normal(len(VALUES)).astype(np.float32)
    found = eigen(lambda v: VALUES.astype(np.float32) * v, start, 3, tolerance=0)
    np.testing.assert_allclose(found.values, [3, 2, 1.02], rtol=1e-5)
