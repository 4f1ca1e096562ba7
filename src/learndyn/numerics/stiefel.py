"""The Stiefel manifold {S : SᵀS = I} of p × q matrices with orthonormal columns, p >= q.

A plain descent method, so that the claim "this S is the nearest one" can be tested by searching
for a nearer one. The retraction is a QR factorisation. No polar factor is used, since the claims
under test are about polar factors.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from learndyn.runtime import checks
from learndyn.runtime.types import Int

_SUFFICIENT_DECREASE = 1e-4  # Armijo's constant
_MEMORY = 10  # a step must improve on the worst of so many values, not on the last one
_STEP_BOUNDS = (1e-10, 1e10)  # where curvature is rounding, Barzilai-Borwein lengths are useless


class Minimum(NamedTuple):
    """Where the descent stopped.

    Attributes:
        point: S, shape (p, q), with SᵀS = I to rounding.
        value: f(S).
        gradient_norm: Frobenius norm of the Riemannian gradient at S.
        iterations: number of accepted steps.
        converged: whether the gradient met the tolerance.
    """

    point: np.ndarray
    value: float
    gradient_norm: float
    iterations: Int
    converged: bool


def random_point(p: Int, q: Int, rng: np.random.Generator) -> np.ndarray:
    """Draws S uniformly (by Haar measure) among p × q matrices with SᵀS = I.

    Args:
        p: number of rows.
        q: number of columns, 0 <= q <= p.
        rng: the random generator.

    Returns:
        S, shape (p, q).

    Raises:
        ValueError: if q is larger than p.
    """
    if not 0 <= q <= p:
        raise ValueError(f"q: got {q}; allowed is 0 to p = {p}")
    return _orthonormalise(rng.standard_normal((p, q)))


def minimise(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
    S0: ArrayLike,
    *,
    tolerance: float = 1e-12,
    max_iterations: Int = 10_000,
) -> Minimum:
    """Minimises f(S) subject to SᵀS = I, from S0.

    The steps are S ← qf(S − τ grad f), with grad f = G − S sym(SᵀG) for the Euclidean gradient G,
    Barzilai-Borwein lengths τ and non-monotone backtracking (Wen and Yin 2013). For p = q the
    manifold has two components, and the search stays in that of S0.

    Args:
        value_and_gradient: S -> (f(S), Euclidean gradient of shape (p, q)).
        S0: the start, shape (p, q), with orthonormal columns.
        tolerance: the search stops if |grad f| <= tolerance · max(|G|, smallest normal float).
        max_iterations: accepted steps after which the search gives up.

    Returns:
        A `Minimum`; `converged` is False if the search gave up.

    Raises:
        ValueError: if S0 does not have orthonormal columns.
    """
    S = _check_start(S0)
    max_iterations = checks.positive_int("max_iterations", max_iterations)
    value, G = value_and_gradient(S)
    grad, recent = _project(S, G), [value]
    tau = 1.0 / max(np.linalg.norm(G), np.finfo(float).tiny)
    for iteration in range(max_iterations):
        if _is_flat(grad, G, tolerance):
            return Minimum(S, float(value), float(np.linalg.norm(grad)), iteration, True)
        trial = _backtrack(value_and_gradient, S, grad, max(recent), tau)
        if trial is None:
            return Minimum(S, float(value), float(np.linalg.norm(grad)), iteration, False)
        S_new, value, G = trial
        grad_new = _project(S_new, G)
        tau = _step_length(S_new - S, grad_new - grad)
        S, grad, recent = S_new, grad_new, [*recent[1 - _MEMORY :], value]
    flat = _is_flat(grad, G, tolerance)
    return Minimum(S, float(value), float(np.linalg.norm(grad)), max_iterations, flat)


def _check_start(S0):
    S = np.array(S0, dtype=np.float64)
    if S.ndim != 2 or S.shape[0] < S.shape[1]:
        raise ValueError(f"S0: got shape {S.shape}; allowed is (p, q) with p >= q")
    error = np.linalg.norm(S.T @ S - np.eye(S.shape[1]))
    if not error <= 1e-8:
        raise ValueError(f"S0: got |SᵀS − I| = {error:.1e}; allowed are orthonormal columns")
    return S


def _is_flat(grad, G, tolerance):
    return bool(np.linalg.norm(grad) <= tolerance * max(np.linalg.norm(G), np.finfo(float).tiny))


def _project(S, G):
    SG = S.T @ G
    return G - S @ (SG + SG.T) / 2


def _orthonormalise(A):
    if A.shape[1] == 0:
        return A
    Q, R = np.linalg.qr(A)
    # A positive diagonal of R makes the factor unique, and the draw of random_point uniform.
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)


def _backtrack(value_and_gradient, S, grad, reference, tau):
    slope = np.sum(grad * grad)
    # Near the minimum f changes by less than its rounding error: without slack no step is accepted.
    slack = 16 * np.finfo(float).eps * abs(reference)
    while tau > np.finfo(float).tiny:
        S_new = _orthonormalise(S - tau * grad)
        value, G = value_and_gradient(S_new)
        if value <= reference - _SUFFICIENT_DECREASE * tau * slope + slack:
            return S_new, value, G
        tau /= 4
    return None


def _step_length(dS, dgrad):
    curvature = abs(np.sum(dS * dgrad))
    if curvature == 0:
        return 1.0
    return float(np.clip(np.sum(dS * dS) / curvature, *_STEP_BOUNDS))
