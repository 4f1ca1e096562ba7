"""Steps as probes see them, against the rule's own steps and against the other probes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld
from learndyn.probes import watching
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
        assert outputs == 1

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


def test_what_is_watched_is_what_the_probes_say(rule):
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


def test_subspace_iteration_finds_the_same_top():
    """What runs on accelerators, here on a CPU: values and the space of the vectors."""
    with jax.enable_x64(True):
        K = jnp.asarray(ld.probes.ntk(model_at(run(RULES["all"], Seen())["w"].values[-1]), X))
        values, vectors = map(np.asarray, watching.iterated(K, 2))
        exact, basis = np.linalg.eigh(np.asarray(K))
    np.testing.assert_allclose(values, exact[::-1][:2], rtol=1e-8)
    np.testing.assert_allclose(vectors @ vectors.T, basis[:, -2:] @ basis[:, -2:].T, atol=1e-6)


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
