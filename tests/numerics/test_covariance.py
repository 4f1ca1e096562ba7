"""The covariance along a path: closed forms, an independent integration, stiffness, reading."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm, solve_continuous_lyapunov

from learndyn.numerics import covariance
from learndyn.numerics.covariance import (
    PARTS,
    PLACES,
    Stretch,
    _short,
    hermite,
    lagrange,
    misfit,
)

RNG = np.random.default_rng(0)
carry, variances = jax.jit(covariance.carry), jax.jit(covariance.variances)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def stretch_of(J, D, length):
    return Stretch(length, *(np.stack([f(length * place) for place in PLACES]) for f in (J, D)))


def constant(rates, length):
    """Jacobian of given rates without symmetry, and diffusion."""
    n = len(rates)
    mix, F = np.eye(n) + 0.3 * RNG.standard_normal((n, n)), RNG.standard_normal((n, n))
    J, D = mix @ np.diag(rates) @ np.linalg.inv(mix), F @ F.T
    return J, D, stretch_of(lambda t: J, lambda t: D, length)


@pytest.mark.parametrize("fastest", [-0.1, -10.0, -1e5])
def test_ornstein_uhlenbeck(fastest):
    # P(t) = e^(Jt) (P(0) − P*) e^(Jᵀt) + P* with J P* + P* Jᵀ = −D.
    J, D, stretch = constant([fastest, -1.0, -0.03, 0.2], 2.0)
    begin = np.eye(4)
    at_rest, phi = solve_continuous_lyapunov(J, -D), expm(2.0 * J)
    expected = phi @ (begin - at_rest) @ phi.T + at_rest
    found = carry(stretch, begin)[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert misfit(stretch, begin) < 1e-10 * abs(fastest)


def turning(stiff):
    """A Jacobian whose fast direction turns, which does not commute with itself."""

    def J(t):
        c, s = np.cos(t), np.sin(t)
        turn = np.array([[c, -s], [s, c]])
        return turn @ np.diag([-stiff, 0.1]) @ turn.T

    return J, lambda t: np.array([[1 + t, 0.2], [0.2, 1 - 0.5 * t]])


@pytest.mark.parametrize("stiff", [1.0, 100.0, 3000.0])
def test_a_fast_direction_that_turns(stiff):
    J, D = turning(stiff)
    length = 0.3
    stretch = stretch_of(J, D, length)

    def field(t, y):
        half = J(t) @ y.reshape(2, 2)
        return (half + half.T + D(t)).ravel()

    exact = solve_ivp(field, (0, length), np.eye(2).ravel(), "Radau", rtol=1e-10, atol=1e-13)
    expected, found = exact.y[:, -1].reshape(2, 2), carry(stretch, np.eye(2))[-1]
    # Seven nodes leave (length / 4)⁷ of the change of J and of Φ.
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-9)
    assert np.all(np.linalg.eigvalsh(found) > 0)


def test_short_pieces_have_a_local_error_of_fifth_order():
    J, D = turning(2.0)
    errors = []
    for length in (0.4, 0.2):
        stretch = stretch_of(J, D, length)
        field = lambda t, y: (lambda half: (half + half.T + D(t)).ravel())(J(t) @ y.reshape(2, 2))
        exact = solve_ivp(field, (0, length), np.eye(2).ravel(), "DOP853", rtol=1e-13, atol=1e-15)
        found = np.asarray(_short(stretch, 0.0, 1)(np.eye(2)))
        errors.append(np.abs(found.ravel() - exact.y[:, -1]).max())
    assert np.log2(errors[0] / errors[1]) > 4.5


def test_parts_end_where_shorter_stretches_do():
    J, D = turning(40.0)
    whole, P = carry(stretch_of(J, D, 0.3), np.eye(2)), np.eye(2)
    assert len(whole) == PARTS + 1
    for k in range(PARTS):
        later = [lambda t, f=f, k=k: f(0.3 * k / PARTS + t) for f in (J, D)]
        P = carry(stretch_of(*later, 0.3 / PARTS), P)[-1]
        np.testing.assert_allclose(whole[k + 1], P, rtol=2e-5)


def test_reading_between_ends():
    J, D, stretch = constant([-1.0, -0.5, 0.3], 1.0)
    ends, g = carry(stretch, np.zeros((3, 3))), RNG.standard_normal((2, 3))
    for t in (0.5, 0.57, 1.0):
        at_rest, phi = solve_continuous_lyapunov(J, -D), expm(t * J)
        expected = np.einsum("ki,ij,kj->k", g, at_rest - phi @ at_rest @ phi.T, g)
        value, apart = variances(stretch, ends, t, g)
        # (rates × length)⁶ / 46080 with rates of P up to 2; the cubic one is apart by ⁴ / 384.
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        assert np.all(apart <= (2 / PARTS) ** 4 / 384 * np.abs(expected) * 10)


@pytest.mark.parametrize("most", [1, 2])
def test_hermite_keeps_polynomials(most):
    f = np.polynomial.Polynomial(RNG.standard_normal(2 * most + 2))
    known = [f.deriv(m)(x) if m else f(x) for x in (0.0, 1.0) for m in range(most + 1)]
    assert hermite(0.3, most) @ np.array(known) == pytest.approx(f(0.3))


def test_lagrange_keeps_polynomials_and_misfit_sees_what_is_not_one():
    f = np.polynomial.Polynomial(RNG.standard_normal(len(PLACES)))
    assert lagrange(0.42) @ f(PLACES) == pytest.approx(f(0.42))
    D = lambda t: np.array([[2 + np.sin(20 * t)]])
    smooth, rough = (stretch_of(lambda t: np.zeros((1, 1)), D, h) for h in (0.01, 1.0))
    assert misfit(smooth, np.zeros((1, 1))) < 1e-6 < 1e-2 < misfit(rough, np.zeros((1, 1)))
