"""Momentum and decay of gradient rules."""

import jax
import numpy as np
import optax
import pytest

import learndyn as ld

RNG = np.random.default_rng(0)
DATA = ld.Dataset(RNG.normal(size=(6, 3)), RNG.normal(size=6))
NETWORK = ld.MLP([3, 4, 1], "tanh")


def trained(rule):
    system = ld.System(DATA, NETWORK, rule)
    return ld.simulate(system, [0, 20], key=1, dtype="float64").error.values[0]


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_that_of_optax(nesterov):
    ours = trained(ld.GradientDescent(0.1, momentum=0.9, nesterov=nesterov))
    np.testing.assert_allclose(ours, trained(ld.Optax(optax.sgd(0.1, 0.9, nesterov))), rtol=1e-12)


def test_decay_enters_the_velocity_as_in_optax():
    ours = trained(ld.GradientDescent(0.1, momentum=0.8, decay=0.02))
    chain = optax.chain(optax.add_decayed_weights(0.2), optax.sgd(0.1, 0.8))  # decay = η · 0.2
    np.testing.assert_allclose(ours, trained(ld.Optax(chain)), rtol=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_decay_enters_the_velocity_alike_where_the_rate_may_change(nesterov):
    options = {"batch": 2, "momentum": 0.8, "decay": 0.02, "nesterov": nesterov}
    ours = trained(ld.SGD(lambda step: 0.1 + 0 * step, **options))
    np.testing.assert_allclose(ours, trained(ld.SGD(0.1, **options)), rtol=1e-12)


def test_a_rate_of_zero_leaves_decay_alone():
    rate = lambda step: 0.1 * (step >= 5)
    after = ld.simulate(
        ld.System(DATA, NETWORK, ld.SGD(rate, momentum=0.5, decay=0.01)), [0, 5, 20]
    )
    assert np.all(np.isfinite(after.error))
    weights = np.ones(2)
    network = ld.Network(lambda key: weights, lambda w, x: x @ w)
    data = ld.Dataset(np.eye(2), np.zeros(2))
    rule = ld.SGD(lambda step: 0.0 * step, momentum=0.5, decay=0.01)
    found = ld.simulate(ld.System(data, network, rule), [0, 1, 2], dtype="float64")
    # u ← 0.5 u + 0.01 w, w ← w − u: 1, 0.99, 0.99 − (0.005 + 0.0099); the error is w²/2.
    np.testing.assert_allclose(found.error[0], np.array([1, 0.99, 0.9751]) ** 2 / 2, rtol=1e-12)


def test_sgd_draws_the_same_examples_with_and_without_momentum():
    both = [trained(ld.SGD(0.1, batch=2, momentum=m)) for m in (None, 0.0)]
    np.testing.assert_allclose(*both, rtol=1e-12)
    assert abs(trained(ld.SGD(0.1, batch=2, momentum=0.5))[1] - both[0][1]) > 1e-3


def test_theories_of_other_networks_refuse_momentum():
    problem = ld.TeacherStudent(ld.Isotropic(3), ld.LinearTeacher(2))
    system = ld.System(problem, ld.DeepLinear([3, 2, 2]), ld.SGD(0.1, momentum=0.5))
    with pytest.raises(ld.NoTheory, match="perturbation: the rule has momentum, whose velocity"):
        ld.theory_of(system)


def test_rules_that_would_lose_the_momentum_refuse_it():
    rule = ld.SGD(0.1, momentum=0.5)
    with pytest.raises(ValueError, match="estimator: got SGD with momentum"):
        ld.Optax(optax.sgd(0.1), estimator=rule)
    with pytest.raises(ValueError, match="rule: got SGD with momentum"):
        ld.CatapultSchedule(rule)
    with pytest.raises(ValueError, match="method: got 'flow' for GradientDescent, which has a mem"):
        system = ld.System(DATA, NETWORK, ld.GradientDescent(0.1, momentum=0.5))
        ld.simulate(system, [0, 1], method="flow")


def test_text_is_the_same_without_momentum():
    assert repr(ld.GradientDescent(0.1)) == "GradientDescent(learning_rate=0.1)"
    system = ld.System(DATA, NETWORK, ld.SGD(0.1, momentum=0.5, nesterov=True))
    again = ld.System.from_json(system.to_json())
    assert again.rule.nesterov and jax.tree.leaves(again.rule)[-1] == 0.5


@pytest.mark.parametrize("momentum", [1.0, -0.1, np.nan])
def test_momenta_out_of_range_are_refused(momentum):
    with pytest.raises(
        ValueError, match=r"momentum: got .*; allowed is a number from 0 to below 1"
    ):
        ld.SGD(0.1, momentum=momentum)
    with pytest.raises(ValueError, match="nesterov: got True without a momentum"):
        ld.SGD(0.1, nesterov=True)
