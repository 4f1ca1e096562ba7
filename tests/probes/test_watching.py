"""Steps as probes see them, against the rule's own steps and against the other probes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld
from learndyn.numerics import subspace
from learndyn.records import Variable
from learndyn.rules.watching import AbstractStepProbe

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=12)
DATA, NETWORK = ld.Dataset(X, Y, loss_scale=1.0), ld.MLP([3, 8, 1], "relu")
STEPS = 9
RULES = {
    "replacement": ld.SGD(0.3, batch=5),
    "epochs": ld.SGD(0.3, batch=4, sampling="epochs"),
    "all": ld.GradientDescent(0.3),
    "schedule": ld.CatapultSchedule(ld.SGD(0.3, batch=4, sampling="epochs"), rest=3),
}


class Seen(AbstractStepProbe):
    """Which examples the next and the last step see, and the weights."""

    @property
    def variables(self):
        names = {"batch": ("b",), "before": ("b",), "rate": (), "w": ("p",)}
        return {name: Variable(dims, name, "") for name, dims in names.items()}

    def check(self, problem, outputs):
        assert outputs in (1, 3)

    def __call__(self, model, step):
        index = [jnp.arange(12) if i is None else i for i in (step.batch, step.before)]
        flat = ravel_pytree(model.weights)[0]
        return {"batch": index[0], "before": index[1], "rate": step.rate, "w": flat}


def run(rule, probe, steps=STEPS, **more):
    system = ld.System(DATA, NETWORK, rule)
    given = {"probes": {"seen": probe}, "dtype": "float64", "key": 3}
    return ld.simulate(system, np.arange(steps), **(given | more)).isel(run=0)


def model_at(weights):
    like = ld.start(ld.System(DATA, NETWORK, ld.GradientDescent(1.0))).weights
    with jax.enable_x64(True):
        made = ravel_pytree(like)[1](jnp.asarray(weights))
    return ld.Model(NETWORK, jax.tree.map(np.asarray, made))


@pytest.fixture(params=RULES, scope="module")
def rule(request):
    return RULES[request.param]


def test_the_examples_and_the_rate_of_a_step_explain_it(rule):
    """w − rate · ∇loss(batch) is the next row's weights."""
    record = run(rule, Seen())
    for t in range(STEPS - 1):
        now, then = record.isel(time=t), record.isel(time=t + 1)
        batch = now["batch"].values.astype(int)
        np.testing.assert_array_equal(then["before"], now["batch"])
        part = ld.System(ld.Dataset(X[batch], Y[batch], loss_scale=1.0), NETWORK, RULES["all"])
        moved = ld.update(part, model_at(now["w"].values).weights)
        with jax.enable_x64(True):
            change = np.asarray(ravel_pytree(moved)[0]) - now["w"].values
        expected = change * float(now["rate"]) / 0.3
        np.testing.assert_allclose(then["w"] - now["w"], expected, rtol=1e-6, atol=1e-9)


def test_watched_values_equal_those_of_the_probes(rule):
    """Every row, against kernel, split and critical rate of the weights and batch of its step."""
    seen, record = run(rule, Seen()), run(rule, ld.probes.Watched(s=2))
    loss = ld.SquaredLoss(1.0)
    for t in range(STEPS):
        row, batch = record.isel(time=t), seen["batch"].values[t].astype(int)
        model = model_at(seen["w"].values[t])
        split = ld.probes.split_loss(model, X, Y, loss=loss, s=2)
        rate = ld.probes.critical_learning_rate(model, X[batch], loss=loss)
        r = np.asarray(model.outputs(X)) - Y
        expected = {
            "rate": float(seen["rate"][t]),
            "critical_rate": float(rate),
            "kernel_norm": ld.probes.ntk_spectrum(model, X, 1)[0],
            "loss_top": split.top,
            "loss_rest": split.rest,
            "batch_loss": np.mean(r[batch] ** 2),
            "batch_loss_after": np.mean(r[seen["before"].values[t].astype(int)] ** 2),
        }
        for name, value in expected.items():
            value = np.nan if t == 0 and name == "batch_loss_after" else value
            np.testing.assert_allclose(row[name], value, rtol=1e-6, atol=1e-9, err_msg=name)
    found = ld.analysis.find_catapults(record)
    assert found.excesses is not None and found.batch_match is not None


def test_the_rows_do_not_depend_on_what_else_is_recorded():
    whole = run(RULES["epochs"], ld.probes.Watched(s=2))
    system = ld.System(DATA, NETWORK, RULES["epochs"])
    given = {"probes": {"w": ld.probes.Watched(s=2)}, "dtype": "float64", "key": 3}
    part = ld.simulate(system, [2, 7], **given).isel(run=0)
    for name in ("critical_rate", "batch_loss_after", "loss_top"):
        np.testing.assert_allclose(part[name], whole[name][[2, 7]], rtol=1e-12)


