"""Products w_d ⋯ w_1 of matrices, and powers of their Gauss-Newton matrix, in JAX.

With ℓ_i = w_d ⋯ w_{i+1} and r_i = w_{i−1} ⋯ w_1 the product is w̄ = ℓ_i w_i r_i for every i, so
that the Jacobian of vec w̄ (column-major) is J = [J_1 … J_d], J_i = r_iᵀ ⊗ ℓ_i. The Gauss-Newton
matrix H = JᵀJ has as many rows as there are weights, the kernel K = JJᵀ only N_o N_i, and
f(JᵀJ) Jᵀ = Jᵀ f(JJᵀ) carries every power of H over to K.

A root R of an input covariance Σ = R Rᵀ replaces w̄ by the whitened map w̄ R, hence r_i by r_i R
everywhere. R = Σ^½ is a choice; R = X/√P of shape (N_i, P) is another.
"""

import functools
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from learndyn.numerics import dense
from learndyn.runtime import checks
from learndyn.runtime.types import Array, Number

FORMS = ("paper", "levenberg")
KRONECKER_FORMS = ("factored", "levenberg")


def product(weights: tuple[Array, ...]) -> Array:
    """The product w_d ⋯ w_1 of (w_1, …, w_d), w_i of shape (n_i, n_{i−1})."""
    return functools.reduce(lambda right, w: w @ right, weights)


def sides(weights: tuple[Array, ...], root: Array | None = None) -> tuple[list[Array], list[Array]]:
    """The products left and right of each factor: ℓ_i = w_d ⋯ w_{i+1} and r_i = w_{i−1} ⋯ w_1.

    Args:
        weights: (w_1, …, w_d), w_i of shape (n_i, n_{i−1}).
        root: R, shape (n_0, k); if given, the right products are r_i R.

    Returns:
        [ℓ_1, …, ℓ_d] and [r_1, …, r_d]; ℓ_d = I and r_1 = I, or R.
    """
    first, last = jnp.asarray(weights[0]), jnp.asarray(weights[-1])
    rights = [jnp.eye(first.shape[1], dtype=first.dtype) if root is None else root]
    for w in weights[:-1]:
        rights.append(w @ rights[-1])
    lefts = [jnp.eye(last.shape[0], dtype=last.dtype)]
    for w in weights[:0:-1]:
        lefts.append(lefts[-1] @ w)
    return lefts[::-1], rights


def block_condition(weights: tuple[Array, ...]) -> float:
    """The largest condition number of a layer's Gauss-Newton block, (r_i r_iᵀ) ⊗ (ℓ_iᵀ ℓ_i)."""
    pairs = zip(*sides(weights), strict=True)
    return max(float(np.linalg.cond(left) * np.linalg.cond(right)) ** 2 for left, right in pairs)


def map_kernel(weights: tuple[Array, ...], root: Array | None = None) -> Array:
    """K = JJᵀ = Σ_i (r_iᵀ r_i) ⊗ (ℓ_i ℓ_iᵀ), for column-major vec; with a root, Σ_i of r_i R.

    Args:
        weights: (w_1, …, w_d), w_i of shape (n_i, n_{i−1}).
        root: R, shape (n_0, k), with Σ = R Rᵀ; None is white input.

    Returns:
        K, shape (n_d k, n_d k), k = n_0 for white input.
    """
    left_grams, right_grams = _grams(*sides(weights, root))
    n = left_grams.shape[-1] * right_grams.shape[-1]
    return jnp.einsum("iab,icd->acbd", right_grams, left_grams).reshape(n, n)


def inverse_power(
    K: Array,
    v: Array,
    power: Array | Number,
    *,
    damping: Array | Number = 0.0,
    form: str = "paper",
    cutoff: Array | Number | None = None,
) -> Array:
    """K^(−power) v for a symmetric positive semidefinite K, in the sense of the pseudo-inverse.

    Damped by ε, form "paper" is (1 + ε)^power (K + ε)^(−power) v, which for power 1 is Eq. 17 of
    the curvature-corrected rules, (1 + ε)(K + ε)⁻¹ v, and tends to v for ε → ∞ at every power;
    form "levenberg" drops the factor (1 + ε)^power. Power 0 is v itself, without projection.

    A power of 1 that is known when the function is traced is solved by Cholesky, and by
    eigenvalues where the factor fails or is ill-conditioned; other powers take the eigenvalues.

    Args:
        K: shape (n, n).
        v: shape (n,) or (n, m).
        power: the exponent; 1/q for the q-th root of K.
        damping: ε >= 0.
        form: "paper" or "levenberg".
        cutoff: eigenvalues below cutoff · λ_max count as zero, unless ε itself is above that;
            None is 10 n · (machine epsilon), just above the rounding of a product of matrices.

    Returns:
        The product, of the shape of v; zero for K = 0 without damping.
    """
    _check_static(damping, form)
    K = jnp.asarray(K)
    known, tiny = _known(power), _cutoff(cutoff, len(K), K.dtype)
    if known == 0:  # without this, directions below the cutoff would be removed
        return v
    if known == 1:
        return _scale(1, damping, form) * _solve(K, v, damping, tiny)
    return _scale(power, damping, form) * _spectral(K, v, power, damping, tiny)


