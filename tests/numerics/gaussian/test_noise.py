"""E[g'_i g'_j Δ²]: reference values, quadratures, degenerate covariances, derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics.gaussian import NAMED, Activation, Units
from learndyn.numerics.gaussian.orthant import four_signs

# Two students, two teachers with orthonormal rows; D_ij = c_j E[g'g'] + δ_ij E[g''Δ].
SIGMA = np.array(
    [
        [1.8831095526829373, 0.28880727364598846, 0.9711746275878645, 0.5813560756447204],
        [0.28880727364598846, 1.2773438345925354, -0.1497716822091765, 0.5414241279016281],
        [0.9711746275878645, -0.1497716822091765, 1.0, 0.0],
        [0.5813560756447204, 0.5414241279016281, 0.0, 1.0],
    ]
)
C = np.array([-1.0, -1.0, 1.0, 1.0]) / np.sqrt(2)
MIXED = np.array([-0.7, 0.4, 1.0, -0.6])
BIASES = np.array([0.3, -0.5, 0.2, 0.6])
# From an independent implementation: the first row of D, and Ω_11, Ω_12, Ω_22.
REFERENCE = {
    "tanh": (
        [-0.18376928225496, -0.19628820343391, 0.23823364611693, 0.21895895432265],
        [0.12876764057652, 0.08008462853101, 0.10237616415710],
    ),
    "gelu": (
        [-0.33674206218525, -0.20149061526295, 0.27609785666310, 0.23324986826204],
        [0.30251081914054, 0.25457164653861, 0.34120888117697],
    ),
    "softplus": (
        [-0.23170436006904, -0.18424371038578, 0.20318190561834, 0.19246768659230],
        [0.12407735790064, 0.11591173437141, 0.13526333658071],
    ),
    "swish": (
        [-0.30891333907237, -0.19609779222905, 0.24856715769938, 0.21882539240161],
        [0.24123603677693, 0.21161071111106, 0.27220808444228],
    ),
    "erf": (
        [-0.16181341370019, -0.17680578512225, 0.20497681499147, 0.19321259607696],
        [0.08597237089747, 0.06021381401076, 0.07001320130333],
    ),
    "relu": (
        [-0.31239289391822, -0.19785637712967, 0.26526217999780, 0.22600914368681],
        [0.27880890994521, 0.22408568590408, 0.30121989280125],
    ),
}


@functools.cache
def compiled(units):
    return jax.jit(units.noise)


@functools.cache
def with_derivative(units):
    both = lambda s, c: jax.jvp(lambda s: units.noise(s, c), (s,), (jnp.eye(len(s)),))
    return jax.jit(both)


def noise_of(units, sigma, c, biases=None):
    return np.asarray(compiled(units)(sigma, c, biases))


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_values(name):
    units = Units(NAMED[name], NAMED[name], 2, 2)
    row, omega = REFERENCE[name]
    D = C * np.asarray(units.slopes(SIGMA)) + np.eye(2, 4) * (units.curvatures(SIGMA) @ C)[:, None]
    exact = units.method() == "closed form"
    rtol = 1e-12 if exact else units.accuracy
    np.testing.assert_allclose(D[0], row, rtol=rtol)
    np.testing.assert_allclose(noise_of(units, SIGMA, C)[[0, 0, 1], [0, 1, 1]], omega, rtol=rtol)
    assert units.error(SIGMA, C) <= (0 if exact else units.accuracy)


def test_four_signs_reference():
    s = np.sqrt(np.diagonal(SIGMA))
    rho = (SIGMA / np.outer(s, s))[np.triu_indices(4, 1)]
    P4 = 1 / 16 + np.sum(np.arcsin(rho)) / (8 * np.pi) + four_signs(jnp.asarray(rho)) / 16
    np.testing.assert_allclose(P4, 0.14043098154827705, rtol=1e-13)


@pytest.mark.parametrize(
    ("activation", "I4"),
    [
        (type(NAMED["relu"])(0.1), 0.10207110433685958),
        (NAMED["abs"], 0.07170317007716204),
        (NAMED["sine"], -0.03851994360138158),
    ],
)
def test_I4_reference(activation, I4):
    """E[g'_1 g'_2 f_3 f_4] is the part of the noise that is bilinear in c_3 and c_4."""
    units = Units(activation, activation, 2, 2)
    of = lambda *c: noise_of(units, SIGMA, np.array([0, 0, *c], float))[0, 1]
    np.testing.assert_allclose((of(1, 1) - of(1, 0) - of(0, 1)) / 2, I4, rtol=1e-12)


@pytest.mark.parametrize(
    ("student", "teacher", "rtol"),
    [
        # Closed forms: the error of the quadrature and rounding.
        *((student, teacher, 1e-10) for student, teacher in (
            ("relu", "relu"), ("leaky_relu", "abs"), ("abs", "linear"), ("relu", "erf"),
            ("leaky_relu", "sign"), ("erf", "relu"), ("erf", "sign"), ("linear", "relu"),
            ("quadratic", "relu"), ("quadratic", "sign"), ("sine", "sine"),
        )),
        # What is asked for, 1e-6.
        ("tanh", "tanh", 1e-6), ("sigmoid", "relu", 1e-6), ("relu", "tanh", 1e-6),
        ("tanh", "gelu", 1e-6), ("swish", "sine", 1e-6), ("quadratic", "gelu", 1e-6),
    ],
)  # fmt: skip
def test_noise_against_quadrature(student, teacher, rtol, independent):
    units = Units(NAMED[student], NAMED[teacher], 2, 2)
    expected = independent.noise(independent.space(SIGMA), student, teacher, 2, MIXED)
    actual = noise_of(units, SIGMA, MIXED)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize(
    ("student", "teacher"), [("tanh", "gelu"), ("gelu", "tanh"), ("erf", "erf")]
)
def test_noise_with_biases(student, teacher, independent):
    units = Units(NAMED[student], NAMED[teacher], 2, 2)
    expected = independent.noise(independent.space(SIGMA), student, teacher, 2, MIXED, BIASES)
    actual = noise_of(units, SIGMA, MIXED, BIASES)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


ROWS = {
    "equal": [[1.0, 0.3], [1.0, 0.3], [0.2, -0.9], [1.0, 0.3], [0.5, 0.8]],
    "parallel": [[1.0, 0.3], [-1.0, -0.3], [0.5, 0.15], [2.0, 0.6], [0.5, 0.8]],
    "all equal": [[1.0, 0.3]] * 5,
    "in a plane": [[1.0, 0.3], [0.1, 0.7], [0.2, -0.9], [1.0, 0.1], [0.5, 0.8]],
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(
    ("student", "teacher"),
    [("relu", "relu"), ("leaky_relu", "tanh"), ("abs", "sign"), ("tanh", "relu"), ("gelu", "gelu")],
)
def test_degenerate_rows(rows, student, teacher, independent):
    """Five units in a plane: all averages are two-dimensional integrals."""
    rows, c = np.array(ROWS[rows]), np.array([-0.5, 0.3, -0.8, 1.0, 0.6])
    expected = independent.noise([independent.plane(rows)], student, teacher, 3, c)
    sigma = rows @ rows.T
    units = Units(NAMED[student], NAMED[teacher], 3, 2)
    actual, change = with_derivative(units)(sigma, c)
    # Nodes gather where two variables become parallel, but four in a plane are worse: 1e-7.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert np.all(np.isfinite(change))


@pytest.mark.parametrize("student", ["relu", "tanh", "gelu", "quadratic"])
def test_a_unit_without_weights(student):
    """A zero row: its slope is g'(0) = s, so that Ω has s E[g'_j Δ²] there."""
    rows = np.array([[0.9, 0.2, 0.1], [0.0, 0.0, 0.0], [0.4, 0.7, -0.3], [0.1, -0.5, 0.8]])
    sigma, c = rows @ rows.T, np.array([-0.6, 0.5, 1.0, 0.7])
    units = Units(NAMED[student], NAMED["erf"], 2, 2)
    actual, change = with_derivative(units)(sigma, c)
    assert np.all(np.isfinite(actual)) and np.all(np.isfinite(change))
    # Without the unit, whose value g(0) is 0.
    kept = [0, 2, 3]
    alone = Units(NAMED[student], NAMED["erf"], 1, 2)
    expected = noise_of(alone, sigma[np.ix_(kept, kept)], c[kept])
    np.testing.assert_allclose(actual[0, 0], expected[0, 0], rtol=1e-6)


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu"])
def test_derivative_against_differences(name):
    units = Units(NAMED[name], NAMED[name], 2, 2, accuracy=1e-8)
    direction = np.array(
        [[0.3, 0.1, -0.2, 0.1], [0.1, 0.2, 0.3, 0.0], [-0.2, 0.3, 0.1, 0.2], [0.1, 0.0, 0.2, 0.4]]
    )
    noise = jax.jit(lambda sigma: units.noise(sigma, MIXED))
    slope = jax.jit(lambda sigma: jax.jvp(noise, (sigma,), (direction,))[1])(SIGMA)
    step = 1e-4
    expected = (noise(SIGMA + step * direction) - noise(SIGMA - step * direction)) / (2 * step)
    # Central differences: step² times a third derivative of order 10, and rounding / step.
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "atol"), [("relu", 1e-8), ("tanh", 1e-14), ("swish", 1e-14)])
def test_noise_vanishes_with_the_error(name, atol):
    """A student equal to its teacher: Δ = 0. The four-sign quadrature has an absolute error."""
    rows = np.array([[1.0, 0.2, 0.4], [0.1, 0.9, -0.3]])
    sigma = np.concatenate([rows, rows]) @ np.concatenate([rows, rows]).T
    units = Units(NAMED[name], NAMED[name], 2, 2)
    noise = noise_of(units, sigma, np.array([-1.0, -0.5, 1.0, 0.5]))
    np.testing.assert_allclose(noise, 0, atol=atol)


@pytest.mark.parametrize(("name", "K"), [("relu", 4), ("tanh", 6)])
def test_many_units(K, name):
    """Entries i, j do not depend on how many other students are counted as students."""
    rows = np.random.default_rng(K).normal(size=(2 * K, 20)) / np.sqrt(20)
    sigma, c = rows @ rows.T, np.random.default_rng(1).normal(size=2 * K)
    g = NAMED[name]
    whole = noise_of(Units(g, g, K, K), sigma, c)
    part = noise_of(Units(g, g, 2, 2 * K - 2), sigma, c)
    np.testing.assert_allclose(whole[:2, :2], part, rtol=1e-12)
    assert np.linalg.eigvalsh(whole)[0] > 0


def test_kinked_function_without_closed_form():
    """Stated as approximate, with an error that covers the deviation from the closed form."""
    own = Activation(jax.nn.relu, kinks=(0.0,))
    units, exact = Units(own, own, 2, 2), Units(NAMED["relu"], NAMED["relu"], 2, 2)
    assert units.approximate() and "quasi-random points" in units.method()
    stated = units.error(SIGMA, MIXED)
    assert 0 < stated < 0.03
    for kind in ("values", "slopes", "curvatures", "slope_values"):
        actual, expected = (getattr(u, kind)(SIGMA) for u in (units, exact))
        size = float(jnp.max(jnp.abs(expected)))
        np.testing.assert_allclose(actual, expected, rtol=0, atol=0.02 * size)
    expected = noise_of(exact, SIGMA, MIXED)
    actual = noise_of(units, SIGMA, MIXED)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=0.03 * np.abs(expected).max())


def test_resolution_follows_the_spread():
    gelu = NAMED["gelu"]
    units = Units(gelu, gelu, 2, 2)
    wide, narrow = units.resolved(16 * SIGMA), units.resolved(SIGMA / 16)
    assert wide.rule.terms > units.rule.terms > narrow.rule.terms
    assert units.resolved(SIGMA) == units.resolved(1.01 * SIGMA)  # few programs
