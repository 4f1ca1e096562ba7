"""Factors of positive semidefinite matrices that may be singular, or indefinite by rounding.

One rule decides what counts as zero: a number of at most `rounding(n)` times its scale. The scale
of a pivot is the diagonal entry it was computed from, that of an eigenvalue of a correlation
matrix is 1, and that of other eigenvalues is the largest one. There are three factorisations:

    gram_factor      F Fᵀ = C with as many columns as the rank of C; NumPy arrays, called once
    root_times       V g for V Vᵀ = S; many small matrices in every step of a compiled loop
    symmetric_roots  S^½ and S^(-½), which depend smoothly on S
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from learndyn.numerics import dense

UNROLLED = 16  # with more rows the unrolled form would take too long to compile

Matrices = Float[Array, "n n ..."]
Vectors = Float[Array, "b n ..."]


def rounding(n: int) -> float:
    """The size up to which a number computed in float64 counts as zero, for n rows of scale 1.

    16 n ε: sums of n terms err by about n ε, and the terms themselves come from such sums.
    """
    return 16 * n * 2.0**-52


def gram_factor(C: np.ndarray, rank: int | None = None) -> np.ndarray:
    """A factor F with F Fᵀ = C, for positive semidefinite C (…, n, n).

    Uses the eigenvalues of the correlations C_ij / √(C_ii C_jj), so that rows of very different
    lengths are all accurate: the error of F Fᵀ is rounding relative to √(C_ii C_jj). If C is
    indefinite, the error is as large as its negative part.

    Args:
        C: the matrices.
        rank: number of columns of F; further eigenvalues are taken for rounding. By default the
            largest rank of all matrices.

    Returns:
        F, (…, n, rank); if a matrix has a smaller rank, its last columns are zero.
    """
    lengths = np.sqrt(np.maximum(np.einsum("...ii->...i", C), 0.0))[..., None]
    inverse = np.divide(1.0, lengths, out=np.zeros(lengths.shape), where=lengths > 0)
    correlations = inverse * C * inverse.swapaxes(-1, -2)
    values, vectors = np.linalg.eigh((correlations + correlations.swapaxes(-1, -2)) / 2)
    kept = values > rounding(C.shape[-1])
    F = lengths * vectors * np.sqrt(np.where(kept, values, 0.0))[..., None, :]
    columns = np.max(np.count_nonzero(kept, axis=-1)) if rank is None else rank
    # eigh sorts ascending, so the columns that are zero come first.
    return F[..., ::-1][..., :columns]


def symmetric_roots(S: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
    """S^½ and its pseudo-inverse, both symmetric."""
    values, U = dense.eigh(S)
    kept = values > rounding(len(S)) * values[-1]
    roots = jnp.sqrt(jnp.where(kept, values, 0.0))
    # The inner `where` keeps 1/0 out of the branch that is not taken: its derivative is NaN.
    inverses = jnp.where(kept, 1 / jnp.where(kept, roots, 1.0), 0.0)
    return (U * roots) @ U.T, (U * inverses) @ U.T


def root_times(
    S: Matrices, g: Vectors, room: Array | None = None
) -> tuple[Vectors, Bool[Array, "n ..."]]:
    """V g for the lower triangular root V of S, without storing V.

    A Cholesky factorisation without pivoting; the matrices of a batch are the trailing axes. If a
    pivot counts as zero, so does its column: relative to the lengths of rows, V Vᵀ then differs
    from S by at most √rounding(n) in that column, and by rounding elsewhere.

    Args:
        S: positive semidefinite matrices; only the lower triangle is read.
        g: vectors.
        room: the largest rank that S can have; further pivots are taken for rounding. By default
            there is no limit.

    Returns:
        V g, and which columns of V are not zero.
    """
    return (_unrolled if len(S) <= UNROLLED else _looped)(S, g, room)


def _unrolled(S, g, room):
    """Entry by entry, so that the compiler can keep the entries in registers."""
    n = len(S)
    rest = [[S[i, k] for k in range(i + 1)] for i in range(n)]
    total, used, rank = [jnp.zeros(()) for _ in range(n)], [], 0
    for j in range(n):
        scale, kept = _pivot(rest[j][j], S[j, j], n, rank, room)
        column = [rest[i][j] * scale for i in range(j, n)]
        for i in range(j, n):
            total[i] = total[i] + column[i - j] * g[:, j]
            for k in range(j + 1, i + 1):
                rest[i][k] = rest[i][k] - column[i - j] * column[k - j]
        used.append(kept)
        rank = rank + kept
    return jnp.stack(total, axis=1), jnp.stack(used)


def _looped(S, g, room):
    """Column by column, as a loop."""
    n = len(S)
    tail = jnp.broadcast_shapes(S.shape[2:], g.shape[2:])
    begin = (
        jnp.broadcast_to(S, (n, n, *tail)),
        jnp.zeros((*g.shape[:2], *tail)),
        jnp.zeros((n, *tail), bool),
    )

    def column_of(j, carry):
        rest, total, used = carry
        scale, kept = _pivot(rest[j, j], S[j, j], n, jnp.sum(used, axis=0), room)
        below = (jnp.arange(n) >= j).reshape(n, *(1 for _ in tail))
        column = jnp.where(below, rest[:, j] * scale, 0.0)
        rest = rest - column[:, None] * column
        return rest, total + column * g[:, j, None], used.at[j].set(kept)

    return jax.lax.fori_loop(0, n, column_of, begin)[1:]


def _pivot(pivot, diagonal, n, rank, room):
    """1/√pivot and True, or 0 and False where the pivot counts as zero."""
    kept = pivot > rounding(n) * diagonal
    # Rounding can leave a pivot above the threshold where the rank is already complete.
    if room is not None:
        kept = kept & (rank < room)
    return jnp.where(kept, jax.lax.rsqrt(jnp.where(kept, pivot, 1.0)), 0.0), kept
