"""One battery over every rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn import testing
from learndyn.testing.rules import MATRIX

RULES = {
    "sgd": ld.SGD(0.02, batch=2),
    "decay": ld.SGD(0.02, batch=2, decay=1e-4),
    "descent": ld.GradientDescent(0.02),
    "natural": ld.NaturalGradient(0.02),
    "root": ld.NaturalGradient(0.02, power=0.5),
    "damped": ld.NaturalGradient(0.02, damping=0.1),
    "levenberg": ld.NaturalGradient(0.02, damping=0.1, damping_form="levenberg"),
    "blocks": ld.NaturalGradient(0.02, blocks=True),
    "clipped": ld.NaturalGradient(0.02, clip=0.001),
    "kfac": ld.KFAC(0.02, damping=0.01),
    "perturbation": ld.NodePerturbation(0.005),
    "finite noise": ld.NodePerturbation(0.02, sigma=1e-3, batch=2),
    "catapults": ld.CatapultSchedule(ld.GradientDescent(0.02), times=1.05, rest=300, catapults=1),
    "cycles": ld.CatapultSchedule(ld.SGD(0.02, batch=2), times=1.01, period=500, every=7),
    "shared noise": ld.NodePerturbation(0.02, batch=2, perturbations=3, shared=True),
}


# What differs little from others runs in the whole suite only.
SLOW = (testing.rules.the_population_is_a_whitened_data_set,)
REST = ("decay", "cycles", "finite noise", "shared noise", "root", "levenberg", "damped", "clipped")


@pytest.fixture(
    params=[pytest.param(n, marks=pytest.mark.slow) if n in REST else n for n in RULES],
    scope="module",
)
def rule(request):
    """Of the module's scope, so that tests of one rule follow each other and share programs."""
    return RULES[request.param]


def problem(spectrum=None):
    return ld.TeacherStudent(spectrum or ld.Isotropic(3), ld.LinearTeacher(2, MATRIX))


def system(rule, data=None):
    return testing.standard_system(rule, data)


@pytest.mark.parametrize(
    "check",
    [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in testing.RULE],
    ids=lambda check: check.__name__,
)
def test_battery(rule, check):
    check(system(rule))


