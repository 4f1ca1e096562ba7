"""The stabilised solver: its order, how far down the axis it is stable, its tolerance."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics import ode
from learndyn.numerics.chebyshev import Chebyshev
from learndyn.runtime.divergence import has_diverged


def one_step(field, y, tau, radius):
    solver = Chebyshev(lambda y: jnp.asarray(radius))
    terms = diffrax.ODETerm(lambda t, y, args: field(y))
    y1, error, *_ = solver.step(terms, 0.0, jnp.asarray(tau), y, None, None, False)
    return np.asarray(y1), np.asarray(error)


@pytest.mark.parametrize("radius", [1.0, 400.0])
def test_local_error_is_of_third_order_for_any_number_of_stages(radius):
    """Logistic growth, y = 1/(1 + (1/y₀ − 1) e^-t)."""
    with jax.enable_x64(True):
        taus = 0.1 / 2.0 ** np.arange(4)
        field = lambda y: y * (1 - y)
        found = [one_step(field, jnp.array([0.3]), tau, radius / tau) for tau in taus]
    exact = 1 / (1 + (1 / 0.3 - 1) * np.exp(-taus))
    true = np.array([abs(y[0] - e) for (y, _), e in zip(found, exact, strict=True)])
    slopes = np.diff(np.log(true)) / np.log(0.5)
    assert slopes[-1] == pytest.approx(3, abs=0.25)


@pytest.mark.parametrize("z", [1.0, 30.0, 1000.0, 50_000.0])
def test_every_decaying_mode_inside_the_radius_decays(z):
    """A mode of rate up to the given radius never grows, whatever the step."""
    with jax.enable_x64(True):
        rates = jnp.linspace(0.01, 1.0, 200) * z
        y1, _ = one_step(lambda y: -rates * y, jnp.ones(200), 1.0, z)
    assert np.abs(y1).max() < 1


def test_stiff_problem_at_tolerance():
    """A mode of rate 1000 drawn along by a slow one: y → 1000/999 (e^-t − e^-1000t) closed."""

    def field(y):
        return jnp.stack([-y[0], -1000 * y[1] + 1000 * y[0]])

    with jax.enable_x64(True):
        times = jnp.array([0.5, 2.0, 5.0])
        found = ode.integrate(
            field,
            jnp.array([1.0, 0.0]),
            times,
            lambda y: y,
            rtol=1e-8,
            atol=1e-12,
            diverged=lambda y: has_diverged(y, jnp.array(1e9)),
            radius=lambda y: jnp.asarray(1000.0),
        )
        assert bool(found.succeeded)
        times, found = np.asarray(times), np.asarray(found.saved)
    exact = 1000 / 999 * (np.exp(-times) - np.exp(-1000 * times))
    # Hundreds of steps, each wrong by at most 1e-8 of the largest entry.
    np.testing.assert_allclose(found[:, 1], exact, atol=1e-6)
