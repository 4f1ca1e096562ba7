"""Tables of pairs against a quadrature in the plane, by Stein's lemma and Price's theorem."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics.gaussian import NAMED, Units

COVARIANCE = np.array([[1.3, 0.55], [0.55, 0.8]])
ERF_SUMS = ("tanh", "sigmoid")
STUDENTS = [name for name in NAMED if NAMED[name].trainable and name not in ERF_SUMS]


@pytest.fixture(scope="module")
def plane(independent):
    return independent.plane(np.linalg.cholesky(COVARIANCE))


def close(actual, expected, size):
    # Closed forms are exact; series and sums of erfs are asked for 1e-10 of the largest average.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10 * size)


@pytest.mark.parametrize(
    ("student", "teacher"), [*itertools.product(STUDENTS, ["relu", "gelu"]),
    *((name, name) for name in ("linear", "quadratic", "erf", "abs", "sine", "softplus")),
    ("erf", "sign"), ("gelu", "sign"), ("leaky_relu", "erf"), ("gelu", "abs"),
    ("quadratic", "sine")],
)  # fmt: skip
def test_pairs_against_quadrature(student, teacher, plane, independent):
    z, w = plane
    (g, slope), (f, _) = independent.functions[student], independent.functions[teacher]
    u, v = z.T
    units = Units(NAMED[student], NAMED[teacher], 1, 1, accuracy=1e-11, spread=1.2)
    values, slopes = units.values(COVARIANCE), units.slopes(COVARIANCE)
    curvatures, mixed = units.curvatures(COVARIANCE), units.slope_values(COVARIANCE)
    mean = lambda a, b: np.sum(w * a * b)
    size = np.sqrt(mean(g(u), g(u)) * mean(f(v), f(v))) + 1
    close(values[0, 1], mean(g(u), f(v)), size)
    close(values[1, 0], mean(g(u), f(v)), size)
    close(values[0, 0], mean(g(u), g(u)), size)
    close(values[1, 1], mean(f(v), f(v)), size)
    close(mixed[0, 1], mean(slope(u), f(v)), size)
    # Stein's lemma: neither f' nor g'' are needed, which are no functions at a kink.
    (q, c), (_, p) = COVARIANCE
    close(q * curvatures[0, 1] + c * slopes[0, 1], mean(slope(u) * u, f(v)), size)
    close(c * curvatures[0, 1] + p * slopes[0, 1], mean(slope(u) * v, f(v)), size)
    close(q * curvatures[0, 0] + q * slopes[0, 0], mean(slope(u) * u, g(u)), size)


@pytest.mark.parametrize("student", ERF_SUMS)
@pytest.mark.parametrize("teacher", ["tanh", "sigmoid", "relu", "sign", "gelu", "quadratic"])
def test_sums_of_erfs(student, teacher, plane, independent):
    z, w = plane
    (g, slope), (f, _) = independent.functions[student], independent.functions[teacher]
    units = Units(NAMED[student], NAMED[teacher], 1, 1, spread=1.2)
    table = lambda kind: np.asarray(kind(COVARIANCE))[0, 1]
    # The functions are 6.4e-7 away from what they stand for, their slopes 1.4 times that.
    atol = 1e-6
    u, v = z.T
    np.testing.assert_allclose(table(units.values), np.sum(w * g(u) * f(v)), rtol=0, atol=atol)
    mixed = np.sum(w * slope(u) * f(v))
    np.testing.assert_allclose(table(units.slope_values), mixed, rtol=0, atol=atol)
    (q, c), (_, p) = COVARIANCE
    curvature, slopes = table(units.curvatures), table(units.slopes)
    along_u, along_v = (np.sum(w * slope(u) * x * f(v)) for x in (u, v))
    np.testing.assert_allclose(q * curvature + c * slopes, along_u, rtol=0, atol=atol)
    np.testing.assert_allclose(c * curvature + p * slopes, along_v, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("student", "teacher"), [("relu", "tanh"), ("gelu", "relu"), ("sine", "sine"), ("erf", "sign")]
)
def test_price(student, teacher):
    units = Units(NAMED[student], NAMED[teacher], 1, 1, accuracy=1e-10)
    (q, c), (_, p) = COVARIANCE
    step = 1e-4
    value = lambda q, c: np.asarray(units.values(np.array([[q, c], [c, p]])))[0, 1]
    by_c = (value(q, c + step) - value(q, c - step)) / (2 * step)
    by_q = (value(q + step, c) - value(q - step, c)) / (2 * step)
    # Central differences err by step²/6 times a third derivative of order 1, and by rounding.
    np.testing.assert_allclose(units.slopes(COVARIANCE)[0, 1], by_c, rtol=0, atol=1e-7)
    np.testing.assert_allclose(units.curvatures(COVARIANCE)[0, 1], 2 * by_q, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "abs"])
@pytest.mark.parametrize("std", [10.0, 30.0])
def test_kinks_scale(name, std):
    units = Units(NAMED[name], NAMED[name], 1, 1)
    large = std**2 * COVARIANCE
    np.testing.assert_allclose(units.values(large), std**2 * units.values(COVARIANCE), rtol=1e-13)
    np.testing.assert_allclose(units.slopes(large), units.slopes(COVARIANCE), rtol=1e-13)


@pytest.mark.parametrize("name", ["erf", "tanh", "gelu"])
@pytest.mark.parametrize("std", [10.0, 30.0])
def test_large_pre_activations(name, std, independent):
    C = std**2 * np.array([[1.0, 0.6], [0.6, 0.9]])
    z, w = independent.plane(np.linalg.cholesky(C), theta_nodes=300, radial_nodes=200)
    g, slope = independent.functions[name]
    units = Units(NAMED[name], NAMED[name], 1, 1).resolved(C)
    stated = max(units.error(C, np.array([-1.0, 0.7])), 1e-6)
    values, slopes = units.values(C), units.slopes(C)
    measure = lambda f: np.einsum("x,xk,xl->kl", w, f(z), f(z))
    # The stated error is a change under refinement: the error itself may be a few times that.
    size = np.abs(values).max()
    np.testing.assert_allclose(values, measure(g), rtol=0, atol=3 * stated * size)
    size = np.abs(slopes).max()
    np.testing.assert_allclose(slopes, measure(slope)[:1], rtol=0, atol=3 * stated * size)


@pytest.mark.parametrize(
    ("student", "teacher"), [("relu", "gelu"), ("tanh", "relu"), ("gelu", "sign"), ("sine", "erf")]
)
def test_pairs_with_biases(student, teacher, independent):
    """At least one smooth function: a rule in Cartesian coordinates, split at the kinks."""
    biases = np.array([0.4, -0.7])
    units = Units(NAMED[student], NAMED[teacher], 1, 1, accuracy=1e-9)
    (g, slope), (f, _) = independent.functions[student], independent.functions[teacher]
    first = NAMED[student].smooth  # the variable with the kink comes first, split there
    order = [1, 0] if first else [0, 1]
    L = np.linalg.cholesky(COVARIANCE[np.ix_(order, order)])
    kink = -biases[order[0]] / L[0, 0]
    x, wx = (np.concatenate(a) for a in zip(_line(-9, kink), _line(kink, 9), strict=True))
    y, wy = _line(-9, 9)
    z = np.stack(np.broadcast_arrays(L[0, 0] * x[:, None], L[1, 0] * x[:, None] + L[1, 1] * y))
    w = wx[:, None] * wy * np.exp(-(x[:, None] ** 2 + y**2) / 2) / (2 * np.pi)
    u, v = z[order] + biases[:, None, None]
    size = 2 * np.sqrt(np.sum(w * g(u) ** 2) * np.sum(w * f(v) ** 2))
    entry = lambda kind: kind(COVARIANCE, biases)[0, 1]
    expected = np.sum(w * g(u) * f(v)), np.sum(w * slope(u) * f(v))
    # tanh itself is used here, not its sum of erfs.
    np.testing.assert_allclose(entry(units.values), expected[0], rtol=0, atol=1e-8 * size)
    np.testing.assert_allclose(entry(units.slope_values), expected[1], rtol=0, atol=1e-8 * size)
    q, c = COVARIANCE[0]
    sums = q * entry(units.curvatures) + c * entry(units.slopes)
    by_stein = np.sum(w * slope(u) * (u - biases[0]) * f(v))
    np.testing.assert_allclose(sums, by_stein, rtol=0, atol=1e-8 * size)


def _line(a, b, nodes=150):
    x, w = np.polynomial.legendre.leggauss(nodes)
    return a + (b - a) * (x + 1) / 2, (b - a) * w / 2


def test_two_kinks_with_biases_are_approximate():
    relu, biases = NAMED["relu"], np.array([0.3, -0.2])
    units = Units(relu, relu, 1, 1)
    assert units.approximate(biased=True) and not units.approximate()
    assert units.method(biased=True) == "quasi-random points"
    c = np.array([-1.0, 0.8])
    stated = units.error(COVARIANCE, c, biases)
    assert 0 < stated < 0.02
    x = np.linspace(-9, 9, 1001)
    w = np.exp(-(x**2) / 2) / np.sum(np.exp(-(x**2) / 2))
    z = np.stack(np.meshgrid(x, x, indexing="ij")).reshape(2, -1)
    f = np.maximum(np.linalg.cholesky(COVARIANCE) @ z + biases[:, None], 0)
    expected = (f * np.outer(w, w).ravel()) @ f.T  # to the step squared, 3e-4
    np.testing.assert_allclose(units.values(COVARIANCE, biases), expected, rtol=0.02)


@pytest.mark.parametrize("name", ["relu", "abs", "tanh", "gelu", "sine", "erf", "sigmoid"])
def test_derivatives_of_tables_are_finite(name):
    """Equal, antiparallel and zero rows, which training passes through."""
    rows = np.array([[1.0, 0.3], [1.0, 0.3], [-0.5, -0.15], [0.0, 0.0], [1.0, 0.3]])
    sigma = rows @ rows.T
    units = Units(NAMED[name], NAMED[name], 3, 2)
    kinds = units.values, units.slopes, units.curvatures, units.slope_values
    every = lambda sigma: [kind(sigma) for kind in kinds]
    both = jax.jit(lambda sigma: jax.jvp(every, (sigma,), (jnp.ones_like(sigma),)))(sigma)
    assert all(np.all(np.isfinite(table)) for table in jax.tree.leaves(both))