def natural_direction(
    weights: tuple[Array, ...],
    gradient_of_map: Array,
    power: Array | Number,
    *,
    root: Array | None = None,
    blocks: bool = False,
    damping: Array | Number = 0.0,
    form: str = "paper",
    cutoff: Array | Number | None = None,
) -> tuple[Array, ...]:
    """H^(−power) g, layer by layer: ℓ_iᵀ Λ Rᵀ r_iᵀ with vec Λ = K^(−power) vec G.

    H = JᵀJ and g = Jᵀ vec G of the whitened map w̄ R. The direction has the least norm: it is
    orthogonal to the null space of H. Power 0 is the gradient, 1 the natural gradient; a step
    goes against the direction.

    With `blocks`, layer i takes only its own block of H, at the rate d^(−power):
    d^(−power) ℓ_iᵀ (ℓ_i ℓ_iᵀ)^(−power) G (Rᵀ r_iᵀ r_i R)^(−power) Rᵀ r_iᵀ (Eqs. 23 and 25). Damping
    is added to the block, before that factor.

    Args:
        weights: (w_1, …, w_d), w_i of shape (n_i, n_{i−1}).
        gradient_of_map: G, the gradient of the loss with respect to w̄ R, shape (n_d, k). For
            the squared error tr ΔΣΔᵀ/2 it is Δ R; for white input, Δ = w̄ − w̄_*.
        power: 1/q of the q-th root of H.
        root: R, shape (n_0, k), with Σ = R Rᵀ; None is white input.
        blocks: whether each layer is corrected by its own block alone.
        damping: ε >= 0, as in `inverse_power`.
        form: "paper" or "levenberg", as in `inverse_power`.
        cutoff: as in `inverse_power`, relative to the largest eigenvalue of K. For blocks, it is
            taken for ℓ_i ℓ_iᵀ and for Rᵀ r_iᵀ r_i R, each on its own.

    Returns:
        The direction, of the shapes of the weights.
    """
    _check_static(damping, form)
    lefts, rights = sides(weights, root)
    G, d = gradient_of_map, len(weights)
    options = {"power": power, "damping": damping, "form": form, "cutoff": cutoff}
    if _known(power) == 0:
        drives = d * [G]
    elif blocks:
        drives = _block_drives(lefts, rights, G, **options)
    elif d == 1:  # K = (r_1ᵀ r_1) ⊗ 1: a matrix of the inputs alone is inverted
        drives = [inverse_power(rights[0].T @ rights[0], G.T, **options).T]
    elif d == 2:  # small eigenproblems instead of one with n_d k rows
        drives = 2 * [_two_layer_drive(weights, rights, G, white=root is None, **options)]
    else:
        # vec is column-major, and JAX's arrays are row-major: hence the transposes.
        drive = inverse_power(map_kernel(weights, root), G.T.reshape(-1), **options)
        drives = d * [drive.reshape(G.shape[::-1]).T]
    return tuple(
        left.T @ drive @ right.T for left, drive, right in zip(lefts, drives, rights, strict=True)
    )


def kronecker_inverse(
    A: Array,
    G: Array,
    V: Array,
    *,
    damping: Array | Number = 0.0,
    form: str = "factored",
    cutoff: Array | Number | None = None,
) -> Array:
    """A⁻¹ V G⁻¹ for symmetric positive semidefinite A and G, in the sense of the pseudo-inverse.

    Damped by ε, form "factored" is (A + π√ε)⁻¹ V (G + √ε/π)⁻¹ with π² the mean eigenvalue of A over
    that of G (Martens & Grosse 2015, Sec. 6.3); form "levenberg" adds ε to A ⊗ G.

    Args:
        A: shape (n, n).
        G: shape (m, m).
        V: shape (n, m).
        damping: ε >= 0.
        form: "factored" or "levenberg".
        cutoff: as in `inverse_power`, for A and for G each on its own.

    Returns:
        The product, of the shape of V.
    """
    checks.one_of("form", form, KRONECKER_FORMS)
    damping = jnp.asarray(damping, V.dtype)
    (mu, U), (nu, W) = dense.eigh(A), dense.eigh(G)
    tiny: Any = [_cutoff(cutoff, n, V.dtype) for n in (*V.shape, V.size)]
    kept = _kept(mu, 0.0, tiny[0])[:, None] & _kept(nu, 0.0, tiny[1])
    if form == "factored":
        means = [jnp.maximum(values.mean(), 0) for values in (mu, nu)]
        # If a factor is zero then so is V, and any π will do.
        some = (means[0] > 0) & (means[1] > 0)
        pi = jnp.where(some, jnp.sqrt(means[0] / jnp.where(some, means[1], 1)), 1)
        root = jnp.sqrt(damping)
        bases = (jnp.maximum(mu, 0) + pi * root)[:, None] * (jnp.maximum(nu, 0) + root / pi)
    else:
        bases = jnp.outer(jnp.maximum(mu, 0), jnp.maximum(nu, 0)) + damping
    # Damping above the cutoff of the product makes every direction invertible.
    kept = (kept | (damping > tiny[2] * jnp.max(mu) * jnp.max(nu))) & (bases > 0)
    return U @ (jnp.where(kept, U.T @ V @ W, 0) / jnp.where(kept, bases, 1)) @ W.T


