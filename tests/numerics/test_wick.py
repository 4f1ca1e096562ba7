"""Gaussian moments under powers of a quadratic form, against all pairings one by one."""

import itertools

import jax
import numpy as np
import pytest

from learndyn.numerics import wick


def isserlis(C, indices, known):
    """E[v_a v_b …] as the sum over all pairings; `known` remembers what was summed before."""
    if not indices:
        return 1.0
    if indices not in known:
        first, *rest = indices
        partners = enumerate(rest)
        known[indices] = sum(
            C[first, b] * isserlis(C, (*rest[:i], *rest[i + 1 :]), known) for i, b in partners
        )
    return known[indices]


def moment(C, c, noise, power, indices):
    """E[Δ^power v_a v_b …] with Δ = Σ_k c_k v_k² + noise · ε, term by term.

    ε is one more variable; each factor Δ is one of the squares, or noise times it.
    """
    n = len(C)
    joint = np.block([[C, np.zeros((n, 1))], [np.zeros((1, n)), np.ones((1, 1))]])
    terms = [(weight, [k, k]) for k, weight in enumerate(c)] + [(noise, [n])]
    total, known = 0.0, {}
    for chosen in itertools.product(terms, repeat=power):
        extra = [index for _, pair in chosen for index in pair]
        total += np.prod([weight for weight, _ in chosen]) * isserlis(
            joint, (*extra, *indices), known
        )
    return total


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(3)
    F = rng.standard_normal((3, 4)) / 2
    c, noise = (
        np.array([-0.7, 0.4]),
        np.float64(0.3),
    )  # the quadratic form is of the first two variables
    return F @ F.T, c, noise


@pytest.mark.parametrize("powers", [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)], ids=str)
def test_covariances_of_pairs_are_sums_over_pairings(case, powers):
    C, c, noise = case
    pairs = [(0, 2), (1, 1)]
    groups = [wick.Pairs(p, *np.array([pair]).T) for p, pair in zip(powers, pairs, strict=True)]
    with jax.enable_x64(True):
        series = wick.tilted(C, C[:, :2], C[:2, :2], c, noise, 4)
        means = [float(wick.means(series, group)[0]) for group in groups]
        found = np.asarray(wick.covariance(series, groups))
    mean = [moment(C, c, noise, p, list(pair)) for p, pair in zip(powers, pairs, strict=True)]
    np.testing.assert_allclose(means, mean, rtol=1e-12)
    cross = moment(C, c, noise, sum(powers), [*pairs[0], *pairs[1]]) - mean[0] * mean[1]
    np.testing.assert_allclose(found[0, 1], cross, rtol=1e-11)
    np.testing.assert_allclose(found, found.T, rtol=1e-13)


def test_without_a_tilt_wick_has_two_pairings(case):
    C = case[0]
    with jax.enable_x64(True):
        found = wick.covariance(wick.untilted(C), [wick.Pairs(0, np.array([0]), np.array([2]))])
    np.testing.assert_allclose(found[0, 0], C[0, 0] * C[2, 2] + C[0, 2] ** 2, rtol=1e-13)
