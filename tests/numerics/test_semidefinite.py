"""Factors and roots of semidefinite matrices: singular, graded, and indefinite by rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics import semidefinite
from learndyn.numerics.semidefinite import gram_factor, root_times, rounding, symmetric_roots


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


def gap(F, C):
    """The largest error of F Fᵀ, relative to the lengths of the rows."""
    lengths = np.sqrt(np.einsum("...ii->...i", C))
    scale = lengths[..., :, None] * lengths[..., None, :]
    return np.max(np.abs(F @ F.swapaxes(-1, -2) - C) / np.where(scale > 0, scale, 1.0))


@pytest.mark.parametrize("n, rank", [(1, 1), (4, 1), (4, 2), (4, 4), (7, 3), (30, 29)])
def test_gram_factor_has_the_rank_and_keeps_rows_of_every_length(n, rank):
    rng = np.random.default_rng(n + rank)
    lengths = 10.0 ** rng.uniform(-9, 9, (200, n, 1))
    rows = rng.standard_normal((200, n, rank)) * lengths
    C = rows @ rows.swapaxes(1, 2)
    F = gram_factor(C)
    assert F.shape == (200, n, rank) and gap(F, C) < rounding(n)
    assert gap(gram_factor(C, rank), C) < rounding(n)
    np.testing.assert_array_equal(gram_factor(C[0]), F[0])


def test_gram_factor_of_different_ranks_fills_the_first_columns():
    rows = np.random.default_rng(0).standard_normal((3, 4, 3))
    rows[1, :, 1:] = 0.0
    rows[2] = 0.0
    rows[:, 0] = 0.0  # rows without length
    C = rows @ rows.swapaxes(1, 2)
    F = gram_factor(C)
    assert gap(F, C) < rounding(4)
    expected = [[True, True, True], [True, False, False], 3 * [False]]
    np.testing.assert_array_equal(np.any(F, axis=1), expected)
    assert gram_factor(np.zeros((4, 4))).shape == (4, 0)
    assert not np.any(gram_factor(np.zeros((4, 4)), 2))


def test_gram_factor_keeps_what_nearly_parallel_rows_differ_by():
    """Where 1e-9 is the difference of two rows, and its square below rounding."""
    rows = np.array([[1.0, 0.0], [1.0, 1e-9], [0.0, 1.0]])
    assert gap(gram_factor(rows @ rows.T), rows @ rows.T) < rounding(3)


@pytest.mark.parametrize("size", [1e-15, 1e-12, 1e-9])
def test_gram_factor_errs_by_what_is_negative(size):
    rng = np.random.default_rng(1)
    rows, noise = rng.standard_normal((500, 5, 2)), rng.uniform(-1, 1, (500, 5, 5))
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    C = rows @ rows.swapaxes(1, 2) + size * (noise + noise.swapaxes(1, 2)) / 2
    # An eigenvalue of the noise is at most 5 · size.
    assert gap(gram_factor(C), C) < 5.1 * size + rounding(5)


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_symmetric_roots(rank):
    S = matrices(4, rank, many=1)[..., 0]
    with jax.enable_x64(True):
        root, inverse = map(np.asarray, symmetric_roots(jnp.asarray(S)))
    np.testing.assert_allclose(root, root.T, atol=1e-14)
    np.testing.assert_allclose(root @ root, S, atol=1e-13)
    np.testing.assert_allclose(inverse, np.linalg.pinv(root, rcond=1e-7), rtol=1e-9, atol=1e-9)


def test_without_pivoting_the_column_of_a_row_that_is_rounding_is_lost(form):
    """What the docstring of `root_times` says, at its worst."""
    rows = np.array([[1.0, 0.0], [1.0, 1e-8], [0.0, 1.0]])
    S = (rows @ rows.T)[..., None]
    V, used = roots(S)
    assert used[:, 0].tolist() == [True, False, True]
    apart = np.abs(np.einsum("ijm,kjm->ikm", V, V) - S)[..., 0]
    assert 0 < apart[2, 1] < np.sqrt(rounding(3))
    apart[1, 2] = apart[2, 1] = 0.0
    assert np.max(apart) < rounding(3)
