"""The closed form of linear models against trained ones, and against a step at a time."""

import jax
import numpy as np
import pytest

import learndyn as ld
from learndyn.theory import LinearisedTheory
from learndyn.theory.linearised import dynamics
from learndyn.theory.linearised import kernel as kernels

TIMES = np.array([0, 1, 2, 3, 7, 30, 99, 100])
NEW = np.random.default_rng(8).normal(size=(3, 3))  # inputs of no set
RULES = {
    "descent": ld.GradientDescent(0.4),
    "heavy ball and decay": ld.GradientDescent(0.2, momentum=0.9, decay=0.01),
    "Nesterov": ld.SGD(0.2, batch=9, sampling="epochs", momentum=0.8, nesterov=True),
    "preconditioned": ld.NaturalGradient(0.3, power=0.6, damping=0.01),
    "changing rates": ld.Piecewise(
        ld.GradientDescent(0.2, momentum=0.9, nesterov=True, decay=0.005),
        steps=[3, 50],
        rates=[0.4, 0.05],
    ),
}


@pytest.fixture(scope="module", params=RULES)
def trained(twin, request):
    """A system, its prediction and its training, in float64 from the same weights."""
    system = twin(RULES[request.param])
    begin = ld.start(system, weights=moved(system))
    theory = ld.solve(system, TIMES, start=begin, states=True)
    probes = {"f": lambda model: model(NEW)}
    runs = ld.simulate(system, TIMES, start=begin, dtype="float64", probes=probes)
    return system, begin, theory, runs


def moved(system, by=0.3):
    """Weights away from the centre of a twin, at which its outputs are no network's."""
    rng = np.random.default_rng(5)
    weights = system.network.sample(rng, (3,))
    return jax.tree.map(lambda w: w + by * rng.normal(size=np.shape(w)), weights)


def test_trained_twins_follow_it(trained):
    """To 1e-10 over 100 steps, on training and test set."""
    _, _, theory, runs = trained
    assert theory.attrs["theory"] == "linearised" and theory.attrs["method"] == "closed form"
    for name in ("error", "test_error"):
        np.testing.assert_allclose(runs[name][0], theory[name], rtol=1e-10)
        assert np.ptp(theory[name].values) > 0.1 * theory[name].values[0]


def test_a_step_at_a_time_is_the_closed_form(trained):
    system, begin, record, _ = trained
    theory, state = ld.theory_of(system), begin.state
    for step in range(1, 8):
        state = theory.advance(state)
        if step in TIMES:
            row = record.isel(time=int(np.flatnonzero(step == TIMES)[0]))
            np.testing.assert_allclose(row.state_values, state.values, atol=1e-12)
            if state.velocity is not None:
                np.testing.assert_allclose(row.state_velocity, state.velocity, atol=1e-12)


