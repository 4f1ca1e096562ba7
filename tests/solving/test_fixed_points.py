"""Newton and Jacobians on the true vector field: known fixed points, spectra and differences."""

import equinox as eqx
import jax
import numpy as np
import pytest

import learndyn as ld
from learndyn.runtime.precision import to_numpy
from learndyn.solving.fixed_points import find_fixed_point, jacobian_spectrum

ETA = 0.2


def quadratic(p, p_star):
    teacher = ld.Committee(p_star, "quadratic", scale=1 / p_star, init=ld.Orthonormal(1.0))
    data = ld.TeacherStudent(ld.Isotropic(100), teacher, loss_scale=1.0)
    return ld.theory_of(ld.System(data, ld.Committee(p, "quadratic", scale=1 / p), ld.SGD(ETA)))


def full(theory, state):
    with jax.enable_x64(True):
        return to_numpy(_full(theory, state))


_full = eqx.filter_jit(lambda theory, state: theory.drift(state, "full"))


@pytest.fixture(scope="module")
def plateau():
    theory = quadratic(3, 2)
    start = ld.Overlaps(np.diag([0.5, 0.6, 0.72]) + 0.02, np.zeros((3, 2)), np.eye(2))
    return theory, find_fixed_point(theory, start)


def test_newton_finds_the_unstable_plateau(plateau):
    _, found = plateau
    assert found.converged and found.residual < 1e-14
    np.testing.assert_allclose(found.state.Q[0], 0.6 * np.eye(3), atol=1e-12)
    np.testing.assert_allclose(found.state.R[0], 0.0, atol=1e-12)
    np.testing.assert_array_equal(found.state.T[0], np.eye(2))


def test_spectrum_is_the_closed_form_with_its_multiplicities(plateau):
    theory, found = plateau
    # 8/(p p*) on ρ; −16/(p (p+2)) on Q off the diagonal and traceless; −8/p on the trace.
    expected = ETA * np.array([4 / 3] * 6 + [-16 / 15] * 5 + [-8 / 3])
    np.testing.assert_allclose(jacobian_spectrum(theory, found.state).rates, expected, atol=1e-12)


def test_directions_are_those_of_finite_differences(plateau):
    theory, _ = plateau
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 8)) / 3
    C = A @ A.T
    Q, R, T = C[:3, :3], C[:3, 3:], C[3:, 3:]
    found, step = jacobian_spectrum(theory, ld.Overlaps(Q, R, T), "full"), 1e-5
    for k in (0, 5, 11):
        assert not np.any(found.directions.T[k])
        dQ, dR = found.directions.Q[k][0], found.directions.R[k][0]
        np.testing.assert_array_equal(dQ, dQ.T)
        # Real and imaginary part are two real directions; central differences err by step².
        change = [
            [
                full(theory, ld.Overlaps(Q + h * part(dQ), R + h * part(dR), T))
                for h in (step, -step)
            ]
            for part in (np.real, np.imag)
        ]
        real, imag = ((up.R[0] - down.R[0]) / (2 * step) for up, down in change)
        np.testing.assert_allclose(real + 1j * imag, found.rates[k] * dR, atol=1e-8)


def test_newton_reaches_a_family_of_fixed_points():
    """Deep linear: the product of the layers is fixed, how it is shared out is not."""
    target, sigma = np.array([3.0, 0.5]), np.array([[1.9, 1.7], [0.6, 0.7]])
    data = ld.TeacherStudent(ld.Isotropic(2), ld.LinearTeacher(2, np.diag(target)))
    network = ld.DeepLinear([2, 2, 2], init=ld.Aligned(sigma))
    theory = ld.theory_of(ld.System(data, network, ld.GradientDescent(ETA)))
    found = find_fixed_point(theory, ld.Modes(sigma))
    assert found.converged
    np.testing.assert_allclose(found.state.sigma.prod(1), target, rtol=1e-12)
    rates = jacobian_spectrum(theory, found.state).rates
    np.testing.assert_allclose(rates[:2], 0, atol=1e-14)  # one free direction a mode
    # Loss (1/2)(target − σ₁σ₂)²: the Hessian's other eigenvalue is σ₁² + σ₂².
    stiff = -ETA * np.sort(np.sum(found.state.sigma**2, axis=1))
    np.testing.assert_allclose(rates[2:], stiff, rtol=1e-10)


def test_not_converging_is_a_result(plateau):
    theory, _ = plateau
    start = ld.Overlaps(0.7 * np.eye(3), np.zeros((3, 2)), np.eye(2))
    found = find_fixed_point(theory, start, max_steps=1)
    assert not found.converged and found.residual > 1e-4


def test_bad_input_is_one_line(plateau):
    theory, found = plateau
    with pytest.raises(ValueError, match="order: got 'finite'"):
        jacobian_spectrum(theory, found.state, "finite")
    big = ld.Overlaps(np.eye(80), np.zeros((80, 2)), np.eye(2))
    with pytest.raises(ValueError, match="state: got 3400 variables; allowed is at most 3000"):
        find_fixed_point(quadratic(80, 2), big)
