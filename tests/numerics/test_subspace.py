"""Top eigenpairs from Krylov spaces against all of LAPACK's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics import subspace

SIZE, S = 80, 5
FRAME = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, SIZE)))[0]
SPECTRA = {
    "power": np.arange(1.0, SIZE + 1) ** -1.5,
    "close": np.linspace(2.0, 1.0, SIZE),
    "in pairs": np.repeat(np.linspace(2.0, 0.0, SIZE // 2), 2),
    "of rank 3": np.where(np.arange(SIZE) < 3, 1.0, 0.0),
    "zero": np.zeros(SIZE),
}
top = jax.jit(lambda A: subspace.top_of(A, S))


def matrix(spectrum, dtype):
    A = (FRAME * spectrum) @ FRAME.T
    return ((A + A.T) / 2).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SPECTRA)
def test_pairs_are_exact_to_rounding(name, dtype):
    """Residuals, orthonormality and values, in roundings of λ_1; sums of 80 terms have some too."""
    A, rounding = matrix(SPECTRA[name], dtype), np.finfo(dtype).eps
    with jax.enable_x64(dtype == "float64"):
        values, V = map(np.asarray, top(jnp.asarray(A)))
    A, V = A.astype(float), V.astype(float)
    size, bound = SPECTRA[name][0], 2 * subspace.ROUNDINGS * rounding
    assert np.all(np.linalg.norm(A @ V - V * values, axis=0) <= bound * size)
    np.testing.assert_allclose(V.T @ V, np.eye(S), atol=4 * bound)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1][:S], atol=bound * size)


def test_what_does_not_converge_is_computed_whole(monkeypatch):
    monkeypatch.setattr(subspace, "CYCLES", 0)
    A = jnp.asarray(matrix(SPECTRA["close"], "float32"))
    for found, expected in zip(subspace.top_of(A, S), subspace.whole(A, S), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_is_not_finite_stays_so():
    assert np.all(np.isnan(top(jnp.full((SIZE, SIZE), jnp.nan, "float32"))[0]))
