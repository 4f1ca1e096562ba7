"""Critical rates of optimisers: thresholds on quadratic losses, and what cannot be read."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import learndyn as ld
from learndyn.probes import critical_learning_rate
from learndyn.probes.optimisers.response import Coefficients
from learndyn.probes.optimisers.rules import threshold_of
from learndyn.rules.watching import Step

N = 12
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((N, 4)), RNG.standard_normal(N)
WEIGHTS = {"a": RNG.standard_normal(4), "b": RNG.standard_normal(4)}
# Linear in the weights, so that the loss ½ mean r² is quadratic.
MODEL = ld.Model(ld.Network(None, lambda w, x: x @ w["a"] + x**2 @ w["b"]), WEIGHTS)
FEATURES = np.concatenate([X, X**2], axis=1)
H = FEATURES.T @ FEATURES / N
GRADIENTS = [RNG.standard_normal((4, 8))[:, :4], RNG.standard_normal((4, 8))[:, 4:]]


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def stepped(transformation, steps=4):
    """The state after a few steps with given gradients."""
    weights = jax.tree.map(jnp.asarray, WEIGHTS)
    state = transformation.init(weights)
    for i in range(steps):
        gradient = {"a": jnp.asarray(GRADIENTS[0][i]), "b": jnp.asarray(GRADIENTS[1][i])}
        state = transformation.update(gradient, state, weights)[1]
    return state


def moments(beta2, steps=4, added=0.0):
    """v̂ after these steps, by NumPy."""
    v = np.zeros(8)
    for i in range(steps):
        g = np.concatenate([GRADIENTS[0][i], GRADIENTS[1][i]]) + added
        v = beta2 * v + (1 - beta2) * g**2
    return v / (1 - beta2**steps)


def rate_of(transformation, **options):
    state = stepped(transformation)
    options = {"exact": True, "tolerance": 1e-12} | options
    return critical_learning_rate(MODEL, X, Y, optimiser=(transformation, state), **options)


def grows(step, weights, memory, steps=4000):
    """Whether an iteration on the quadratic loss grows."""
    start = np.linalg.norm(weights)
    for _ in range(steps):
        weights, memory = step(weights, memory)
        if np.linalg.norm(weights) > 1e6 * start:
            return True
    return False


def descent(eta, D=1.0, beta=0.0, mean=False, nesterov=False, decay=0.0, coupled=0.0, parts=None):
    """A step with a fixed preconditioner D, in plain NumPy."""
    of_momentum, of_gradient = parts or ((beta, 1.0) if nesterov else (1.0, 0.0))

    def step(w, m):
        g = H @ w + coupled * w
        m = beta * m + ((1 - beta) if mean else 1.0) * g
        u = of_momentum * m + of_gradient * g
        return w - eta * (D * u + decay * w), m

    return step


P_ADAM = (1 - 0.8**4) * (np.sqrt(moments(0.95)) + 1e-3)
GIVEN = np.concatenate(GRADIENTS, axis=1)
P_ADAGRAD = np.sqrt(0.1 + np.sum(GIVEN**2, axis=0) + 1e-4)
P_RMS = np.sqrt(moments(0.9) * (1 - 0.9**4)) + 1e-8
FLAT = np.concatenate([WEIGHTS["a"], WEIGHTS["b"]])
P_L2 = (1 - 0.8**4) * (np.sqrt(moments(0.95, added=0.3 * FLAT)) + 1e-3)
LARGEST = np.max(0.95 ** np.arange(3, -1, -1)[:, None] * (abs(GIVEN) + 1e-8), axis=0)
P_ADAMAX = (1 - 0.8**4) * LARGEST
CASES = {
    "descent": (optax.sgd(0.1), {}),
    "heavy ball": (optax.sgd(0.1, momentum=0.9), {"beta": 0.9}),
    "Nesterov": (optax.sgd(0.1, momentum=0.9, nesterov=True), {"beta": 0.9, "nesterov": True}),
    "Adam": (
        optax.adam(1e-3, b1=0.8, b2=0.95, eps=1e-3),
        {"D": 1 / P_ADAM, "beta": 0.8, "mean": True},
    ),
    "AdamW": (
        optax.adamw(1e-3, b1=0.8, b2=0.95, eps=1e-3, weight_decay=0.7),
        {"D": 1 / P_ADAM, "beta": 0.8, "mean": True, "decay": 0.7},
    ),
    "L2 decay": (
        optax.chain(optax.add_decayed_weights(0.3), optax.sgd(0.1, momentum=0.5)),
        {"beta": 0.5, "coupled": 0.3},
    ),
    "Adam with L2 decay": (
        optax.chain(optax.add_decayed_weights(0.3), optax.adam(1e-3, b1=0.8, b2=0.95, eps=1e-3)),
        {"D": 1 / P_L2, "beta": 0.8, "mean": True, "coupled": 0.3},
    ),
    "Adam with Nesterov's momentum": (
        optax.nadam(1e-3, b1=0.8, b2=0.95, eps=1e-3),
        {
            "D": (1 - 0.8**4) / P_ADAM,
            "beta": 0.8,
            "mean": True,
            "parts": (0.8 / (1 - 0.8**5), 0.2 / (1 - 0.8**4)),
        },
    ),
    "Adamax": (optax.adamax(1e-3, b1=0.8, b2=0.95), {"D": 1 / P_ADAMAX, "beta": 0.8, "mean": True}),
    "RMSprop": (optax.rmsprop(1e-2, decay=0.9, eps_in_sqrt=False), {"D": 1 / P_RMS}),
    "Adagrad": (optax.adagrad(1e-2, 0.1, eps=1e-4), {"D": 1 / P_ADAGRAD}),
}


@pytest.mark.parametrize("name", CASES)
def test_thresholds_are_those_of_the_iteration_with_a_fixed_preconditioner(name):
    transformation, options = CASES[name]
    rate = float(rate_of(transformation))
    for share, expected in ((0.995, False), (1.005, True)):
        step = descent(share * rate, **options)
        assert grows(step, np.ones(8), np.zeros(8)) is expected, share


def test_the_formulas_of_the_docstring():
    top = np.linalg.eigvalsh(H)[-1]
    assert float(rate_of(CASES["descent"][0])) == pytest.approx(2 / top, rel=1e-9)
    assert float(rate_of(CASES["heavy ball"][0])) == pytest.approx(3.8 / top, rel=1e-9)
    assert float(rate_of(CASES["Nesterov"][0])) == pytest.approx(3.8 / 2.8 / top, rel=1e-9)
    top = np.linalg.eigvalsh(H / np.sqrt(np.outer(P_ADAM, P_ADAM)))[-1]
    assert float(rate_of(CASES["Adam"][0])) == pytest.approx(3.6 / 0.2 / top, rel=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_no_complex_eigenvalue_leaves_the_unit_circle_earlier(seed):
    """The whole map of weights and momenta, where every weight has its own optimiser."""
    rng, I = np.random.default_rng(seed), np.eye(6)
    F = rng.standard_normal((6, 8))
    curvature, eta, beta = F @ F.T, rng.uniform(0.1, 1, 6), rng.uniform(0, 0.98, 6)
    # Heavy balls, Nesterov's momenta, and decay that is added to the gradient, or decoupled.
    nesterov, coupled, decay = rng.integers(2, size=6), *rng.uniform(0, 0.5, (2, 6))
    b, aq = -eta * np.where(nesterov, 1 + beta, 1), -eta * np.where(nesterov, beta, 1) * beta
    parts = Coefficients(b, b * coupled - eta * decay, aq, aq * coupled, beta)
    scale, shift = parts.scale_and_shift()
    root = np.sqrt(scale)
    limit = 2 / np.linalg.eigvalsh(root[:, None] * curvature * root + np.diag(shift))[-1]
    for share, unstable in ((0.999, False), (1.001, True)):
        rate, g = share * limit * eta, curvature + np.diag(coupled)
        m = np.hstack([np.diag(beta), g])
        u = np.where(nesterov[:, None], beta[:, None] * m + np.hstack([0 * I, g]), m)
        w = np.hstack([0 * I, np.diag(1 - rate * decay)]) - rate[:, None] * u
        radius = abs(np.linalg.eigvals(np.vstack([m, w]))).max()
        assert bool(radius > 1) is unstable


def test_without_exact_the_curvature_is_the_gauss_newton_part():
    found = rate_of(CASES["Adam"][0], exact=False)
    assert float(found) == pytest.approx(float(rate_of(CASES["Adam"][0])), rel=1e-9)
    assert "Gauss-Newton" in found.convention and "without clipping" in found.convention
    assert found.factor == pytest.approx(float(found) / 1e-3, rel=1e-6)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: optax.inject_hyperparams(optax.adam)(1e-3, b1=0.8, b2=0.95, eps=1e-3),
        lambda: optax.chain(optax.clip_by_global_norm(1e-6), CASES["Adam"][0]),
        lambda: optax.chain(optax.adaptive_grad_clip(0.01), optax.clip_by_block_rms(0.1),
                            CASES["Adam"][0]),
        lambda: optax.chain(optax.scale_by_adam(0.8, 0.95, 1e-3), optax.scale_by_schedule(
            optax.piecewise_constant_schedule(-1e-3, {100: 0.1}))),
    ],
)  # fmt: skip
def test_chains_schedules_and_injected_rates_are_read(wrapped):
    # Gradients of the state are those before clipping: a fresh state would differ.
    transformation = wrapped()
    state = stepped(transformation)
    adam = stepped(CASES["Adam"][0])[0]
    known = lambda node: type(node).__name__ == "ScaleByAdamState"
    put = lambda node: adam if known(node) else node
    state = jax.tree.map(put, state, is_leaf=known)
    found = critical_learning_rate(
        MODEL, X, Y, exact=True, tolerance=1e-12, optimiser=(transformation, state)
    )
    assert float(found) == pytest.approx(float(rate_of(CASES["Adam"][0])), rel=1e-6)


def test_groups_with_different_rates_give_a_common_factor():
    labels = {"a": "slow", "b": "fast"}
    parts = {"slow": optax.sgd(0.1), "fast": optax.sgd(0.4, momentum=0.5)}
    found = rate_of(optax.multi_transform(parts, labels))
    eta, beta = np.repeat([0.1, 0.4], 4), np.repeat([0.0, 0.5], 4)
    assert "factor of all learning rates" in found.convention
    for share, expected in ((0.995, False), (1.005, True)):
        factor = share * float(found)

        def step(w, m, factor=factor):
            m = beta * m + H @ w
            return w - factor * eta * m, m

        assert grows(step, np.ones(8), np.zeros(8)) is expected


@pytest.mark.parametrize(
    "labels",
    [
        {"a": "x", "b": "none"},
        lambda w: {"a": "x" if w["a"].shape == (4,) else "none", "b": "none"},
    ],
)
def test_weights_that_do_not_move_leave_the_learning_rate_common(labels):
    frozen = {"x": optax.adam(1e-3), "none": optax.set_to_zero()}
    found = rate_of(optax.multi_transform(frozen, labels))
    P = ((1 - 0.9**4) * (np.sqrt(moments(0.999)) + 1e-8))[:4]
    top = np.linalg.eigvalsh(H[:4, :4] / np.sqrt(np.outer(P, P)))[-1]
    assert float(found) == pytest.approx(3.8 / 0.1 / top, rel=1e-6)
    assert found.factor == pytest.approx(float(found) / 1e-3, rel=1e-6)


@pytest.mark.parametrize("name", ["Adam", "RMSprop"])
def test_weights_that_never_had_a_gradient_have_the_preconditioner_of_epsilon(name):
    """As behind dead units, or inputs that are always 0."""
    made = {
        "Adam": (optax.adam(1e-3, b1=0.8, b2=0.95, eps=1e-3), P_ADAM, 3.6 / 0.2, 1 - 0.8**4),
        "RMSprop": (optax.rmsprop(1e-2, eps=1e-3, eps_in_sqrt=False), P_RMS, 2.0, 1.0),
    }
    transformation, P, numerator, corrected = made[name]
    state = stepped(transformation)
    none = lambda moments: moments | {"b": moments["b"].at[1:].set(0.0)}
    known = lambda node: hasattr(node, "nu")
    dead = lambda node: node._replace(nu=none(node.nu)) if known(node) else node
    state = jax.tree.map(dead, state, is_leaf=known)
    P = P + (0.0 if name == "Adam" else 1e-3 - 1e-8)
    P = np.where(np.arange(8) < 5, P, corrected * 1e-3)
    found = critical_learning_rate(
        MODEL, X, Y, exact=True, tolerance=1e-12, optimiser=(transformation, state)
    )
    top = np.linalg.eigvalsh(H / np.sqrt(np.outer(P, P)))[-1]
    assert float(found) == pytest.approx(numerator / top, rel=1e-6)


def test_rules_that_do_not_follow_the_gradient_have_no_threshold():
    """Their map is another one: `Watched` records NaN."""
    step = lambda rule: Step(None, jnp.asarray(0.1), None, None, jnp.asarray(True), rule, ())
    for rule in (ld.NaturalGradient(0.1), ld.KFAC(0.1), ld.Piecewise(
        ld.NaturalGradient(0.1), steps=[2], rates=[0.2])):  # fmt: skip
        found = threshold_of(MODEL, step(rule))
        assert np.isnan(found.numerator) and float(found.rate) == pytest.approx(0.1)
    assert threshold_of(MODEL, step(ld.GradientDescent(0.1))).numerator == 2.0


def test_a_rule_whose_updates_couple_weights_has_neither_threshold_nor_rate():
    rule = ld.Optax(optax.chain(optax.normalize_by_update_norm(), optax.sgd(0.1)))
    memory = None, stepped(rule.transformation)
    step = Step(None, jnp.asarray(0.1), None, None, jnp.asarray(True), rule, memory)
    found = threshold_of(MODEL, step)
    assert np.isnan(found.numerator) and np.isnan(found.rate)


def test_a_mixture_of_adam_and_descent_gives_a_common_factor():
    mixed = {"x": optax.adam(1e-3), "y": optax.sgd(0.1)}
    found = rate_of(optax.multi_transform(mixed, {"a": "x", "b": "y"}))
    P = (1 - 0.9**4) * (np.sqrt(moments(0.999)) + 1e-8)
    D = np.where(np.arange(8) < 4, 1e-3 * 0.1 / 1.9 / P, 0.1)
    top = np.linalg.eigvalsh(H * np.sqrt(np.outer(D, D)))[-1]
    assert float(found) == found.factor == pytest.approx(2 / top, rel=1e-6)


def test_an_injected_schedule_is_read_at_the_next_step():
    schedule = lambda count: 1e-2 / (1 + count)
    found = rate_of(optax.inject_hyperparams(optax.sgd)(schedule, momentum=0.5))
    top = np.linalg.eigvalsh(H)[-1]
    assert float(found) == pytest.approx(3 / top, rel=1e-9)
    assert found.factor == pytest.approx(3 / top / schedule(4), rel=1e-6)


def test_a_rate_that_was_set_by_hand_may_be_a_plain_number():
    transformation = optax.inject_hyperparams(optax.sgd)(0.1, momentum=0.5)
    state = stepped(transformation)
    state.hyperparams["learning_rate"] = 0.2
    found = critical_learning_rate(MODEL, X, Y, optimiser=(transformation, state))
    assert float(found) == pytest.approx(3 / np.linalg.eigvalsh(H)[-1], rel=1e-3)
    assert found.factor == pytest.approx(float(found) / 0.2, rel=1e-6)


@pytest.mark.skipif(
    "bias_correction" not in inspect.signature(optax.rmsprop).parameters, reason="a later release"
)
def test_rmsprop_with_bias_correction():
    given = {"decay": 0.9, "bias_correction": True, "eps_in_sqrt": False}
    P = np.sqrt(moments(0.9)) + 1e-8
    top = np.linalg.eigvalsh(H / np.sqrt(np.outer(P, P)))[-1]
    assert float(rate_of(optax.rmsprop(1e-2, **given))) == pytest.approx(2 / top, rel=1e-6)


def test_momenta_in_half_precision_are_read_to_their_rounding():
    found = rate_of(optax.sgd(0.1, momentum=0.9, accumulator_dtype=jnp.bfloat16))
    assert float(found) == pytest.approx(3.8 / np.linalg.eigvalsh(H)[-1], rel=2**-8)


def test_batches_have_rates_of_their_own():
    found = critical_learning_rate(MODEL, X, Y, batch=3, key=1)
    assert found.batches.shape == (4,) and np.all(found.batches > 0)
    order = np.random.default_rng(1).permutation(N)[:3]
    one = FEATURES[order]
    assert found.batches[0] == pytest.approx(2 / np.linalg.eigvalsh(one.T @ one / 3)[-1])
    assert found.median == pytest.approx(np.median(found.batches))
    assert found.share_above(found.batches.max() * 1.01) == 1.0
    assert found.share_above(found.batches.min() * 0.99) == 0.0
    with pytest.raises(
        ValueError, match="learning_rate: got nan; allowed is a non-negative finite number"
    ):
        found.share_above(np.nan)
    with pytest.raises(ValueError, match="batches: got none; allowed is a result of batch="):
        _ = critical_learning_rate(MODEL, X, Y).median


@pytest.mark.parametrize(
    ("optimiser", "line"),
    [
        (lambda: optax.adam(1e-3), "optimiser: got a GradientTransformationExtraArgs"),
        (lambda: (optax.adam(1e-3), None), "optimiser: got a state of another model"),
        (lambda: (optax.adam(1e-3), stepped(optax.adam(1e-3), 0)), "without a step; allowed is"),
        (lambda: (optax.adam(1e-3), stepped(optax.sgd(1.0))), "got a state of another model"),
        (lambda: (optax.lion(1e-3), stepped(optax.lion(1e-3))), "with ScaleByLionState; allowed"),
        (
            lambda: (t := optax.fromage(1e-3), stepped(t)),
            "got updates that couple weights; allowed",
        ),
        (
            lambda: (t := optax.lamb(1e-3), stepped(t)),
            "got updates that couple weights (ScaleByAdamState); allowed",
        ),
        (
            lambda: (t := optax.masked(optax.adam(1e-3), {"a": True, "b": False}), stepped(t)),
            "got updates along the gradient (MaskedState, ScaleByAdamState); allowed are updates",
        ),
        (
            lambda: (
                t := optax.chain(optax.sgd(0.1), optax.keep_params_nonnegative()),
                stepped(t),
            ),
            "got updates that couple weights; allowed",
        ),
        (
            lambda: (
                t := optax.chain(
                    optax.scale_by_adam(), optax.normalize_by_update_norm(), optax.scale(-0.1)
                ),
                stepped(t),
            ),
            "got updates that couple weights (ScaleByAdamState); allowed",
        ),
        (lambda: (t := optax.sgd(0.1, momentum=1.5), stepped(t)), "got a momentum of 1.5; allowed"),
        (lambda: (t := optax.sgd(-0.1), stepped(t)), "got updates along the gradient; allowed"),
        (
            lambda: (
                t := optax.chain(optax.scale_by_adam(), optax.trace(0.5), optax.scale(-0.1)),
                stepped(t),
            ),
            "got several momenta in a row (ScaleByAdamState, TraceState); allowed",
        ),
        (
            lambda: (t := optax.chain(optax.scale_by_trust_ratio(), optax.sgd(0.1)), stepped(t)),
            "optimiser: got updates that",
        ),
        (lambda: 3, "optimiser: got an int"),
        (
            lambda: (t := optax.sgd(lambda count: 0.0 * count), stepped(t)),
            "got a learning rate of 0",
        ),
        (lambda: (t := optax.sign_sgd(0.1), stepped(t)), "got updates without a response to small"),
        (lambda: (t := optax.polyak_sgd(), t.init(WEIGHTS)), "optimiser: its update fails"),
        (
            lambda: (
                t := optax.adam(0.1),
                jax.tree.map(lambda leaf: leaf * jnp.nan if leaf.ndim else leaf, stepped(t)),
            ),
            "optimiser: got a state with NaN or infinities",
        ),
    ],
)
def test_unreadable_optimisers_raise_a_one_line_error(optimiser, line):
    with pytest.raises(ValueError) as error:
        critical_learning_rate(MODEL, X, Y, optimiser=optimiser())
    assert line in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith("optimiser: ")


def test_a_state_of_other_weights_is_refused():
    transformation = optax.adam(1e-3)
    state = transformation.init({"a": jnp.ones(3), "b": jnp.ones(4)})
    with pytest.raises(ValueError, match="optimiser: got a state of another model; allowed is one"):
        critical_learning_rate(MODEL, X, Y, optimiser=(transformation, state))


def test_adam_settles_where_its_critical_rate_is_its_own():
    """Full-batch training with Adam raises the preconditioned curvature up to the threshold."""
    x = RNG.standard_normal((16, 4))
    y, network, adam = np.sin(2 * x[:, 0]), ld.MLP([4, 16, 1], "tanh"), optax.adam(0.03, b2=0.99)
    start = ld.start(ld.System(ld.Dataset(x, y), network, ld.GradientDescent(1.0)), key=0)
    mean = lambda w: jnp.mean((network(w, x).reshape(-1) - y) ** 2) / 2
    recorder = ld.Recorder(
        {
            "critical_rate": lambda model, optimiser: critical_learning_rate(
                model, x, y, exact=True, optimiser=optimiser
            ),
            "plain": lambda model: critical_learning_rate(model, x),
        },
        every=50,
    )

    @jax.jit
    def step(weights, state):
        loss, gradient = jax.value_and_grad(mean)(weights)
        update, state = adam.update(gradient, state, weights)
        return optax.apply_updates(weights, update), state, loss

    weights = jax.tree.map(jnp.asarray, start.weights)
    state = adam.init(weights)
    for i in range(901):
        after = step(weights, state)
        recorder(i, ld.Model(network, weights), optimiser=(adam, state), loss=after[2], rate=0.03)
        weights, state = after[:2]
    record = recorder.record().isel(run=0)
    read = record["critical_rate"].values[::50]
    assert np.isnan(read[0]) and np.all(read[1:5] > 3 * 0.03)
    assert np.all(np.abs(read[-6:] / 0.03 - 1) < 0.3)
    assert np.all(record["plain"].values[::50] > 1)  # by which nothing would be seen