def test_new_inputs_and_weights(trained):
    """Outputs nobody measured, and the weights that have them, against a trained model."""
    system, begin, _, runs = trained
    theory, x, weights = ld.theory_of(system), NEW, begin.weights
    with jax.enable_x64(True):
        outputs = lambda w: np.asarray(system.network(w, x))
        predicted = theory.predict([0, 100], x, weights=weights)
        np.testing.assert_allclose(predicted[0], outputs(weights), atol=1e-12)
        final = theory.weights_at(100, weights=weights)
        np.testing.assert_allclose(outputs(final), predicted[1], atol=1e-11)
    np.testing.assert_allclose(runs.f[0, -1], predicted[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "rule", ["descent", pytest.param("preconditioned", marks=pytest.mark.slow)]
)
def test_the_flow_of_weights_follows_it(twin, rule):
    system = twin(RULES[rule])
    begin, times = ld.start(system, weights=moved(system)), [0.0, 0.7, 20.0]
    flow = ld.solve(system, times, start=begin, order="flow")
    runs = ld.simulate(system, times, start=begin, method="flow")
    for name in ("error", "test_error"):
        np.testing.assert_allclose(runs[name][0], flow[name], rtol=1e-8)
    integrated = ld.solve(system, times, start=begin, order="flow", states=True)
    assert "Chebyshev" in integrated.attrs["method"]
    np.testing.assert_allclose(integrated.error, flow.error, rtol=1e-5)


def test_a_flow_of_many_times_is_computed_in_parts(twin, monkeypatch):
    system, times = twin(RULES["descent"]), np.linspace(0, 20, 7)
    whole = ld.solve(system, times, order="flow")
    calls, states_at = [], LinearisedTheory.states_at
    monkeypatch.setattr(dynamics, "TOGETHER", 60)  # of 13 × 2 outputs
    monkeypatch.setattr(
        LinearisedTheory,
        "states_at",
        lambda self, state, steps, flow=False: (
            calls.append(len(steps)) or states_at(self, state, steps, flow)
        ),
    )
    parts = ld.solve(system, times, order="flow")
    assert calls == [2, 2, 2, 1]
    np.testing.assert_allclose(parts.test_error, whole.test_error, rtol=1e-12)


def test_a_flow_is_the_limit_of_small_rates(twin):
    """The distance of a discrete step from it falls in proportion to the rate."""
    miss = []
    for rate in (0.02, 0.01):
        system = twin(ld.GradientDescent(rate, momentum=0.5, decay=rate / 10))
        flow = ld.solve(system, [2.0], order="flow").error.item()
        miss.append(ld.solve(system, [2.0 / rate]).error.item() - flow)
    assert miss[0] / miss[1] == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize(
    "rule",
    [
        ld.GradientDescent(0.8, momentum=0.5),
        pytest.param(ld.NaturalGradient(0.2), marks=pytest.mark.slow),
    ],
)
def test_cross_entropy_in_function_space(twin, rule):
    """Without a closed form: the step is iterated, the flow integrated."""
    system = twin(rule, outputs=3, loss=ld.CrossEntropy())
    theory = ld.solve(system, [0, 5, 40])
    runs = ld.simulate(system, [0, 5, 40], dtype="float64")
    assert theory.attrs["method"] == "iterated map"
    for name in ("error", "test_error", "accuracy", "test_accuracy"):
        np.testing.assert_allclose(runs[name][0], theory[name], rtol=1e-9)
    if rule.inertia is None:
        flow, followed = (
            ld.solve(system, [0.5, 4.0], order="flow"),
            ld.simulate(system, [0.5, 4.0], method="flow"),
        )
        np.testing.assert_allclose(followed.error[0], flow.error, rtol=1e-6)


def test_above_the_critical_rate_it_diverges_at_a_step(twin):
    calm = ld.theory_of(twin(ld.GradientDescent(0.1))).landmarks()
    critical = calm["critical_learning_rate"]
    for rate, how in ((0.98, "finished"), (1.02, "diverged")):
        system = twin(ld.GradientDescent(rate * critical))
        times = [0, 100, 10**5]
        theory = ld.solve(system, times)
        assert theory.outcome.item() == how
    assert 0 < theory.diverged_at.item() <= 10**5 and np.isfinite(theory.error[1])
    step = int(theory.diverged_at)
    close = ld.simulate(system, [step - 1, step], dtype="float64")
    assert close.diverged_at.item() == step  # to the step


def test_landmarks_are_those_of_the_trained_twin(twin):
    system = twin(ld.GradientDescent(0.5))
    found = ld.theory_of(system).landmarks(target=0.01)
    model = ld.Model(system.network, ld.start(system).weights)
    critical = ld.critical_learning_rate(
        model, system.problem.x, system.problem.y, loss=system.problem.loss
    )
    assert found["critical_learning_rate"] == pytest.approx(float(critical), rel=1e-6)
    values = ld.ntk_spectrum(model, system.problem.x)
    assert found["effective_rank"] == pytest.approx(values.sum() ** 2 / (values**2).sum())
    pulls = 1.4 * 0.5 / 9 * values
    slowest = np.log(0.01) / np.log1p(-pulls.min())
    assert found["slowest_time"] == pytest.approx(slowest, rel=1e-6)


def test_each_mode_is_learned_at_its_time(twin):
    """The residual along an eigenvector falls below 1 % of its start in the step that is named."""
    system = twin(ld.GradientDescent(0.3), hidden=20, outputs=1, examples=4)
    theory, x, y = ld.theory_of(system), system.problem.x, system.problem.y[:, 0]
    times = theory.mode_times(0.01)
    model = ld.Model(system.network, ld.start(system).weights)
    vectors = np.linalg.eigh(ld.ntk(model, x))[1]
    for time, vector in zip(times, vectors.T, strict=True):
        steps = [0, np.floor(time), np.ceil(time)]
        first, before, after = np.abs((theory.predict(steps, x).reshape(3, -1) - y) @ vector)
        assert before >= 0.01 * first >= after
    marks = theory.landmarks(target=0.01)
    assert (times.min(), times.max()) == (marks["fastest_time"], marks["slowest_time"])


def test_a_singular_kernel_leaves_a_loss_that_it_states(twin):
    """More outputs than weights: what is outside the range of the kernel never changes."""
    system = twin(ld.GradientDescent(0.3), hidden=1, outputs=1, examples=9)
    record = ld.solve(system, [0, 10**9])
    assert record.attrs["kernel_rank"] == 4 and record.attrs["kernel_rows"] == 9
    left = record.attrs["unlearned_error"]
    assert record.error[1].item() == pytest.approx(left, rel=1e-6)
    assert 1e-3 < left < 0.9 * record.error[0].item()


def test_no_number_of_steps_is_too_large_for_the_closed_form(twin):
    """What is iterated has an end: a cross-entropy, for which nothing closes."""
    system = twin(ld.GradientDescent(0.3, momentum=0.5), hidden=20)
    assert ld.solve(system, [10**15]).error.item() < 1e-20
    labels = twin(ld.GradientDescent(0.3), loss=ld.CrossEntropy())
    with pytest.raises(ValueError, match=r"\Atimes: got 1e\+15, which is step 1e\+15 of a map"):
        ld.solve(labels, [10**15])


def test_a_state_is_realised_by_weights_that_have_it(twin):
    system = twin(ld.GradientDescent(0.3), hidden=20)
    wanted = ld.start(system, weights=moved(system)).state
    weights = ld.start(system, state=wanted).weights
    again = ld.theory_of(system).project(weights, ())
    np.testing.assert_allclose(again.values, wanted.values, atol=1e-8)
    small = twin(ld.GradientDescent(0.3), hidden=1, outputs=1)
    state = ld.Outputs(np.random.default_rng(0).normal(size=13))
    with pytest.raises(ValueError, match="no weights have these outputs"):
        _ = ld.start(small, state=state).weights


def test_a_state_that_moves_has_no_weights(twin):
    system = twin(ld.GradientDescent(0.3, momentum=0.9), hidden=20)
    rest = ld.start(system).state
    assert np.shape(ld.start(system, state=rest).weights[0].weight) == (20, 3)
    moving = ld.start(system, state=ld.Outputs(rest.values, rest.values))
    with pytest.raises(ValueError, match="the state moves already"):
        _ = moving.weights


def linear_network(power=1):
    features = lambda x: jax.numpy.stack([x[:, 0], x[:, 1] ** 2, x[:, 0] * x[:, 1]], axis=1)
    return ld.Network(
        lambda key: jax.random.normal(key, (3,)),
        lambda w, x: features(x) @ w**power + x[:, 0],
        shape=[2],
        linear=True,
    )


def test_your_own_function_of_features():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=5)
    system = ld.System(ld.Dataset(x, y), linear_network(), ld.GradientDescent(0.2))
    theory, runs = ld.solve(system, TIMES), ld.simulate(system, TIMES, dtype="float64")
    np.testing.assert_allclose(runs.error[0], theory.error, rtol=1e-10)
    bent = ld.System(ld.Dataset(x, y), linear_network(2), ld.GradientDescent(0.2))
    with pytest.raises(ValueError, match=r"\Anetwork: got one that is said to be linear in its w"):
        ld.solve(bent, TIMES)


