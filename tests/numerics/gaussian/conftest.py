"""Independent averages for these tests: Gauss-Legendre rules between the kinks."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy import special


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def legendre(a, b, nodes):
    """Nodes and weights on [a, b]."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    a, b = np.asarray(a)[..., None], np.asarray(b)[..., None]
    return a + (b - a) * (x + 1) / 2, (b - a) * w / 2


def graded(a, b, nodes):
    """Nodes and weights on [a, b], gathered at both ends, where boundary layers may be."""
    x, w = legendre(0.0, 1.0, nodes)
    # x → I_x(3, 3), whose derivative 30 x² (1 − x)² vanishes at the ends.
    t, dt = special.betainc(3, 3, x), 30 * (x * (1 - x)) ** 2
    a, b = np.asarray(a)[..., None], np.asarray(b)[..., None]
    return a + (b - a) * t, (b - a) * w * dt


def plane_points(rows, theta_nodes=40, radial_nodes=60, interval=graded):
    """Points z = rows · x for standard normal x in the plane, and weights.

    Angles are split where a row is orthogonal to x, so that functions with kinks at 0 are smooth
    between them.
    """
    angles = np.arctan2(rows[:, 1], rows[:, 0])
    kinks = np.concatenate([angles + np.pi / 2, angles - np.pi / 2]) % (2 * np.pi)
    kinks = np.unique(np.round(kinks, 12))
    theta, w_theta = interval(kinks, np.append(kinks[1:], kinks[0] + 2 * np.pi), theta_nodes)
    theta, w_theta = theta.ravel(), w_theta.ravel()
    r, w_r = interval(0.0, 9.0, radial_nodes)
    x = np.stack(np.broadcast_arrays(r * np.cos(theta)[:, None], r * np.sin(theta)[:, None]), -1)
    weights = w_theta[:, None] * (w_r * r * np.exp(-(r**2) / 2) / (2 * np.pi))
    return x.reshape(-1, 2) @ rows.T, weights.ravel()


def space_points(C, theta_nodes=24, radial_nodes=36, inner_nodes=24):
    """Points and weights for four variables of covariance C, split at z_k = 0 for each of them.

    The first two in the plane, the others one after the other, given those before; in portions.
    """
    L = np.linalg.cholesky(C)
    z, weights = plane_points(L[:2, :2], theta_nodes, radial_nodes, legendre)
    x = np.linalg.solve(L[:2, :2], z.T).T
    for some in np.array_split(np.arange(len(x)), 16):
        y, w = x[some], weights[some]
        for k in (2, 3):
            y, w = with_one_more(y, w, L[k], k, inner_nodes)
        yield y @ L.T, w


def with_one_more(x, weights, row, k, nodes):
    """The points and weights with one more standard normal coordinate, split where row · x = 0."""
    kink = np.clip(-(x @ row[:k]) / row[k], -8.0, 8.0)
    ends = np.full_like(kink, 8.0)
    below, above = legendre(-ends, kink, nodes), legendre(kink, ends, nodes)
    y, w = (np.concatenate(parts, -1) for parts in zip(below, above, strict=True))
    weights = (weights[:, None] * w * np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi)).ravel()
    return np.concatenate([np.repeat(x, y.shape[1], axis=0), y.reshape(-1, 1)], axis=1), weights


ERF = lambda x: special.erf(x / np.sqrt(2))
GAUSS = lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
LOGISTIC = special.expit
# name → (g, g'), in NumPy.
FUNCTIONS = {
    "linear": (lambda x: x, np.ones_like),
    "quadratic": (lambda x: x**2, lambda x: 2 * x),
    "erf": (ERF, lambda x: 2 * GAUSS(x)),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1, 0.01)),
    "abs": (np.abs, np.sign),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": (LOGISTIC, lambda x: LOGISTIC(x) * LOGISTIC(-x)),
    "gelu": (lambda x: x * (1 + ERF(x)) / 2, lambda x: (1 + ERF(x)) / 2 + x * GAUSS(x)),
    "softplus": (lambda x: np.logaddexp(0, x), LOGISTIC),
    "swish": (lambda x: x * LOGISTIC(x), lambda x: LOGISTIC(x) * (1 + x * LOGISTIC(-x))),
    "sine": (np.sin, np.cos),
    "sign": (np.sign, None),
}


def measured_noise(portions, student, teacher, K, c, biases=0.0):
    """E[g'_i g'_j Δ²] from portions of points with weights."""
    (g, slope), (f, _) = FUNCTIONS[student], FUNCTIONS[teacher]
    total = 0.0
    for z, weights in portions:
        h = z + biases
        gap = g(h[:, :K]) @ c[:K] + f(h[:, K:]) @ c[K:]
        slopes = slope(h[:, :K])
        total += (slopes * (weights * gap**2)[:, None]).T @ slopes
    return total


@pytest.fixture(scope="session")
def independent():
    """The functions of this file."""
    return SimpleNamespace(
        functions=FUNCTIONS, plane=plane_points, space=space_points, noise=measured_noise
    )
