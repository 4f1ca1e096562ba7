"""Any optax transformation as a rule, against a loop by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import learndyn as ld
from learndyn.studies.zhu2024catapults.fig4_11 import at_rate

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 5)), RNG.normal(size=24)
DATA, NETWORK = ld.Dataset(X, Y), ld.MLP([5, 6, 1], "tanh", bias=True)
TRANSFORMS = {
    "sgd": optax.sgd(0.05),
    "momentum": optax.sgd(0.02, momentum=0.9, nesterov=True),
    "adam": optax.adam(1e-2),
    "adamw": optax.adamw(1e-2, weight_decay=0.1),
    "schedule": optax.sgd(optax.cosine_decay_schedule(0.1, 15)),
    "warm-up": optax.adam(optax.linear_schedule(0.0, 0.05, 10)),
    "chain": optax.chain(optax.clip_by_global_norm(0.1), optax.rmsprop(0.01)),
    "line search": optax.lbfgs(),
}
every = pytest.mark.parametrize("transformation", TRANSFORMS.values(), ids=TRANSFORMS)


def by_hand(transformation, weights, steps):
    """Full batches, float64: what one would write with optax."""
    loss = lambda w: 0.5 * jnp.mean((NETWORK(w, X) - Y) ** 2)
    transform = optax.with_extra_args_support(transformation)
    state = transform.init(weights)

    @jax.jit
    def step(weights, state):
        value, gradient = jax.value_and_grad(loss)(weights)
        updates, state = transform.update(
            gradient, state, weights, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(weights, updates), state

    found = []
    for _ in range(steps):
        weights, state = step(weights, state)
        found.append(float(loss(weights)))
    return np.array(found)


@every
def test_full_batches_are_those_of_a_loop_by_hand(transformation):
    system = ld.System(DATA, NETWORK, ld.Optax(transformation))
    start = ld.start(system, key=1)
    record = ld.simulate(system, np.arange(1, 31), start=start, dtype="float64")
    with jax.enable_x64(True):
        expected = by_hand(transformation, jax.tree.map(jnp.asarray, start.weights), 30)
    np.testing.assert_allclose(record["error"][0], expected, rtol=1e-9)
    assert record.attrs["generator"] == "none"


@pytest.mark.parametrize("name", ["momentum", "adam", "warm-up"])
def test_memory_survives_the_asked_times(name):
    """Measuring often or once gives the same network: memory and passes are carried along."""
    transformation = TRANSFORMS[name]
    rule = ld.Optax(transformation, batch=5, sampling="epochs")
    system = ld.System(DATA, NETWORK, rule)
    often = ld.simulate(system, np.arange(0, 41), key=2)
    once = ld.simulate(system, [40], key=2)
    np.testing.assert_allclose(once["error"][0, 0], often["error"][0, -1], rtol=1e-6)
    assert often.attrs["generator"] != "none"


def test_plain_sgd_is_that_of_the_rule():
    for sampling in ("replacement", "epochs"):
        mine = ld.SGD(0.05, batch=4, sampling=sampling)
        theirs = ld.Optax(optax.sgd(0.05), batch=4, sampling=sampling)
        a, b = (
            ld.simulate(ld.System(DATA, NETWORK, rule), [0, 20], key=3, dtype="float64")["error"]
            for rule in (mine, theirs)
        )
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_fresh_examples_of_a_teacher():
    problem = ld.TeacherStudent(ld.Isotropic(8), ld.Committee(2, "erf"), label_noise=0.1)
    rules = (ld.SGD(0.3, batch=2), ld.Optax(optax.sgd(0.3), batch=2))
    a, b = (ld.System(problem, ld.Committee(2, "erf"), rule) for rule in rules)
    start = ld.start(a, key=1)
    found = [ld.update(system, start.weights, teacher=start.teacher, key=5) for system in (a, b)]
    np.testing.assert_allclose(*found, rtol=1e-12)
    record = ld.simulate(b, [0, 1], key=1)
    assert record.time.attrs["unit"] == "steps / N" and record.step.values.tolist() == [0, 8]


def test_the_estimator_s_own_learning_rate_plays_no_part():
    natural = [ld.NaturalGradient(rate, power=0.5, damping=0.1) for rate in (0.1, 7.0)]
    rules = [ld.Optax(optax.adam(0.01), estimator=rule) for rule in natural]
    a, b = (
        ld.simulate(ld.System(DATA, NETWORK, rule), [0, 5], key=3, dtype="float64")["error"]
        for rule in rules
    )
    np.testing.assert_array_equal(a, b)
    # With plain descent of rate 1 the step is that of the estimator itself at rate 1.
    pair = (ld.Optax(optax.sgd(0.1), estimator=natural[1]), natural[0])
    a, b = (
        ld.simulate(ld.System(DATA, NETWORK, rule), [0, 5], key=3, dtype="float64")["error"]
        for rule in pair
    )
    np.testing.assert_allclose(a, b, rtol=1e-10)


def test_batch_and_sampling_are_the_outer_ones():
    inner = ld.Optax(optax.sgd(0.1), batch=6, sampling="epochs", estimator=ld.SGD(3.0))
    outer = ld.SGD(0.1, batch=6, sampling="epochs")
    a, b = (
        ld.simulate(ld.System(DATA, NETWORK, rule), [0, 8], key=3, dtype="float64")["error"]
        for rule in (inner, outer)
    )
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_update_starts_with_fresh_memory():
    system = ld.System(DATA, NETWORK, ld.Optax(optax.adam(0.01), batch=4))
    weights = ld.start(system, key=1).weights
    after = ld.update(system, weights, key=2)
    # Adam's first step is the learning rate in every entry that has a gradient.
    for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(weights), strict=True):
        np.testing.assert_allclose(np.abs(a - b), 0.01, rtol=1e-3)


def test_a_rate_that_is_an_array_is_not_compiled_in():
    from learndyn.simulation.direct import _record

    unit = optax.sgd(1.0)

    def error(transformation):
        system = ld.System(DATA, NETWORK, ld.Optax(transformation))
        return float(ld.simulate(system, [3], key=1, dtype="float64")["error"][0, 0])

    plain, _ = error(optax.sgd(0.05)), error(at_rate(unit, 0.1))
    before = _record._cached._cache_size()
    assert error(at_rate(unit, 0.05)) == pytest.approx(plain, rel=1e-12)
    assert _record._cached._cache_size() == before


def _at_step(rates, gradients, step, params=None):
    return jax.tree.map(lambda g: -rates[step] * g, gradients), step + 1


def test_a_transformation_may_look_up_rates_in_its_own_array():
    update = jax.tree_util.Partial(_at_step, np.array([0.5, 0.25], np.float32))
    begin = lambda params: jnp.zeros((), int)
    rule = ld.Optax(optax.GradientTransformation(begin, update))
    data = ld.Dataset([[1.0]], [[0.0]], loss_scale=0.5)  # loss w² / 2, gradient w
    system = ld.System(data, ld.Network(lambda key: jnp.ones(1), lambda w, x: x * w), rule)
    runs = ld.simulate(system, [0, 1, 2], start=ld.start(system, weights=np.ones(1)))
    np.testing.assert_allclose(runs["error"].values.ravel(), [0.5, 0.5**3, 0.375**2 / 2])


@pytest.mark.parametrize("clip", [1e-4, pytest.param(1e3, marks=pytest.mark.slow)])
def test_a_clipped_transformation_is_no_longer_than_its_clip(clip):
    """The transformation and the flow clip as the rule's own step does."""
    rule = ld.NaturalGradient(0.5, power=0.5, damping=0.1, clip=clip)
    system = ld.System(DATA, NETWORK, rule)
    weights = ld.start(system, key=1).weights
    own = jax.tree.map(lambda a, b: a - b, ld.update(system, weights), weights)
    with jax.enable_x64(True):
        weights = jax.tree.map(jnp.asarray, weights)
        apply = lambda w, x: NETWORK(w, x[None])
        transform = rule.transformation(apply)
        residual = (NETWORK(weights, X) - Y)[:, None]
        found, _ = transform.update(
            weights, transform.init(weights), weights, inputs=X, output_gradient=residual
        )
        velocity = rule.velocity(DATA, NETWORK, ())(weights)
    for a, b, v in zip(*map(jax.tree.leaves, (own, found, velocity)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(a, 0.5 * np.asarray(v), rtol=1e-9, atol=1e-15)
    size = np.sqrt(sum(np.sum(a**2) for a in jax.tree.leaves(own)))
    assert size == pytest.approx(clip) if clip < 1 else size < clip


def transformation(update, init=lambda params: ()):
    return optax.GradientTransformation(init, update)


def leaves_only(updates, state, params=None):
    return jax.tree.leaves(updates), state


def needs_more(updates, state, params=None, *, temperature, **extra):
    return updates, state


def of_another_network(params):
    return jax.tree.map(lambda a, b: a + b, params, (1.0, 2.0, 3.0))


UNFIT = {
    "structure": (transformation(leaves_only), "got updates of the structure"),
    "shape": (
        transformation(lambda u, s, p=None: (jax.tree.map(jnp.sum, u), s)),
        "got updates of shape () for an array (6, 5); allowed is the structure and",
    ),
    "none": (
        transformation(lambda u, s, p=None: None),
        "got one whose update(gradient, state, weights) raises TypeError",
    ),
    "nones": (transformation(lambda u, s, p=None: (None, s)), "got updates of the structure"),
    "complex": (
        transformation(lambda u, s, p=None: (jax.tree.map(lambda g: g + 1j, u), s)),
        "got updates of type complex64; allowed are real numbers",
    ),
    "text": (
        transformation(lambda u, s, p=None: (jax.tree.map(lambda g: "x", u), s)),
        "got updates of type str; allowed are real numbers",
    ),
    "state": (
        transformation(lambda u, s, p=None: (u, (s, 1.0))),
        "got a state of the structure",
    ),
    "arguments": (
        optax.GradientTransformationExtraArgs(lambda params: (), needs_more),
        "raises TypeError: needs_more() missing 1 required keyword-only argument: 'temperature'",
    ),
    "init": (transformation(leaves_only, of_another_network), "got one whose init(weights) raises"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_an_update_that_does_not_fit_is_one_line(name):
    rule, said = ld.Optax(UNFIT[name][0]), UNFIT[name][1]
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        ld.System(DATA, NETWORK, rule)
    assert str(caught.value).startswith("transformation: got ") and said in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.Optax(0.1), "transformation: got a float; allowed is an optax"),
        (lambda: ld.Optax(optax.adam(1e-3), batch=0), "batch: got 0"),
        (
            lambda: ld.System(DATA, NETWORK, optax.adam(0.1)),
            "allowed is a rule: SGD, GradientDescent, NaturalGradient, NodePerturbation, or Optax",
        ),
        (
            lambda: ld.simulate(
                ld.System(DATA, NETWORK, ld.Optax(optax.sgd(0.1))), [1], method="flow"
            ),
            "method: got 'flow' for Optax, which has a memory; allowed is 'direct'",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