def test_a_network_without_hidden_layers_is_linear():
    x, y = np.diag([1.0, 2.0]), np.array([1.0, -1.0])
    system = ld.System(ld.Dataset(x, y), ld.MLP([2, 1], "relu"), ld.GradientDescent(0.5))
    found = ld.solve(system, [3], start=ld.start(system, weights=zeros(system)))
    # x.x'/2 of both inputs, and a step of 0.5/2: residuals shrink by 1 − 1/8 and 1 − 4/8.
    expected = 0.25 * ((7 / 8) ** 6 + (1 / 2) ** 6)
    assert found.error.item() == pytest.approx(expected, rel=1e-12)
    bent = ld.System(ld.Dataset(x, y), ld.MLP([2, 1], "relu", output="tanh"), system.rule)
    with pytest.raises(ld.NoTheory, match="which is not linear in its weights"):
        ld.solve(bent, [3])


def zeros(system):
    return jax.tree.map(np.zeros_like, ld.start(system).weights)


@pytest.mark.parametrize(
    ("times", "x", "message"),
    [
        ([5, 0], NEW, "times: got 5 before 0"),
        ([-1, 0], NEW, "times: got -1 first"),
        ([0, np.inf], NEW, "times: entry"),
        ([0], NEW[:, :2], r"x: got shape \(3, 2\); allowed is \(examples, …\) of shape \(3,\)"),
        ([0], np.nan * NEW, "x: entry"),
        ([0], NEW[:0], r"x: got shape \(0, 3\); allowed is .*, at least one"),
    ],
)
def test_predictions_of_wrong_arguments_are_refused(twin, times, x, message):
    theory = ld.theory_of(twin(RULES["descent"]))
    with pytest.raises(ValueError, match=f"\\A{message}"):
        theory.predict(times, x)


