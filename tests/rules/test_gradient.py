"""A step of SGD with rates of its own for outputs and biases, and decay, written out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import erf

import learndyn as ld
from learndyn.numerics.random import Source, key_of_run
from learndyn.rules.batches import batches
from learndyn.runtime.precision import full_precision

N, BATCH = 12, 3
RATES = {"output_rate": 0.5, "bias_rate": 0.6, "decay": 0.4, "output_decay": 0.3}
RULE = ld.SGD(0.7, batch=BATCH, **RATES)
NETWORK = ld.Committee(
    2, "erf", scale=1.2, outputs=[0.7, -0.4], biases=[0.3, -0.2],
    train=("inputs", "outputs", "biases"),
)  # fmt: skip


def system(rule, network=NETWORK):
    teacher = ld.Committee(2, "erf", scale=0.8, outputs=[1.0, -0.6], biases=[0.1, 0.2])
    data = ld.TeacherStudent(ld.Spectrum([2.0, 0.5], [4, 8]), teacher, label_noise=0.3)
    return ld.System(data, network, rule)


def examples(given, teacher, key):
    """The examples of the first step with a key."""
    with full_precision():
        drawn = batches(given.problem, given.network, teacher, np.float64, BATCH, "replacement")
        x, y, _ = drawn.draw((), Source(key_of_run(key, 0), jnp.asarray(0)))
        return np.asarray(x), np.asarray(y)


def stepped(weights, x, y):
    """One step, every sum written out; loss = (y − output)²/2."""
    W, v, b = weights
    z = x @ W.T / np.sqrt(N) + b
    g, slope = erf(z / 2**0.5), np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
    e = y - 1.2 * g @ v
    delta = 1.2 * v * slope * e[:, None]
    W = (1 - 0.4 / N) * W + 0.7 * delta.T @ x / np.sqrt(N) / BATCH
    return W, (1 - 0.3 / N) * v + 0.5 / N * 1.2 * g.T @ e / BATCH, b + 0.6 / N * delta.mean(0)


@pytest.fixture(scope="module")
def begin():
    return ld.start(system(RULE), key=1)


def test_a_step_is_that_of_numpy(begin):
    given = system(RULE)
    after = ld.update(given, begin.weights, teacher=begin.teacher, key=7)
    expected = stepped(begin.weights, *examples(given, begin.teacher, 7))
    for found, by_hand in zip(after, expected, strict=True):
        np.testing.assert_allclose(found, by_hand, rtol=1e-13, atol=1e-15)


def test_the_direct_engine_takes_this_step(begin):
    given = system(RULE)
    record = ld.simulate(
        given, [0, 1 / N], start=begin, key=7, method="direct", dtype="float64",
        probes={"rows": lambda model: model.weights.inputs},
    )  # fmt: skip
    W, v, b = stepped(begin.weights, *examples(given, begin.teacher, 7))
    for name, expected in (("rows", W), ("outputs", v), ("biases", b)):
        np.testing.assert_allclose(record[name][0, 1], expected, rtol=1e-13, atol=1e-15)


def test_optax_on_this_estimator_takes_the_same_step(begin):
    rule = ld.Optax(optax.sgd(0.7), estimator=RULE)
    found = ld.update(system(rule), begin.weights, teacher=begin.teacher, key=7)
    expected = ld.update(system(RULE), begin.weights, teacher=begin.teacher, key=7)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


def test_outputs_learn_at_the_learning_rate_unless_told_otherwise(begin):
    rules = ld.SGD(0.7, batch=BATCH), ld.SGD(0.7, batch=BATCH, output_rate=0.7, bias_rate=0.7)
    same = [ld.update(system(r), begin.weights, teacher=begin.teacher, key=7) for r in rules]
    for a, b in zip(*same, strict=True):
        np.testing.assert_array_equal(a, b)


def test_decay_outside_committees_is_a_multiplier():
    data = ld.TeacherStudent(ld.Isotropic(3), ld.LinearTeacher(2, np.ones((2, 3))))
    given = [
        ld.System(data, ld.DeepLinear([3, 4, 2]), ld.SGD(0.1, **decay))
        for decay in ({}, {"decay": 0.0}, {"decay": 0.2})
    ]
    weights = ld.start(given[0], key=1).weights
    plain, zero, decayed = (ld.update(s, weights, key=2) for s in given)
    for w, a, b, c in zip(weights, plain, zero, decayed, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)
        np.testing.assert_allclose(a - c, 0.2 * w, rtol=1e-9, atol=1e-15)


def test_rates_of_zero_do_not_compile_anew():
    from learndyn.solving.integrate import _advance

    sizes = []
    for rates in ({}, {"output_rate": 0.0}, {"decay": 0.0, "output_decay": 0.0}):
        ld.solve(system(ld.SGD(0.3, batch=BATCH, **{**RATES, **rates})), [0, 0.1, 0.2])
        sizes.append(_advance._cached._cache_size())
    assert sizes[0] == sizes[1] == sizes[2]


def test_descent_on_the_population_follows_the_flow():
    """Small steps of weights, against the order parameters without their noise."""
    network = ld.Committee(2, "erf", outputs=[0.7, -0.4], train=("inputs", "outputs"))
    teacher = ld.Committee(2, "erf", outputs=[1.0, -0.6])
    data = ld.TeacherStudent(ld.Spectrum([2.0, 0.5], [4, 8]), teacher)
    given = ld.System(data, network, ld.GradientDescent(0.01))
    begin, times = ld.start(given, key=2), [0.0, 100.0]
    theory = ld.solve(given, times, start=begin)
    runs = ld.simulate(given, times, start=begin, method="direct", dtype="float64")
    for name in ("Q", "R", "outputs", "error"):
        moved = np.abs(theory[name][1] - theory[name][0]).max()
        gap = np.abs(runs[name][0, 1] - theory[name][1]).max()
        assert gap < 0.01 * moved and moved > 0.01


def test_structure_of_gradients_is_that_of_weights(begin):
    assert jax.tree.structure(begin.weights) == jax.tree.structure(NETWORK.like((N,)))