class Where(Seen):
    """The batch and the weights alone, beside probes that have a rate."""

    @property
    def variables(self):
        return {name: label for name, label in super().variables.items() if name in ("batch", "w")}


class Counted(AbstractStepProbe):
    """A probe with a memory: how often it was read, and the sum of all rates."""

    @property
    def variables(self):
        return {name: Variable((), name, "") for name in ("count", "mean_rate")}

    def check(self, problem, outputs):
        pass

    def __call__(self, model, step):
        return self.finish(self.read(model, step, self.begin(model, step.problem))[0])

    def begin(self, model, problem):
        return {"count": np.int64(0), "sum": np.float64(0)}

    def read(self, model, step, memory):
        memory = {"count": memory["count"] + 1, "sum": memory["sum"] + step.rate}
        return memory, memory

    def finish(self, values):
        return {"count": values["count"], "mean_rate": values["sum"] / values["count"]}


@pytest.mark.parametrize("network", [NETWORK, ld.CNN([1, 2], 2, 1, "relu")])
def test_probes_of_your_own_carry_a_memory(network):
    """In the compiled loop, and step by step."""
    x = X if network is NETWORK else X.reshape(6, 2, 3, 1)
    system = ld.System(ld.Dataset(x, Y[: len(x)], loss_scale=1.0), network, ld.SGD(0.25))
    record = ld.simulate(system, [0, 3, 4, 9], runs=2, probes={"own": Counted()})
    np.testing.assert_array_equal(record["count"], [[1, 2, 3, 4]] * 2)
    np.testing.assert_array_equal(record["mean_rate"], np.full((2, 4), 0.25))


@pytest.mark.parametrize("name", ["all", "epochs"])
def test_one_eigenvector_follows_the_kernel(name):
    """Iterated from the last reading, against decompositions of every kernel."""
    rule = RULES[name]
    one, exact = run(rule, ld.probes.Watched(s=1), 40), run(rule, ld.probes.Watched(s=2), 40)
    for each in ("critical_rate", "kernel_norm", "rate", "batch_loss"):
        np.testing.assert_allclose(one[each], exact[each], rtol=1e-5)  # that of the residual
    np.testing.assert_allclose(one["loss_top"] + one["loss_rest"], one["error"])
    model = model_at(run(rule, Seen(), 40)["w"].values[-1])
    split = ld.probes.split_loss(model, X, Y, loss=ld.SquaredLoss(1.0), s=1)
    np.testing.assert_allclose(one["loss_top"].values[-1], split.top, atol=1e-4 * split.rest)


def test_a_new_largest_eigenvalue_is_noticed():
    """Also if the vector is exactly that of another eigenvalue."""
    with jax.enable_x64(True):
        A, old = jnp.diag(jnp.asarray([1.0, 3.0, 0.5] + [0.1] * 20)), jnp.eye(23)[0]
        value, vector = map(np.asarray, subspace.followed(A, old))
    assert float(value) == pytest.approx(3.0, rel=1e-8) and abs(vector[1]) > 1 - 1e-8


def watched_by(rule, loss, y, s=2, steps=4):
    system = ld.System(ld.Dataset(X, y, loss=loss), ld.MLP([3, 6, 3], "tanh"), rule)
    options = {"dtype": "float64", "key": 3}
    record = ld.simulate(
        system, np.arange(steps), probes={"a": ld.probes.Watched(s=s), "b": Where()}, **options
    ).isel(run=0)
    like = ld.start(system, key=3).weights
    with jax.enable_x64(True):
        made = [ravel_pytree(like)[1](jnp.asarray(w)) for w in record["w"].values]
    return record, [ld.Model(system.network, w) for w in made]


@pytest.mark.parametrize(("s", "ignored"), [(1, None), (2, 2)])
def test_every_loss_has_a_critical_rate(s, ignored):
    loss, y = ld.CrossEntropy(ignored), RNG.integers(3, size=12)
    record, models = watched_by(ld.SGD(0.3, batch=7), loss, y, s)
    for row, model in zip(np.arange(4), models, strict=True):
        batch = record["batch"].values[row].astype(int)
        expected = ld.critical_learning_rate(model, X[batch], y[batch], loss=loss)
        np.testing.assert_allclose(record["critical_rate"][row], float(expected), rtol=1e-6)
        norm = ld.ntk_spectrum(model, X, 1)[0]
        np.testing.assert_allclose(record["kernel_norm"][row], norm, rtol=1e-6)
    assert np.all(np.isnan(record["loss_top"])) and np.all(record["batch_loss"] > 0)


