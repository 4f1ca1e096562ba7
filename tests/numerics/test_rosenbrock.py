"""The stiff solver: its order, its stability, and a problem that explicit steps cannot afford."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics import ode
from learndyn.numerics.rosenbrock import Rodas
from learndyn.runtime.divergence import has_diverged


def dense(field):
    """The resolvent by a dense Jacobian, for small problems."""

    def linearise(y, w):
        matrix = w * jnp.eye(len(y)) - jax.jacfwd(field)(y)
        return lambda b: jnp.linalg.solve(matrix, b)

    return linearise


def one_step(field, y, tau):
    import diffrax

    solver = Rodas(dense(field))
    terms = diffrax.ODETerm(lambda t, y, args: field(y))
    y1, error, *_ = solver.step(terms, 0.0, tau, y, None, None, False)
    return np.asarray(y1), np.asarray(error)


def pendulum(y):
    return jnp.stack([y[1], -jnp.sin(y[0])])


@pytest.mark.slow
def test_local_errors_have_the_orders_of_the_scheme():
    """Order 4: a step errs by τ⁵; the embedded solution by τ⁴."""
    with jax.enable_x64(True):
        y = jnp.array([0.7, 0.4])
        bound = jnp.array(1e9)
        exact = lambda tau: np.asarray(
            ode.integrate(
                pendulum,
                y,
                jnp.array([tau]),
                lambda y: y,
                rtol=1e-13,
                atol=1e-15,
                diverged=lambda y: has_diverged(y, bound),
            ).saved[0]
        )
        taus = 0.2 / 2.0 ** np.arange(4)
        found = [one_step(pendulum, y, tau) for tau in taus]
        true = [np.abs(y1 - exact(tau)).max() for (y1, _), tau in zip(found, taus, strict=True)]
        embedded = [np.abs(error).max() for _, error in found]
    slopes = lambda errors: np.diff(np.log(errors)) / np.log(0.5)
    assert slopes(true)[-1] == pytest.approx(5, abs=0.25)
    assert slopes(embedded)[-1] == pytest.approx(4, abs=0.25)


def test_stiff_decay_is_damped_in_one_step():
    """L-stable: a mode of rate 10⁹ is gone after a step of 1."""
    with jax.enable_x64(True):
        y1, _ = one_step(lambda y: -1e9 * y, jnp.array([1.0]), 1.0)
    assert abs(y1[0]) < 1e-7


def test_stiff_problem_at_tolerance():
    """Robertson's reaction at t = 40 (Hairer and Wanner): y = (0.7158, 9.185e-6, 0.2842)."""

    def robertson(y):
        a, b, c = 0.04 * y[0], 3e7 * y[1] ** 2, 1e4 * y[1] * y[2]
        return jnp.stack([-a + c, a - b - c, b])

    with jax.enable_x64(True):
        found = ode.integrate(
            robertson,
            jnp.array([1.0, 0.0, 0.0]),
            jnp.array([40.0]),
            lambda y: y,
            rtol=1e-8,
            atol=1e-12,
            diverged=lambda y: has_diverged(y, jnp.array(1e9)),
            linearise=dense(robertson),
        )
    expected = [0.7158270687, 9.185534764e-6, 0.2841637457]
    np.testing.assert_allclose(found.saved[0], expected, rtol=1e-6)
