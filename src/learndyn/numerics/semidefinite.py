"""Roots of many small positive semidefinite matrices at once, the many as trailing axes.

Cholesky without pivoting: V lower triangular, V Vᵀ = S. A pivot that is not above rounding
(16 n ε times its diagonal entry) counts as zero, together with its column. This projection is
how matrices that are singular, or have become indefinite by rounding, are handled: what it
changes in S is of the size of rounding.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

UNROLLED = 16  # above so many rows the unrolled form would compile for too long
_EPS = 2.0**-52

Matrices = Float[Array, "n n ..."]
Vectors = Float[Array, "b n ..."]


def root_times(
    S: Matrices, g: Vectors, room: Array | None = None
) -> tuple[Vectors, Bool[Array, "n ..."]]:
    """V g for the lower triangular root V of S, without keeping V.

    Args:
        S: positive semidefinite matrices; only the lower triangle is read.
        g: vectors.
        room: the largest rank that S can have; what exceeds it is rounding. None is any.

    Returns:
        V g, and which columns of V are not zero.
    """
    return (_unrolled if len(S) <= UNROLLED else _looped)(S, g, room)


def _unrolled(S, g, room):
    """Entry by entry: the compiler then keeps what it needs in registers."""
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
    kept = pivot > 16 * n * _EPS * diagonal
    if room is not None:
        kept = kept & (rank < room)
    return jnp.where(kept, jax.lax.rsqrt(jnp.where(kept, pivot, 1.0)), 0.0), kept
