"""Dense linear algebra in JAX that passes a CPU only one matrix at a time.

jaxlib spreads a batched LAPACK call over XLA's threads and blocks the calling thread until all
parts are done. Two such calls in one program can deadlock by blocking every thread. Here a batch,
whether from `vmap` or from leading axes, is a loop on a CPU and one batched call elsewhere.

Traced code uses these functions instead of `jnp.linalg`. They support forward derivatives only.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from learndyn.runtime.types import Array


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a `vmap` that is a loop on a CPU and the usual one elsewhere.

    Inside the loop `lax.cond` still computes only the branch that is needed, whereas an ordinary
    `vmap` would compute both.

    Args:
        function: takes arrays as positional arguments.

    Returns:
        The function, with forward derivatives.
    """
    batching = custom_vmap(function)
    single = jax.custom_jvp(batching)

    @batching.def_vmap
    def rule(size, batched, *args):
        del size

        # Arguments that are not batched stay outside the loop, so that they are not copied.
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
        # The derivative calls LAPACK too, so it needs a loop of its own.
        tangent = one_by_one(lambda *args: jax.jvp(function, args[:n], args[n:])[1])
        return single(*primals), tangent(*primals, *tangents)

    return single


def _over_leading_axes(function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    return jnp.vectorize(one_by_one(function), signature=signature)


_eigh = _over_leading_axes(lambda A: tuple(jnp.linalg.eigh(A)), "(n,n)->(n),(n,n)")
# The lambdas hide the optional arguments of `jnp.linalg`, which are not arrays to be batched.
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
    # Only a vector proper is a right-hand side (n,): in (…, n) leading axes would be ambiguous.
    b = jnp.asarray(b)
    return solver(A, b[:, None])[..., 0] if b.ndim == 1 else solver(A, b)