def _grams(lefts, rights):
    left_grams = jnp.stack([left @ left.T for left in lefts])
    return left_grams, jnp.stack([right.T @ right for right in rights])


def _two_layer_drive(weights, rights, G, *, white, power, damping, form, cutoff):
    # K = C ⊗ M + N ⊗ 1 is block-diagonal in M's basis, and diagonal in M's and N's for C = 1.
    C, N = (right.T @ right for right in rights)
    mu, U = dense.eigh(weights[1] @ weights[1].T)
    if white:
        nu, V = dense.eigh(N)
        values, V = mu[:, None] + nu, jnp.broadcast_to(V, (len(mu), *V.shape))
    else:
        values, V = dense.eigh(mu[:, None, None] * C + N)
    kept = _kept(values, damping, _cutoff(cutoff, values.size, values.dtype))
    rows = jnp.einsum("aij,ai->aj", V, U.T @ G) * _powers(values, kept, power, damping)
    return _scale(power, damping, form) * U @ jnp.einsum("aij,aj->ai", V, rows)


def _block_drives(lefts, rights, G, *, power, damping, form, cutoff):
    def drive(left_gram, right_gram):
        (mu, U), (nu, V) = dense.eigh(left_gram), dense.eigh(right_gram)
        # Both factors are known to rounding, so that each is cut on its own, not their product.
        kept = _kept(mu, 0.0, _cutoff(cutoff, len(mu), mu.dtype))[:, None]
        kept = kept & _kept(nu, 0.0, _cutoff(cutoff, len(nu), nu.dtype))
        values = jnp.outer(mu, nu)
        kept |= damping > _cutoff(cutoff, values.size, values.dtype) * jnp.max(values)
        return U @ (_powers(values, kept, power, damping) * (U.T @ G @ V)) @ V.T

    # A float, since NumPy refuses negative integer powers of integers.
    scale = _scale(power, damping, form) * float(len(lefts)) ** -power
    return list(scale * jax.vmap(drive)(*_grams(lefts, rights)))


@dense.one_by_one
def _solve(K, v, damping, cutoff):
    # Cholesky takes a fraction of the time of eigenvalues, but cannot leave out weak directions.
    shifted = K + damping * jnp.eye(len(K), dtype=K.dtype)
    L = dense.cholesky(shifted)
    return jax.lax.cond(
        _well_conditioned(L, 100 * cutoff * jnp.sqrt(jnp.sum(shifted**2))),
        lambda: dense.solve_cholesky(L, v),
        lambda: _spectral(K, v, 1, damping, cutoff),
    )


def _well_conditioned(L, smallest):
    # Pivots bound λ_min from above only, but a generic vector sees tr(LLᵀ)⁻¹/n >= 1/(n λ_min) on
    # average; the factor 100 is for the rare one that lies across the weakest direction.
    n = len(L)
    x = jnp.cos(jnp.arange(n, dtype=L.dtype) ** 2)
    y = dense.solve_lower(L, x)
    probe = n * jnp.sum(y**2) / jnp.sum(x**2)
    # A failed factor is NaN, and every comparison with it False.
    return (jnp.min(jnp.diag(L)) ** 2 > smallest) & (probe * smallest < 1)


def _spectral(K, v, power, damping, cutoff):
    values, U = dense.eigh(K)
    powers = _powers(values, _kept(values, damping, cutoff), power, damping)
    return U @ (powers.reshape(-1, *(v.ndim - 1) * (1,)) * (U.T @ v))


def _kept(values, damping, cutoff):
    smallest = cutoff * jnp.maximum(jnp.max(values), 0)
    return (values > smallest) | (damping > smallest)


def _powers(values, kept, power, damping):
    bases = jnp.maximum(values, 0) + damping  # rounding makes some eigenvalues slightly negative
    kept = kept & (bases > 0)  # products of small eigenvalues may underflow
    # The inner `where` keeps powers of 0 out of the derivative, where they would give NaN.
    return jnp.where(kept | (power == 0), jnp.where(kept, bases, 1) ** -power, 0)


def _scale(power, damping, form):
    return (1.0 + damping) ** power if form == "paper" else 1


def _cutoff(cutoff, n, dtype):
    return 10 * n * jnp.finfo(dtype).eps if cutoff is None else cutoff


def _known(power):
    # A traced power has no value yet, so that none of the special cases can be chosen.
    return None if isinstance(power, jax.core.Tracer) else float(power)


def _check_static(damping, form):
    checks.one_of("form", form, FORMS)
    if not isinstance(damping, jax.core.Tracer):  # the value of a traced one is not known
        checks.non_negative("damping", damping)
