"""Gaussian averages: reference values, Gauss-Hermite quadrature, and the matrix forms."""

import jax
import numpy as np
import pytest

from learndyn.numerics.gaussian import ACTIVATIONS, tabulate

SLOPE = {
    "linear": lambda h: np.ones_like(h),
    "quadratic": lambda h: 2 * h,
    "erf": lambda h: np.sqrt(2 / np.pi) * np.exp(-(h**2) / 2),
}
CURVATURE = {
    "linear": lambda h: np.zeros_like(h),
    "quadratic": lambda h: 2 * np.ones_like(h),
    "erf": lambda h: -h * np.sqrt(2 / np.pi) * np.exp(-(h**2) / 2),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def covariance(n, seed):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n


def quadrature(function, C, order=44):
    """E[function(z)] on a tensor Gauss-Hermite grid: independent of every closed form."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.stack(np.meshgrid(*[nodes] * len(C), indexing="ij"), axis=-1)
    weight = np.ones(())
    for _ in C:
        weight = np.multiply.outer(weight, weights / weights.sum())
    z = grid @ np.linalg.cholesky(C).T
    return float(np.sum(weight * function(*np.moveaxis(z, -1, 0))))


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_averages_against_quadrature(name, seed):
    g, slope, curvature = ACTIVATIONS[name], SLOPE[name], CURVATURE[name]
    value = lambda h: np.asarray(g(h))
    C = covariance(4, seed)
    # Gauss-Hermite with 44 nodes is exact for the polynomials; erf converges geometrically.
    close = lambda closed, numeric: np.testing.assert_allclose(
        closed, numeric, atol=2e-8, rtol=1e-8
    )
    close(g.I2(C[:2, :2]), quadrature(lambda u, v: value(u) * value(v), C[:2, :2]))
    close(g.slopes(C[:2, :2]), quadrature(lambda u, v: slope(u) * slope(v), C[:2, :2]))
    close(
        g.curvature_times_value(C[:2, :2]),
        quadrature(lambda u, v: curvature(u) * value(v), C[:2, :2]),
    )
    close(g.I3(C[:3, :3]), quadrature(lambda u, v, w: slope(u) * v * value(w), C[:3, :3]))
    close(
        g.I4(C),
        quadrature(lambda u, v, w, z: slope(u) * slope(v) * value(w) * value(z), C, order=32),
    )


@pytest.mark.parametrize(
    ("C", "I2", "I3", "I4"),
    [
        (
            [
                [0.9471, 0.0264, 0.2038, -1.5896],
                [0.0264, 0.5595, -0.029, -0.5663],
                [0.2038, -0.029, 1.1059, -0.4499],
                [-1.5896, -0.5663, -0.4499, 3.4311],
            ],
            0.009645257955704723,
            -0.010036974175917038,
            -0.027737815324593407,
        ),
        (
            [
                [1.4328, 0.5384, 0.4691, -0.0778],
                [0.5384, 2.9002, 0.4183, -0.9159],
                [0.4691, 0.4183, 3.0014999999999996, -0.9424],
                [-0.0778, -0.9159, -0.9424, 1.3922],
            ],
            0.11184718013777721,
            0.0649051330677752,
            -0.03977162642412078,
        ),
    ],
)
def test_erf_reference_values(C, I2, I3, I4):
    g, C = ACTIVATIONS["erf"], np.array(C)
    np.testing.assert_allclose(g.I2(C[:2, :2]), I2, rtol=1e-13)
    np.testing.assert_allclose(g.I3(C[:3, :3]), I3, rtol=1e-13)
    np.testing.assert_allclose(g.I4(C), I4, rtol=1e-13)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_weighted_noise_is_the_sum_of_I4(name):
    g, C = ACTIVATIONS[name], covariance(5, 7)
    c = np.array([-0.3, -0.3, -0.3, 0.5, 0.5])
    by_loop = [
        [
            sum(
                c[k] * c[l] * float(g.I4(C[np.ix_([i, j, k, l], [i, j, k, l])]))
                for k in range(5)
                for l in range(5)
            )
            for j in range(3)
        ]
        for i in range(3)
    ]
    np.testing.assert_allclose(g.weighted_noise(C, c, 3), by_loop, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_tabulate_matches_single_calls(name):
    g, C = ACTIVATIONS[name], covariance(4, 3)
    table = tabulate(g.I2, C, range(2), range(4))
    assert table.shape == (2, 4)
    for i in range(2):
        for j in range(4):
            np.testing.assert_allclose(table[i, j], g.I2(C[np.ix_([i, j], [i, j])]), rtol=1e-14)