def test_weights_of_wrong_arguments_are_refused(twin):
    theory = ld.theory_of(twin(RULES["descent"]))
    with pytest.raises(ValueError, match=r"\Atime: got \[1, 2\]; allowed is a non-negative finite"):
        theory.weights_at([1, 2])
    nowhere = jax.tree.map(lambda w: np.nan * w, moved(theory.system))
    with pytest.raises(ValueError, match=r"\Aweights: entry .* is nan"):
        theory.weights_at(1, weights=nowhere)
    with pytest.raises(ValueError, match=r"\Atarget: got 2.0; allowed is a number between 0 and 1"):
        theory.landmarks(target=2.0)


def test_rates_that_change_have_no_flow_to_predict(twin):
    """Neither of a twin nor of an infinite network, as `solve` says too."""
    system = twin(RULES["changing rates"])
    rule = ld.Piecewise(ld.GradientDescent(0.2), steps=[3], rates=[0.4])
    wide = ld.System(system.problem, ld.infinite(ld.MLP([3, 9, 2], "tanh")), rule)
    for each in (system, wide):
        with pytest.raises(ValueError, match=r"\Aorder: got 'flow', but the rate changes in time"):
            ld.theory_of(each).predict([0, 1], NEW, order="flow")
    with pytest.raises(ValueError, match=r"\Aorder: got 'flow', but the rate changes in time"):
        ld.theory_of(system).weights_at(1, order="flow")


def test_predictions_see_bytes_as_data_sets_do():
    x, y = np.arange(24, dtype=np.uint8).reshape(6, 4), np.arange(6.0)
    network = ld.MLP([4, 5, 1], "tanh")
    model = ld.Model(network, network.sample(np.random.default_rng(0), (4,)))
    data = ld.Dataset(x, y, test=(x[:2], y[:2]))
    twin = ld.System(data, ld.linearise(model), ld.GradientDescent(0.1))
    wide = ld.System(data, ld.infinite(network), ld.GradientDescent(0.1))
    outputs = ld.theory_of(twin).predict(3, x[:2])
    loss = ld.solve(twin, [3]).test_error.item()
    assert loss == pytest.approx(0.5 * np.mean((outputs - y[:2]) ** 2), rel=1e-10)
    mean = ld.theory_of(wide).predict(3, x[:2]).mean[0]
    np.testing.assert_allclose(mean, ld.solve(wide, [3]).test_output_mean[0], rtol=1e-10)


def test_a_cross_entropy_has_no_prediction_in_closed_form(twin):
    theory = ld.theory_of(twin(RULES["descent"], outputs=3, loss=ld.CrossEntropy()))
    with pytest.raises(ValueError, match=r"loss: got CrossEntropy.* has the outputs of a test set"):
        theory.predict([0, 1], NEW)


def test_arrays_of_your_function_keep_their_digits():
    """JAX keeps arrays of a closure as it first converts them, here once without float64."""
    rng = np.random.default_rng(1)
    x, y, A = rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=(4, 2))
    network = ld.Network(
        lambda key: jax.random.normal(key, (4,)),
        lambda w, x: jax.numpy.einsum("pd,nd->np", A, x) @ w,
        shape=[2],
        linear=True,
    )
    system, w = ld.System(ld.Dataset(x, y), network, ld.GradientDescent(0.1)), np.ones(4)
    found = ld.solve(system, [0, 7], start=ld.start(system, weights=w)).error
    for step in range(8):
        if step in (0, 7):
            mean = 0.5 * np.mean((x @ A.T @ w - y) ** 2)
            assert found.sel(time=step).item() == pytest.approx(mean, rel=1e-12)
        w = w - 0.1 / 5 * A @ (x.T @ (x @ A.T @ w - y))


def own_function():
    return ld.Network(lambda key: np.ones((3, 2)), lambda w, x: x @ w)


def test_uncovered_systems_come_with_a_reason(twin, monkeypatch):
    system = twin(ld.GradientDescent(0.1))
    data, network = system.problem, system.network
    inner = ld.System(data, network.network, ld.GradientDescent(0.1))
    refused = {
        "ld.linearise": inner,
        "linear=True": ld.System(data, own_function(), system.rule),
        "correlated": ld.System(data, network, ld.SGD(0.1, batch=3, sampling="epochs")),
        "clipped": ld.System(data, network, ld.NaturalGradient(0.1, clip=1.0)),
        "parts of the kernel": ld.System(data, network, ld.NaturalGradient(0.1, blocks=True)),
    }
    for reason, each in refused.items():
        with pytest.raises(ld.NoTheory, match=reason):
            ld.solve(each, [0, 1])
    with pytest.raises(ValueError, match="order: got 'flow', but the rate changes in time"):
        ld.solve(twin(RULES["changing rates"]), [0, 1], order="flow")
    monkeypatch.setattr(kernels, "memory", lambda: 1000)
    with pytest.raises(ld.NoTheory, match=r"9 examples × 2 outputs, with 4 examples .* GiB"):
        ld.solve(system, [0, 1])