def test_update_needs_no_teacher_that_the_problem_fixes():
    for data, teacher in ((problem(), MATRIX), (ld.Dataset(np.eye(3), np.ones((3, 2))), ())):
        it = system(ld.NaturalGradient(0.1), data)
        weights = ld.start(it, key=1).weights
        for a, b in zip(
            ld.update(it, weights), ld.update(it, weights, teacher=teacher), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def explicit_direction(weights, target, root, power, *, blocks=False):
    """H^(−power) g with the dense Gauss-Newton matrix of all weights."""
    flat, unravel = jax.flatten_util.ravel_pytree(tuple(jnp.asarray(w) for w in weights))
    map_of = lambda v: ld.DeepLinear([3, 4, 2])(unravel(v), jnp.asarray(root.T)).ravel()
    J = np.asarray(jax.jacobian(map_of)(flat))
    gap = (np.linalg.multi_dot([w for w in weights[::-1]]) - target) @ root
    g = J.T @ gap.T.ravel()
    H = J.T @ J
    if blocks:
        sizes = np.cumsum([w.size for w in weights])
        mask = np.searchsorted(sizes, np.arange(len(H)), side="right")
        H = H * (mask[:, None] == mask[None, :])
    values, vectors = np.linalg.eigh(H)
    keep = values > 1e-10 * values[-1]
    powers = np.where(keep, np.where(keep, values, 1.0) ** -power, 0.0)
    scale = len(weights) ** -power if blocks else 1.0
    return unravel(jnp.asarray(scale * vectors @ (powers * (vectors.T @ g))))


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("spectrum", [ld.Isotropic(3), ld.Spectrum([2.0, 0.5], [1, 2])])
def test_natural_gradient_is_that_of_the_dense_matrix(power, blocks, spectrum):
    it = system(ld.NaturalGradient(0.1, power=power, blocks=blocks), problem(spectrum))
    begin = ld.start(it, key=5)
    after = ld.update(it, begin.weights, teacher=begin.teacher)
    root = np.diag(np.sqrt(np.repeat(spectrum.values, spectrum.counts)))
    with jax.enable_x64(True):
        expected = explicit_direction(begin.weights, MATRIX, root, power, blocks=blocks)
    for a, w, d in zip(after, begin.weights, expected, strict=True):
        np.testing.assert_allclose((w - a) / 0.1, d, atol=1e-10)


@pytest.mark.slow
def test_kernel_of_outputs_is_the_kernel_of_maps():
    """The general route (Jacobians of a data set) on a deep linear network."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    for power, blocks in ((0.5, False), (1.0, False), (0.5, True)):
        rule = ld.NaturalGradient(0.1, power=power, blocks=blocks)
        it = system(rule, ld.Dataset(x, y))
        begin = ld.start(it, key=2)
        after = ld.update(it, begin.weights, teacher=())
        with jax.enable_x64(True):
            general = rule._of_outputs(it.problem, it.network, it.problem.examples())(
                tuple(jnp.asarray(w) for w in begin.weights)
            )
        for a, w, v in zip(after, begin.weights, general, strict=True):
            np.testing.assert_allclose((a - w) / 0.1, v, atol=1e-9)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_optax_trains_an_mlp_on_digits(power):
    """A user's own network, on a mini-batch of scikit-learn's digits, through optax."""
    import optax
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = jnp.asarray(digits.data[:60] / 16, jnp.float32)
    y = jax.nn.one_hot(digits.target[:60], 10)
    keys = jax.random.split(jax.random.key(0))
    params = {
        "a": jax.random.normal(keys[0], (24, 64)) / 8,
        "b": jax.random.normal(keys[1], (10, 24)) / 5,
    }
    apply = lambda p, x: p["b"] @ jnp.tanh(p["a"] @ x)
    loss = lambda p: 0.5 * jnp.mean(jnp.sum((jax.vmap(lambda x: apply(p, x))(x) - y) ** 2, axis=-1))
    rule = ld.NaturalGradient(0.1, power=power, damping=1e-3, damping_form="levenberg")
    transform = rule.transformation(apply)
    assert isinstance(transform, optax.GradientTransformationExtraArgs)
    state, first = transform.init(params), float(loss(params))

    @jax.jit
    def step(params, state):
        residual = jax.vmap(lambda x: apply(params, x))(x) - y
        updates, state = transform.update(
            jax.grad(loss)(params), state, params, inputs=x, output_gradient=residual
        )
        return optax.apply_updates(params, updates), state

    for _ in range(40):
        params, state = step(params, state)
    # Undamped, the full correction would leave (1 − rate)^80 of the loss; damping slows it down.
    assert float(loss(params)) < {0.0: 0.8, 0.5: 0.3, 1.0: 0.1}[power] * first


@pytest.mark.parametrize("weights", ["zero", "rank one"])
def test_degenerate_weights_give_no_nan(weights):
    it = system(ld.NaturalGradient(0.1, power=0.5))
    shapes = [(4, 3), (2, 4)]
    make = {"zero": np.zeros, "rank one": np.ones}[weights]
    after = ld.update(it, tuple(make(s) for s in shapes), teacher=MATRIX)
    assert all(np.all(np.isfinite(w)) for w in after)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: ld.NaturalGradient(0.1, power=2.0),
            "power: got 2.0; allowed is a number from 0 to 1",
        ),
        (lambda: ld.NaturalGradient(0.1, damping=-1.0), "damping: got -1.0"),
        (lambda: ld.NaturalGradient(0.1, damping_form="x"), "damping_form: got 'x'"),
        (lambda: ld.DeepLinear([3]), "widths: got (3,); allowed are at least two"),
        (lambda: ld.DeepLinear([3, 0, 2]), "widths: got 0"),
        (lambda: ld.LinearTeacher(2, np.ones((3, 3))), "matrix: got shape (3, 3)"),
        (lambda: ld.TeacherStudent(ld.Isotropic(4), ld.LinearTeacher(2, MATRIX)), "matrix: got"),
        (
            lambda: ld.System(problem(), ld.DeepLinear([4, 2]), ld.SGD(0.1)),
            "widths: got 4 inputs; allowed is the problem's 3",
        ),
        (
            lambda: ld.System(problem(), ld.DeepLinear([3, 5]), ld.SGD(0.1)),
            "network: got 5 outputs; allowed here is 2",
        ),
        (lambda: ld.Dataset(np.ones((3, 2)), np.ones(4)), "x: got (3, 2) beside y (4,)"),
        (lambda: ld.Dataset(np.full((3, 2), np.nan), np.ones(3)), "x: entry (0, 0) is nan"),
        (
            lambda: ld.simulate(system(ld.SGD(0.1)), [1], method="flow"),
            "method: got 'flow' for SGD",
        ),
        (
            lambda: ld.start(
                ld.System(problem(), ld.DeepLinear([3, 4, 4, 2]), ld.SGD(0.1)),
                state=ld.Modes(np.ones((2, 2))),
            ),
            "state: got a state, but no theory covers the system",
        ),
        (
            lambda: ld.start(system(ld.GradientDescent(0.1)), state=ld.Modes(np.ones((3, 3)))),
            "state: got sigma of shape (3, 3); allowed is (2, 2)",
        ),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)


def test_divergence_of_layer_restricted_steps_is_a_result():
    it = ld.System(
        problem(), ld.DeepLinear([3, 3, 3, 2], init=ld.SmallRandom(1e-3)),
        ld.NaturalGradient(0.5, blocks=True),
    )  # fmt: skip
    record = ld.simulate(it, [0, 1, 2, 5, 10], dtype="float64")
    assert str(record.outcome.values[0]) == "diverged"
    assert np.isfinite(record.error[0, 0]) and np.isnan(record.error[0, -1])