RATES = {
    "momentum": (ld.SGD(0.3, batch=5, momentum=0.8), optax.sgd(0.3, momentum=0.8)),
    "Nesterov": (
        ld.GradientDescent(0.3, momentum=0.8, nesterov=True),
        optax.sgd(0.3, momentum=0.8, nesterov=True),
    ),
    "decay": (ld.SGD(0.3, batch=5, decay=0.06), optax.chain(
        optax.add_decayed_weights(0.2), optax.sgd(0.3))),
    "optax's momentum": (ld.Optax(optax.sgd(0.3, momentum=0.8), batch=5), None),
    "Adam": (ld.Optax(optax.adam(0.01, eps=1e-3), batch=5), None),
    "RMSprop": (ld.Optax(optax.rmsprop(0.01, eps=1e-3)), None),
    "AdamW": (ld.Optax(optax.inject_hyperparams(optax.adamw)(0.01, weight_decay=0.5)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", RATES)
def test_rates_are_those_of_the_optimiser(name):
    """Against the probe with an optimiser, whose state is computed here."""
    rule, same = RATES[name]
    loss = ld.SquaredLoss(1.0)
    y = np.random.default_rng(1).normal(size=(12, 3))
    record, models = watched_by(rule, loss, y, s=2 if same else 1)
    transformation = same or rule.transformation
    with jax.enable_x64(True):
        state = transformation.init(jax.tree.map(jnp.asarray, models[0].weights))
    for t in range(4):
        batch = record["batch"].values[t].astype(int)
        if t or same:
            expected = ld.critical_learning_rate(
                models[t], X[batch], loss=loss, optimiser=(transformation, state), tolerance=0
            )
            rate = float(expected)
            if name == "decay":  # a share of the weights per step, whatever the rate
                rate = (2 - 0.06) / (2 / float(ld.critical_learning_rate(
                    models[t], X[batch], loss=loss)))  # fmt: skip
            np.testing.assert_allclose(record["critical_rate"][t], rate, rtol=1e-5)
            assert record["rate"][t] == pytest.approx(expected.value / expected.factor, rel=1e-5)
        else:
            assert np.isnan(record["critical_rate"][0]) or "momentum" in name
        with jax.enable_x64(True):
            mean = lambda w, x, y: jnp.mean(jnp.sum((models[0].network(w, x) - y) ** 2, 1))
            weights = jax.tree.map(jnp.asarray, models[t].weights)
            gradient = jax.grad(mean)(weights, X[batch], y[batch])
            state = transformation.update(gradient, state, models[t].weights)[1]
    assert ld.analysis.find_catapults(record).excesses is not None


def test_convolutions_and_several_outputs_step_by_step():
    x = RNG.normal(size=(6, 4, 4, 1))
    data = ld.Dataset(x, RNG.normal(size=(6, 2)), loss_scale=0.5)
    system = ld.System(data, ld.CNN([1, 3], 3, 2, "relu"), ld.SGD(0.1, batch=3))
    given = {"probes": {"seen": ld.probes.Watched(s=3)}, "dtype": "float64"}
    record = ld.simulate(system, np.arange(4), **given).isel(run=0)
    np.testing.assert_allclose(record["loss_top"] + record["loss_rest"], record["error"])
    assert np.all(record["critical_rate"] > 0) and np.all(record["kernel_norm"] > 0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.probes.Watched(s=0), "s: got 0; allowed is a positive integer"),
        (
            lambda: run(RULES["all"], ld.probes.Watched(s=13)),
            "s: got 13; allowed is 1 to 12, the rows of the kernel",
        ),
        (
            lambda: run(RULES["all"], ld.probes.Watched(), method="flow"),
            "method: got 'flow' with a probe of steps; allowed is 'direct'",
        ),
        (
            lambda: ld.simulate(
                ld.System(
                    ld.TeacherStudent(ld.Isotropic(3), ld.Committee(1, "erf")),
                    ld.Committee(1, "erf"),
                    ld.SGD(0.1),
                ),
                [1],
                method="direct",
                probes={"watched": ld.probes.Watched()},
            ),
            "probes: got Watched for a TeacherStudent; allowed is a problem of type Dataset",
        ),
        (
            lambda: ld.System(DATA, NETWORK, ld.SGD(0.1, batch=13, sampling="epochs")),
            "batch: got 13 for epochs of 12 examples; allowed are at most as many",
        ),
        (
            lambda: ld.System(
                ld.Dataset(np.ones((3, 5)), np.ones(3)), ld.CNN([3], 3, 1, "relu"), RULES["all"]
            ),
            "network: got inputs of shape (5,); allowed is ('any', 'any', 'any')",
        ),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
