"""The largest rate at which second moments under mini-batches stay bounded.

At a rate η the covariance C of the modes' coefficients obeys C' = A C Aᵀ + noise(C). It stays
bounded if the mean does, and if noise that noise has caused shrinks: the linear map that takes the
noise of a step to the noise caused by all the scatter that it leaves has a largest eigenvalue
below 1. That map has no negative entries in the order of positive matrices, so that its largest
eigenvalue is found by iteration, and grows with the rate.
"""

from collections.abc import Callable

import numpy as np

from learndyn.theory.linearised.modes import Law

TOLERANCE = 1e-6  # relative, of the rate
MOST = 2000  # iterations for one eigenvalue
SMALLEST = 1e-9  # the smallest rate that is tried, relative to the critical one


def largest_stable_rate(
    noise: Callable[[np.ndarray], np.ndarray],
    per_rate: np.ndarray,
    law: Law,
    decay: float,
    critical: float,
    *,
    diagonal: bool,
) -> float:
    """The largest stable rate.

    Args:
        noise: C → the covariance of the force of a step at rate 1, from the scatter C of modes.
        per_rate: pulls of the modes per rate, (modes,), all positive.
        law: the momentum.
        decay: per step.
        critical: the rate at which the mean diverges.
        diagonal: whether C are variances only.

    Returns:
        The rate; `critical` if noise never decides.
    """
    shape = (len(per_rate),) if diagonal else (len(per_rate),) * 2
    C = np.ones(shape) if diagonal else np.eye(len(per_rate))

    def excess(log_rate: float) -> float:
        nonlocal C
        rate = np.exp(log_rate)
        left = _left(rate * per_rate + decay, law, diagonal)
        found = 0.0
        for _ in range(MOST):
            after = left * noise(C) * rate**2
            size = np.linalg.norm(after)
            if size == 0:
                return -np.inf
            before, found, C = found, size / np.linalg.norm(C), after / size
            if abs(found - before) < TOLERANCE * found / 100:
                break
        return float(np.log(found))

    edges = np.log(critical * SMALLEST), np.log(critical * (1 - 1e-12))
    if excess(edges[1]) <= 0:
        return critical
    low, high = edges
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return float(np.exp(low))


def _left(pulls: np.ndarray, law: Law, diagonal: bool) -> np.ndarray:
    """The scatter that a unit of noise in a step leaves in all, for every pair of modes."""
    first, second = (pulls, pulls) if diagonal else (pulls[:, None], pulls[None, :])
    beta = float(law.momentum)
    if not beta:
        return 1 / (1 - (1 - first) * (1 - second))
    A, B = _matrix(first, law), _matrix(second, law)
    A, B = (np.broadcast_to(M, (*np.broadcast(first, second).shape, 2, 2)) for M in (A, B))
    pairs = np.einsum("...ac,...bd->...abcd", A, B).reshape(*A.shape[:-2], 4, 4)
    kick = np.array([-(1 + beta) if law.nesterov else -1.0, 1.0])
    caused = np.broadcast_to(np.outer(kick, kick).reshape(4, 1), (*A.shape[:-2], 4, 1))
    return np.linalg.solve(np.eye(4) - pairs, caused)[..., 0, 0]


def _matrix(pulls: np.ndarray, law: Law) -> np.ndarray:
    """One step of (u, v), as in `modes.py`."""
    beta = float(law.momentum)
    own = 1 - pulls * (1 + beta if law.nesterov else 1)
    kicked = np.full_like(own, -(beta**2 if law.nesterov else beta))
    rows = [[own, kicked], [pulls, np.full_like(own, beta)]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))
