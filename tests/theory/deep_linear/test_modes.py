import itertools

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from learndyn.networks.solvable.matrix_product import natural_direction
from learndyn.theory.deep_linear import modes

direction = jax.jit(natural_direction, static_argnames=("blocks", "form"))
POWERS = [0, 1 / 3, 1 / 2, 2 / 3, 1]
RULES = list(itertools.product(POWERS, [False, True]))

# One mode of four layers, σ(0) = (0.3, 0.5, 0.8, 1.1) and σ̄_* = 2: dσ/dt at 0 and σ at t = 1, by
# (power, blocks).
START = np.array([[0.3, 0.5, 0.8, 1.1]])
REFERENCE = {
    (1, False): (
        [2.6955178554445247, 1.6173107132667144, 1.0108191957916965, 0.7351412333030519],
        [0.8719109872978675, 0.9592855517366743, 1.1446522484015547, 1.3712143412941444],
    ),
    (1, True): (
        [1.0613636363636363, 1.7689393939393938, 2.83030303030303, 3.8916666666666666],
        [0.5327549744352001, 0.887924957392001, 1.4206799318272008, 1.9534349062624004],
    ),
    (1 / 2, False): (
        [1.4884555874284473, 0.8930733524570682, 0.5581708452856676, 0.40594243293503096],
        [0.9631505934536382, 1.0429089440934374, 1.21559000722698, 1.4309643830892822],
    ),
    (1 / 3, True): (
        [0.895037229299328, 0.7549036358522251, 0.6454335296830446, 0.5804310321121807],
        [0.897235182280079, 1.0457078533181874, 1.29201805181872, 1.5540517360617452],
    ),
    (0, False): (
        [0.8219200000000001, 0.493152, 0.30822, 0.22415999999999997],
        [1.0074204415443693, 1.083926171859251, 1.2509580113023184, 1.4611283126547947],
    ),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def integrate(start, target, t_end, **rule):
    rate = jax.jit(lambda s: modes.velocity(s, target, **rule))
    run = solve_ivp(
        lambda _, y: np.asarray(rate(y.reshape(start.shape))).ravel(),
        (0, t_end),
        start.ravel(),
        method="DOP853",
        rtol=1e-12,
        atol=1e-13,
    )
    return run.y.T.reshape(-1, *start.shape)


def test_couplings_do_not_divide():
    sigma = np.array([[2.0, -3.0, 5.0], [0.0, 2.0, 3.0], [0.0, 0.0, 4.0]])
    np.testing.assert_array_equal(modes.coupling(sigma), [[-15, 10, -6], [6, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(modes.coupling(np.array([[7.0]])), [[1.0]])


@pytest.mark.parametrize("power, blocks", list(REFERENCE))
def test_reference_mode(power, blocks):
    rate, end = REFERENCE[power, blocks]
    target = np.array([2.0])
    found = modes.velocity(START, target, power=power, blocks=blocks)
    np.testing.assert_allclose(found, [rate], rtol=1e-14)
    path = integrate(START, target, 1.0, power=power, blocks=blocks)
    np.testing.assert_allclose(path[-1], [end], rtol=1e-11)
    if power == 1:  # the map is linear in time, with and without blocks
        assert abs(path[-1].prod() - (2 + (0.132 - 2) / np.e)) < 1e-11


def test_reference_damped_mode():
    sigma = np.array([[0.3, 0.5, 0.8]])
    found = modes.velocity(sigma, np.array([1.0]), power=1, damping=0.2)
    expected = [[0.9597818677573279, 0.5758691206543967, 0.35991820040899797]]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    j = modes.coupling(sigma)[0]
    size = np.linalg.norm(j)
    a = 0.2 / size
    printed = -(sigma.prod() - 1) * j / size * (a * size + 1) / (a + size)  # Eq. 18
    np.testing.assert_allclose(found, [printed], rtol=1e-14)


@pytest.mark.parametrize("power, blocks", RULES)
@pytest.mark.parametrize("widths", [(3, 3), (3, 3, 3), (4, 3, 5), (3, 5, 4, 3), (5, 3, 6, 4, 5)])
def test_velocity_is_that_of_aligned_weights(widths, power, blocks):
    rng = np.random.default_rng(sum(widths))
    layers, n = len(widths) - 1, min(widths)
    sigma, target = rng.uniform(0.3, 1.5, (n, layers)), rng.uniform(0.5, 2, n)
    sigma[0] *= rng.choice([-1, 1], layers)
    bases = [np.linalg.qr(rng.standard_normal((w, w)))[0][:, :n] for w in widths]
    weights = tuple(bases[i + 1] * sigma[:, i] @ bases[i].T for i in range(layers))
    gap = bases[-1] * (sigma.prod(axis=1) - target) @ bases[0].T
    for damping, form in ((0.0, "paper"), (0.3, "paper"), (0.3, "levenberg")):
        rule = {"blocks": blocks, "damping": damping, "form": form}
        moves = direction(weights, gap, float(power), **rule)
        found = modes.velocity(sigma, target, power=power, **rule)
        for i, move in enumerate(moves):
            inside = bases[i + 1] * np.asarray(found[:, i]) @ bases[i].T
            np.testing.assert_allclose(-np.asarray(move), inside, atol=1e-11)


@pytest.mark.parametrize("power, blocks", RULES)
def test_invariants_are_constant(power, blocks):
    start = np.array([[0.3, 0.5, 0.8], [-0.4, 0.2, -1.1]])
    path = integrate(start, np.array([2.0, 1.0]), 1.5, power=power, blocks=blocks)
    kept = modes.invariants(path, power=power, blocks=blocks)
    assert np.abs(path[-1] - path[0]).max() > 0.1
    assert kept.shape == (*path.shape[:-1], 2)
    assert np.abs(kept - kept[0]).max() < 1e-11


def test_damping_keeps_the_hyperbolas():
    path = integrate(START, np.array([2.0]), 1.0, power=1, damping=0.5)
    kept = modes.invariants(path, power=1)
    assert np.abs(kept - kept[0]).max() < 1e-11


@pytest.mark.parametrize("power, blocks", RULES)
def test_uncoupled_modes_do_not_move(power, blocks):
    sigma = np.array([[0.0, 0.5, 0.8], [0.0, 0.0, 0.8], [0.0, 0.0, 0.0]])
    found = modes.velocity(sigma, np.ones(3), power=power, blocks=blocks)
    assert found[0, 0] > 0  # one vanishing strength does not freeze a mode
    np.testing.assert_array_equal(found[0, 1:], 0)
    np.testing.assert_array_equal(found[1:], 0)


@pytest.mark.parametrize("power, blocks", RULES)
def test_powers_and_damping_may_be_traced(power, blocks):
    rule = jax.jit(
        lambda power, damping: modes.velocity(
            START, np.array([2.0]), power=power, blocks=blocks, damping=damping
        )
    )
    kept = jax.jit(lambda power: modes.invariants(START, power=power, blocks=blocks))
    found, invariants = rule(power, 0.1), kept(power)
    expected = modes.velocity(START, np.array([2.0]), power=power, blocks=blocks, damping=0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(invariants, modes.invariants(START, power=power, blocks=blocks))


def test_single_layer_is_linear_for_every_rule():
    for power, blocks in RULES:
        found = modes.velocity(np.array([[0.4]]), np.array([1.0]), power=power, blocks=blocks)
        np.testing.assert_allclose(found, [[0.6]], rtol=1e-15)


@pytest.mark.parametrize(
    "rule, message",
    [
        ({"power": 1.5}, r"power: got 1\.5; allowed is from 0 to 1"),
        ({"power": 1, "damping": -1.0}, r"damping: got -1\.0; allowed is a non-negative"),
        ({"power": 1, "form": "other"}, "form: got 'other'; allowed is one of"),
    ],
)
def test_bad_rules(rule, message):
    with pytest.raises(ValueError, match=message):
        modes.velocity(START, np.array([2.0]), **rule)
