"""How often a committee misclassifies inputs of a mixture, and how often anything must.

A network classifies an input by the target nearest to its output: with targets ±1 by the sign, with
one-hot targets by the largest output. Its error is the share of fixed quasi-random pre-activations
of each cluster that come out nearer to, or as near to, another target; this has an error of about
1e-3. It is a step function of the state, without a derivative.

`bayes` has the limits of all functions of an input: the smallest classification error, and the
smallest squared loss. Along an axis of the span of the means in a level, x is Gaussian, and across
the span only the squared length of x matters. Where the clusters' covariances differ these lengths
tell them apart, the better the larger N is: the limit is then 0 for large N, while committees of a
few units see a few directions alone.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from learndyn.numerics.gaussian.points import normal_points
from learndyn.numerics.semidefinite import gram_factor, root_times
from learndyn.runtime.types import Array, Int
from learndyn.theory.committee.general.setting import GeneralSetting
from learndyn.theory.committee.state import Overlaps


def error(setting: GeneralSetting, state: Overlaps) -> Array:
    """The probability of a wrong class, for constant targets."""
    K, targets, means = setting.units.K, jnp.asarray(setting.targets), setting.means(state)
    assert means is not None  # those of targets
    sigmas, v = setting.covariances(state)[:, :K, :K], setting.v(state)
    points = jnp.asarray(normal_points(K))

    def of(sigma: Array, mean: Array, own: Array) -> Array:
        z = root_times(sigma, points)[0] + mean[:K]
        output = jnp.asarray(setting.student.scale) * (setting.student.g(z) @ v)
        distance = lambda target: jnp.sum((output - target) ** 2, axis=-1)
        others = jax.vmap(
            lambda target: jnp.any(target != own) & (distance(target) <= distance(own))
        )
        return jnp.mean(jnp.any(others(targets), axis=0))

    # One cluster after the other: all points of all clusters, for all runs, would fill the memory.
    each = jax.lax.map(lambda cluster: of(*cluster), (sigmas, means, targets))
    return jnp.asarray(setting.clusters.probabilities) @ each


class Bayes(NamedTuple):
    """The limits that no function of the input can beat.

    Attributes:
        error: the smallest probability of a wrong class.
        loss: the smallest loss without label noise, for loss_scale 1.
    """

    error: float
    loss: float


def bayes(
    probabilities: np.ndarray,
    variances: np.ndarray,
    counts: np.ndarray,
    gram: np.ndarray,
    targets: np.ndarray,
) -> Bayes:
    """The Bayes limits of a mixture, by an average over 2^14 quasi-random inputs per cluster.

    Args:
        probabilities: of the clusters, (clusters,).
        variances: (clusters, levels).
        counts: the dimensions of the levels, (levels,).
        gram: μ_c · P_l μ_c', (levels, clusters, clusters).
        targets: (clusters, outputs).

    Returns:
        The limits, with an error of about 1e-3.
    """
    classes, label = np.unique(targets, axis=0, return_inverse=True)
    member = np.eye(len(classes))[label.reshape(-1)]  # (clusters, classes)
    found = np.zeros(2)
    for c, p in enumerate(probabilities):
        posterior = _posterior(c, probabilities, variances, counts, gram) @ member
        mean = posterior @ classes
        spread = posterior @ np.sum(classes**2, axis=1) - np.sum(mean**2, axis=1)
        found += p * np.array([1 - posterior.max(axis=1).mean(), spread.mean()])
    return Bayes(*found.tolist())


def _posterior(
    own: int, probabilities: np.ndarray, variances: np.ndarray, counts: np.ndarray, gram: np.ndarray
) -> np.ndarray:
    """The probabilities of all clusters, (points, clusters), at points of one cluster."""
    rows = [gram_factor(C) for C in gram]  # the means on axes of their own span
    # Lengths matter only where variances differ.
    differ = np.ptp(variances, axis=0) > 0
    size = sum(B.shape[1] for B in rows) + int(np.sum(differ))
    u, place = normal_points(max(size, 1)), 0
    log = np.tile(np.log(probabilities), (len(u), 1))
    for B, lam, count, lengths in zip(rows, variances.T, counts, differ, strict=True):
        x = B[own] + math.sqrt(lam[own]) * u[:, place : place + B.shape[1]]
        square = np.sum((x[:, None] - B) ** 2, axis=2)
        place += B.shape[1]
        if lengths:
            rest = count - B.shape[1]
            share = scipy.special.ndtr(u[:, place])
            square = square + (lam[own] * _chi_square(rest, share))[:, None]
            log -= count * np.log(lam) / 2
            place += 1
        log -= square / (2 * lam)
    log -= log.max(axis=1, keepdims=True)
    posterior = np.exp(log)
    return posterior / posterior.sum(axis=1, keepdims=True)


def _chi_square(degrees: Int, share: np.ndarray) -> np.ndarray:
    """The quantiles of a chi-square number."""
    return 2 * scipy.special.gammaincinv(degrees / 2, share) if degrees else np.zeros(len(share))
