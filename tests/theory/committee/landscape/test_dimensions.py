import numpy as np
import pytest

from learndyn.numerics import stiefel
from learndyn.theory.committee.landscape import dimensions, solutions


def test_gram_jacobian_is_that_of_differences():
    rng = np.random.default_rng(13)
    V, U = rng.standard_normal((2, 3, 4))
    upper = np.triu_indices(4)
    change = ((V + U / 2).T @ (V + U / 2) - (V - U / 2).T @ (V - U / 2))[upper]
    np.testing.assert_allclose(dimensions.gram_jacobian(V) @ U.ravel(), change, atol=1e-14)


@pytest.mark.parametrize("N, p", [(7, 3), (4, 6), (5, 5), (6, 1)])
def test_gram_jacobian_counts_the_degrees_of_freedom(N, p):
    V = np.random.default_rng(14).standard_normal((p, N))
    rank = np.linalg.matrix_rank(dimensions.gram_jacobian(V))
    assert rank == dimensions.degrees_of_freedom(N, p)


@pytest.mark.parametrize("p, p_star", [(3, 2), (3, 3), (5, 1), (6, 3), (1, 1)])
def test_rotations_span_the_manifold(p, p_star):
    rng = np.random.default_rng(15)
    V = solutions.nearest_weights(*(rng.standard_normal((units, 8)) for units in (p, p_star)))
    moves = dimensions.rotation_directions(V)
    # Rotations keep VᵀV: to first order they lie in the null space of its Jacobian.
    assert np.abs(dimensions.gram_jacobian(V) @ moves.T).max(initial=0.0) < 1e-13
    dimension = dimensions.manifold_dimension(p, p_star)
    assert (np.linalg.matrix_rank(moves) if len(moves) else 0) == dimension


@pytest.mark.parametrize("N, p, expected", [(7, 3, 18), (4, 6, 10), (5, 5, 15), (6, 1, 6)])
def test_degrees_of_freedom(N, p, expected):
    assert dimensions.degrees_of_freedom(N, p) == expected
    V = np.random.default_rng(8).standard_normal((p, N))
    units = np.eye(p * N).reshape(-1, p, N)
    jacobian = [(U.T @ V + V.T @ U).ravel() for U in units]
    assert np.linalg.matrix_rank(jacobian) == expected


@pytest.mark.parametrize(
    "p, p_star, N, expected",
    [(3, 2, None, 3), (3, 3, None, 3), (5, 1, None, 4), (6, 3, 8, 12), (6, 2, 4, 9), (6, 7, 4, 14)],
)
def test_manifold_dimension(p, p_star, N, expected):
    assert dimensions.manifold_dimension(p, p_star, N) == expected
    N = N or p_star + 3
    rng = np.random.default_rng(9)
    _, d, Ot = np.linalg.svd(rng.standard_normal((p_star, N)), full_matrices=False)
    V = np.sqrt(p / p_star) * stiefel.random_point(p, len(d), rng) @ (d[:, None] * Ot)
    # All solutions are rotations of this one: count the directions in which rotations move it.
    rows, columns = np.triu_indices(p, 1)
    omega = np.zeros((len(rows), p, p))
    omega[range(len(rows)), rows, columns] = 1.0
    moves = ((omega - omega.transpose(0, 2, 1)) @ V).reshape(len(rows), -1)
    assert np.linalg.matrix_rank(moves) == expected


def test_bad_sizes():
    with pytest.raises(ValueError, match=r"p: got 2; allowed is at least .* = 3"):
        dimensions.manifold_dimension(2, 3)
    with pytest.raises(ValueError, match="N: got 0; allowed is a positive integer"):
        dimensions.degrees_of_freedom(0, 3)
