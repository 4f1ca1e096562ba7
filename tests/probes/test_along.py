"""The critical rate along an update: a closed form, networks by brute force, and its cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.probes import critical_rate_along

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((20, 6)), RNG.standard_normal(20)
LINEAR = ld.Model(ld.Network(None, lambda w, x: x @ w), RNG.standard_normal(6))
H = X.T @ X / len(X)
GRADIENT = X.T @ (X @ LINEAR.weights - Y) / len(X)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_closed_form_of_a_quadratic_loss(scale):
    rate = critical_rate_along(LINEAR, X, Y, update=scale * GRADIENT)
    expected = 2 * GRADIENT @ GRADIENT / (GRADIENT @ H @ GRADIENT) / scale
    assert rate.low <= expected <= rate.high and rate.passes <= 10
    assert float(rate) == pytest.approx(expected, rel=1e-3)
    assert rate.sharpness == pytest.approx(2 / expected, rel=1e-3)


def test_along_the_top_eigenvector_it_is_the_critical_rate():
    """Weights that differ from the minimum along the top eigenvector alone."""
    top = np.linalg.eigh(H)[1][:, -1]
    best = np.linalg.solve(H, X.T @ Y / len(X))
    model = ld.Model(LINEAR.network, best + 0.3 * top)
    rate = critical_rate_along(model, X, Y, update=H @ (0.3 * top))
    assert float(rate) == pytest.approx(float(ld.critical_learning_rate(model, X, Y)), rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_network_against_a_fine_grid_of_rates(seed):
    rng = np.random.default_rng(seed)
    network = ld.MLP((6, 24, 1), "tanh")
    model = ld.Model(network, network.sample(rng, (6,)))
    with jax.enable_x64(True):
        loss = lambda w: jnp.mean((network(w, X) - Y) ** 2) / 2
        gradient = jax.tree.map(np.asarray, jax.grad(loss)(model.weights))
        rate = critical_rate_along(model, X, Y, update=gradient)
        along = lambda eta: loss(jax.tree.map(lambda w, g: w - eta * g, model.weights, gradient))
        grid = np.geomspace(1e-3 * float(rate), 3 * float(rate), 4000)
        first = grid[np.asarray(jax.vmap(along)(grid)) > loss(model.weights)][0]
    assert rate.low <= first and first / 1.003 <= rate.high  # neighbours of the grid: 1.002
    assert rate.high < 1.1 * rate.low
    assert float(rate) >= 0.8 * float(ld.critical_learning_rate(model, X, Y, exact=True))


def test_a_guess_far_off_still_brackets():
    expected = 2 * GRADIENT @ GRADIENT / (GRADIENT @ H @ GRADIENT)
    for guess in (1e-3 * expected, 1e3 * expected):
        rate = critical_rate_along(LINEAR, X, Y, update=GRADIENT, guess=guess)
        assert rate.low <= expected <= rate.high


def test_an_update_that_only_raises_or_only_lowers_the_loss():
    assert float(critical_rate_along(LINEAR, X, Y, update=-GRADIENT)) == 0.0
    flat = ld.Model(ld.Network(None, lambda w, x: jnp.exp(-w[0]) * x[:, 0]), np.ones(1))
    down = critical_rate_along(flat, np.ones((2, 1)), np.zeros(2), update=-np.ones(1))
    assert float(down) == np.inf and down.sharpness == 0.0


@pytest.mark.parametrize(
    ("update", "line"),
    [
        (np.ones(5), "update: got a ndarray of shapes"),
        ([np.ones(6)], "update: got a list of shapes"),
        (np.zeros(6), "update: got zero; allowed is a direction"),
        (np.full(6, np.nan), "update: "),
    ],
)
def test_bad_updates_are_one_line(update, line):
    with pytest.raises(ValueError) as error:
        critical_rate_along(LINEAR, X, Y, update=update)
    assert str(error.value).startswith(line) and "\n" not in str(error.value)
