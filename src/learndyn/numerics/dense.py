"""Dense linear algebra in JAX that never hands a CPU more than one matrix at a time.

jaxlib spreads a batched LAPACK call over XLA's threads and blocks the calling one until all parts
are done. Two such calls in one program can block every thread that there is, for good. So here a
batch, whether `vmap` or leading axes make it, is a loop on a CPU; elsewhere it is one batched call.

What is traced takes these functions, never `jnp.linalg`. They have forward derivatives only.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from learndyn.numerics.types import Array


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a `vmap` that is a loop on a CPU, and as it was elsewhere.

    In the loop a `lax.cond` remains one: only the branch that is needed is computed.

    Args:
        function: of arrays, given by position.

    Returns:
        The function, with forward derivatives.
    """
    batching = custom_vmap(function)
    single = jax.custom_jvp(batching)

    @batching.def_vmap
    def rule(size, batched, *args):
        del size

        def looped(*args):
            mapped = [arg if is_ else None for arg, is_ in zip(args, batched, strict=True)]
            pick = lambda arg, own: arg if own is None else own
            return jax.lax.map(lambda own: single(*map(pick, args, own)), mapped)

        together = jax.vmap(function, [0 if is_ else None for is_ in batched])
        out = jax.lax.platform_dependent(*args, cpu=looped, default=together)
        return out, jax.tree.map(lambda _: True, out)

    @single.defjvp
    def derivative(primals, tangents):
        n = len(primals)
        # Its own loop, since the derivative calls LAPACK too.
        tangent = one_by_one(lambda *args: jax.jvp(function, args[:n], args[n:])[1])
        return single(*primals), tangent(*primals, *tangents)

    return single


def _over_leading_axes(function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    return jnp.vectorize(one_by_one(function), signature=signature)


_eigh = _over_leading_axes(lambda A: tuple(jnp.linalg.eigh(A)), "(n,n)->(n),(n,n)")
_cholesky = _over_leading_axes(lambda A: jnp.linalg.cholesky(A), "(n,n)->(n,n)")
_solve = _over_leading_axes(jnp.linalg.solve, "(n,n),(n,m)->(n,m)")
_solve_lower = _over_leading_axes(
    lambda L, b: jax.scipy.linalg.solve_triangular(L, b, lower=True), "(n,n),(n,m)->(n,m)"
)
_solve_cholesky = _over_leading_axes(
    lambda L, b: jax.scipy.linalg.cho_solve((L, True), b), "(n,n),(n,m)->(n,m)"
)
_triangular = _over_leading_axes(lambda A: jnp.linalg.qr(A, mode="r"), "(n,m)->(m,m)")
_orthonormal = _over_leading_axes(lambda A: jnp.linalg.qr(A)[0], "(n,m)->(n,m)")
_pinv = _over_leading_axes(lambda A: jnp.linalg.pinv(A), "(n,m)->(m,n)")
_spectral_norm = _over_leading_axes(lambda A: jnp.linalg.norm(A, 2), "(n,m)->()")


def eigh(A: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues (…, n) and eigenvectors, as columns, of symmetric A (…, n, n)."""
    return _eigh(A)


def cholesky(A: Array) -> Array:
    """The lower triangular L with L Lᵀ = A, (…, n, n); NaN where A is not positive definite."""
    return _cholesky(A)


def solve(A: Array, b: Array) -> Array:
    """A⁻¹ b, for b of shape (n,) or (…, n, m)."""
    return _with_columns(_solve, A, b)


def solve_lower(L: Array, b: Array) -> Array:
    """L⁻¹ b for lower triangular L, for b of shape (n,) or (…, n, m)."""
    return _with_columns(_solve_lower, L, b)


def solve_cholesky(L: Array, b: Array) -> Array:
    """(L Lᵀ)⁻¹ b for lower triangular L, for b of shape (n,) or (…, n, m)."""
    return _with_columns(_solve_cholesky, L, b)


def triangular(A: Array) -> Array:
    """The upper triangular R (…, m, m) with RᵀR = AᵀA, for A (…, n, m) with n ≥ m."""
    return _triangular(A)


def orthonormal(A: Array) -> Array:
    """Orthonormal columns that span those of A, (…, n, m) with n ≥ m."""
    return _orthonormal(A)


def pinv(A: Array) -> Array:
    """The pseudo-inverse (…, m, n) of A (…, n, m)."""
    return _pinv(A)


def spectral_norm(A: Array) -> Array:
    """The largest singular value (…) of A (…, n, m)."""
    return _spectral_norm(A)


def _with_columns(solver: Callable[..., Any], A: Array, b: Array) -> Array:
    b = jnp.asarray(b)
    return solver(A, b[:, None])[..., 0] if b.ndim == 1 else solver(A, b)
