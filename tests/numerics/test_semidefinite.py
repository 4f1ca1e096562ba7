"""Roots of semidefinite matrices, unrolled and looped, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics import semidefinite
from learndyn.numerics.semidefinite import root_times


def roots(S, room=None):
    """V itself, by its action on the unit vectors."""
    n = len(S)
    unit = np.broadcast_to(np.eye(n).reshape(n, n, *(1 for _ in S.shape[2:])), S.shape)
    with jax.enable_x64(True):
        V, used = jax.jit(root_times)(jnp.asarray(S), jnp.asarray(unit), room)
    return np.asarray(V).swapaxes(0, 1), np.asarray(used)


def matrices(n, rank, many=7):
    F = np.random.default_rng(n + rank).standard_normal((n, rank, many))
    return np.einsum("irm,krm->ikm", F, F)


@pytest.fixture(params=["unrolled", "looped"])
def form(request, monkeypatch):
    monkeypatch.setattr(semidefinite, "UNROLLED", {"unrolled": 16, "looped": 0}[request.param])


def test_definite_matrices_give_cholesky(form):
    S = matrices(4, 6)
    V, used = roots(S)
    assert np.all(used)
    for m in range(S.shape[2]):
        np.testing.assert_allclose(V[..., m], np.linalg.cholesky(S[..., m]), atol=1e-13)


def test_singular_matrices_are_reproduced(form):
    S = matrices(5, 3)
    V, used = roots(S)
    np.testing.assert_allclose(np.einsum("ijm,kjm->ikm", V, V), S, atol=1e-13)
    assert np.all(np.isfinite(V)) and np.all(used[:3])
    V, used = roots(S, jnp.asarray(3.0))
    assert np.all(used.sum(axis=0) == 3)


def test_zero_rows_and_indefinite_rounding_are_projected(form):
    S = matrices(3, 3)
    S[1] = S[:, 1] = 0.0
    S[2, 2] = S[2, 0] ** 2 / S[0, 0] * (1 - 1e-15)  # a pivot just below zero
    V, used = roots(S)
    assert np.all(V[:, 1] == 0) and not np.any(used[1])
    assert np.all(V[2, 2] == 0) and not np.any(used[2])
    assert not np.any(roots(np.zeros((3, 3, 2)))[0])
