"""Averages of pairs of smooth activations at any variance, against a fine grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics.gaussian import NAMED, entrywise

SMOOTH = ["tanh", "sigmoid", "gelu", "softplus", "swish"]
FINE = np.linspace(-9, 9, 400_001)


def on_grid(name, z):
    z = jnp.asarray(z)
    return [np.asarray(each) for each in jax.jvp(NAMED[name], (z,), (jnp.ones_like(z),))]


def averages(name, *covariance):
    return entrywise.pair_averages(NAMED[name], *(np.atleast_1d(each) for each in covariance))


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("q", [0.01, 30.0, 3000.0])
def test_a_variable_with_itself_at_any_variance(name, q):
    """Averages of squares, and of two variables of opposite signs."""
    weights = np.exp(-(FINE**2) / 2) / np.exp(-(FINE**2) / 2).sum()
    c = np.array([q, -q, 2 * q])
    found = averages(name, q, c, [q, q, 4 * q])
    of = lambda factor: on_grid(name, factor * np.sqrt(q) * FINE)
    for average, g, others in zip(
        found, of(1), zip(of(1), of(-1), of(2), strict=True), strict=True
    ):
        exact = [weights @ (g * other) for other in others]
        np.testing.assert_allclose(average, exact, rtol=1e-9)


@pytest.mark.parametrize(("q", "rho"), [(30.0, 0.999), (3000.0, 0.9)])
def test_correlated_variables_of_a_large_variance(q, rho):
    """The inner average, over w at a given u, by a grid of its own."""
    y, z = np.linspace(-8, 8, 4001), np.linspace(-8, 8, 1001)
    normal = lambda y: np.exp(-(y**2) / 2) / np.exp(-(y**2) / 2).sum()
    inner = np.sqrt(q) * (rho * y[:, None] + np.sqrt(1 - rho**2) * z)
    found = averages("tanh", q, rho * q, q)
    for average, g, others in zip(
        found, on_grid("tanh", np.sqrt(q) * y), on_grid("tanh", inner), strict=True
    ):
        exact = normal(y) @ (g * (others @ normal(z)))
        np.testing.assert_allclose(average, exact, rtol=1e-8)


def test_what_is_not_accurate_is_refused():
    with pytest.raises(ValueError, match=r"correlations of up to 0.999999, whose .* 1e-07, as"):
        averages("tanh", 1e4, 1e4 * (1 - 1e-6), 1e4)


def test_means():
    weights = np.exp(-(FINE**2) / 2) / np.exp(-(FINE**2) / 2).sum()
    q = np.array([0.0, 0.3, 300.0])
    exact = [weights @ on_grid("swish", np.sqrt(each) * FINE)[0] for each in q]
    np.testing.assert_allclose(entrywise.mean(NAMED["swish"], q), exact, rtol=1e-10)
