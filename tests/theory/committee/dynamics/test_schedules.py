"""Learning rates that change: order "flow" only takes another clock, and the rest follows.

The expected values come from constant rates: by a change of the clock, or piece by piece.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld
from learndyn.rules.rates import stops
from learndyn.runtime.divergence import Elapsed, has_diverged

N = 100
RNG = np.random.default_rng(0)
STATE = ld.Overlaps(
    [[0.3, 0.05], [0.05, 0.4]], [[0.1, 0.0], [-0.05, 0.2]], np.eye(2), outputs=[0.7, -0.4]
)
TIMES = np.linspace(0, 3, 4)


@functools.cache
def problem():
    teacher = ld.Committee(2, "erf", outputs=[1.0, -0.6])
    return ld.TeacherStudent(ld.Isotropic(N), teacher, label_noise=0.2)


def system(rate, **options):
    student = ld.Committee(2, "erf", outputs=[0.7, -0.4], train=("inputs", "outputs"))
    return ld.System(problem(), student, ld.SGD(rate, **options))


def solved(rate, times=TIMES, state=STATE, order="full", **options):
    it = system(rate, **options)
    start = ld.start(it, state=state)
    return ld.solve(it, times, start=start, order=order, states=True, rtol=1e-9, atol=1e-12)


def same(one, other, rtol):
    for name in ("Q", "R", "outputs", "error"):
        np.testing.assert_allclose(one[name], other[name], rtol=rtol, atol=1e-9)


def decay(top, length, step):
    return top * jnp.exp(-step / length)


EXPONENTIAL = jax.tree_util.Partial(decay, np.asarray(0.8), np.asarray(2.0 * N))


def test_at_order_flow_a_schedule_is_another_clock():
    clock = 2.0 * (1 - np.exp(-TIMES / 2.0))  # ∫ η dα / η(0)
    same(solved(EXPONENTIAL, order="flow"), solved(0.8, clock, order="flow"), 1e-7)


def test_pieces_of_constant_rates_are_solved_one_after_the_other():
    rates = optax.piecewise_constant_schedule(0.9, {N: 0.5, 2 * N: 0.2})
    options = {"output_rate": 0.3, "decay": 0.4}
    expected, state = [], STATE
    for rate in (0.9, 0.45, 0.09):
        end = solved(rate, [0.0, 1.0], state, **options).isel(time=-1)
        fields = {k: end[f"state_{k}"].values for k in ("Q", "R", "T", "outputs")}
        expected.append(float(end.error))
        state = ld.Overlaps(**fields)
    assert expected[0] < 0.9 * solved(0.09, **options).error[1]  # rates matter
    np.testing.assert_allclose(solved(rates, **options).error[1:], expected, rtol=1e-7)


@pytest.mark.parametrize("rest", [0.0, 1e-4])
@pytest.mark.parametrize("shape", ["pulse", "bell"])
def test_a_moment_of_learning_after_a_long_rest_is_seen(rest, shape):
    """The integrator's steps grow while nothing happens, and must not step over the moment."""
    if shape == "pulse":
        rate = lambda n: jnp.where((n >= 40 * N) & (n < 40.3 * N), 2.0, rest)
        area = 2.0 * 0.3 + rest * (200 - 0.3)
    else:
        rate = lambda n: rest + 1.5 * jnp.exp(-((n / N - 150) ** 2) / (2 * 0.2**2))
        area = 1.5 * 0.2 * np.sqrt(2 * np.pi) + rest * 200
    expected = solved(1.0, [0.0, area], order="flow")  # whose clock is the area under the rates
    found = solved(rate, [0.0, 200.0], order="flow")
    assert expected.error[0] - expected.error[1] > 0.05
    same(found, expected, 1e-6)


def test_stops_are_where_rates_change():
    jump = optax.piecewise_constant_schedule(0.5, {300: 0.1})
    assert stops(jump, 1000).tolist() == [299, 300]
    assert len(stops(0.5, 1000)) == len(stops(jump, 200)) == len(stops(jump, 0)) == 0
    smooth = stops(lambda n: jnp.exp(-n / 100), 1000)
    assert 10 < len(smooth) < 20 and np.all(np.diff(smooth) > 1)
    teeth = stops(lambda n: n % 2, 10_000)  # as many as are worth it
    assert 400 < len(teeth) <= 1024


def test_a_constant_function_is_a_number():
    constant = jax.tree_util.Partial(lambda eta, step: eta, np.asarray(0.7))
    same(solved(constant, order="finite"), solved(0.7, order="finite"), 1e-9)
    begin = lambda rate: {"start": ld.start(system(rate), state=STATE)}
    run = lambda rate: ld.simulate(system(rate), TIMES, **begin(rate), runs=8, method="reduced")
    same(run(constant), run(0.7), 1e-9)


@pytest.mark.slow  # for its compilation
def test_fluctuations_know_the_schedule():
    it = system(EXPONENTIAL)
    start = ld.start(it, state=STATE)
    predicted = ld.solve(it, TIMES, start=start, fluctuations=True).error_std
    runs = ld.simulate(it, TIMES, start=start, runs=2000, method="reduced").error.std("run")
    # The standard error of a standard deviation, and the next order in 1/N.
    np.testing.assert_allclose(predicted[1:], runs[1:], rtol=3 / np.sqrt(2 * 2000) + 3 / N)


@pytest.mark.parametrize(("method", "runs"), [("reduced", 400), ("direct", 100)])
def test_networks_follow_the_schedule(method, runs):
    it = system(EXPONENTIAL, batch=2)
    start = ld.start(it, state=STATE, key=3)
    found = ld.simulate(it, TIMES, start=start, runs=runs, method=method, key=5)
    later = lambda record: record.isel(time=slice(1, None))
    mean = later(ld.solve(it, TIMES, start=start, order="finite"))
    verdict = ld.compare(mean, later(found))
    assert verdict.verdict == "agrees", verdict.reason
    constant = later(ld.solve(system(0.8, batch=2), TIMES, start=start, order="finite"))
    assert ld.compare(constant, later(found), same_system=False).verdict == "deviates"


def test_a_rate_that_reaches_zero_stops_the_inputs_weights_alone():
    stop = optax.piecewise_constant_schedule(0.5, {N: 0.0})
    it = system(stop, output_rate=0.5)
    for method in ("reduced", "direct"):
        found = ld.simulate(it, [0, 1, 2], method=method).isel(run=0)
        moved = lambda name, found=found: np.abs(found[name][2] - found[name][1]).max()
        assert moved("Q") < 1e-6 and moved("outputs") > 1e-3


def test_the_implicit_solver_knows_how_the_drift_depends_on_time():
    spectrum = ld.Spectrum([1.5, 0.5], [N // 2, N // 2])
    data = ld.TeacherStudent(spectrum, ld.Committee(1, "erf"))
    it = ld.System(data, ld.Committee(2, "erf"), ld.SGD(EXPONENTIAL))
    flow = ld.theory_of(it).dynamics("full")
    state = ld.theory_of(it).as_state(ld.start(it).state)
    with jax.enable_x64(True):
        y, unravel = ravel_pytree(jax.tree.map(jnp.asarray, state))
        J = jax.jit(jax.jacfwd(lambda y: ravel_pytree(flow.drift(unravel(y)))[0]))(y)
        assert np.abs(J[:, -1]).max() > 1e-3  # the last variable is the time
        b = np.random.default_rng(0).standard_normal(len(y))
        b = ravel_pytree(symmetric(unravel(b)))[0]
        solve = lambda y, b: flow.linearise(unravel(y), jnp.asarray(3.0))(unravel(b))
        x = ravel_pytree(jax.jit(solve)(y, b))[0]
        np.testing.assert_allclose(3.0 * x - J @ x, b, atol=1e-9)


def symmetric(state):
    half = lambda A: (A + A.swapaxes(1, 2)) / 2
    return ld.Overlaps(half(state.Q), state.R, 0 * state.T, time=state.time)


def test_time_in_a_state_does_not_count_as_divergence():
    assert not has_diverged({"x": np.ones(2), "t": Elapsed(np.asarray(1e9))}, np.asarray(10.0))


def test_theories_without_schedules_refuse_them():
    deep = ld.System(
        ld.TeacherStudent(ld.Isotropic(4), ld.LinearTeacher(2)),
        ld.DeepLinear([4, 3, 2]),
        ld.SGD(EXPONENTIAL),
    )
    with pytest.raises(ld.NoTheory, match="perturbation: the rule has a learning rate"):
        ld.theory_of(deep)
    with pytest.raises(ValueError, match="estimator: got SGD with a schedule"):
        ld.Optax(optax.sgd(0.1), estimator=ld.SGD(EXPONENTIAL))
    with pytest.raises(ValueError, match="rule: got SGD with a schedule"):
        ld.CatapultSchedule(ld.SGD(EXPONENTIAL))
    for bad in (lambda: 1.0, lambda step: -1.0, lambda step: jnp.ones(2), lambda step: np.nan):
        with pytest.raises(ValueError, match="learning_rate: got a function that is not one"):
            ld.SGD(bad)


def test_text_holds_the_function():
    lost = system(EXPONENTIAL).not_in_json()
    assert len(lost) == 1 and lost[0].startswith("system.rule.learning_rate: the function")
    again = ld.System.from_json(system(jax.nn.sigmoid).to_json())
    assert again.rule.learning_rate is jax.nn.sigmoid
    other = jax.tree_util.Partial(decay, np.asarray(0.8), np.asarray(3.0 * N))
    assert system(other).to_json() != system(EXPONENTIAL).to_json()


def test_other_networks_take_the_rate_of_each_step():
    data = ld.Dataset(np.eye(3), [1.0, 2.0, 3.0])
    schedule = optax.linear_schedule(0.5, 0.1, 10)
    error = lambda rule: ld.simulate(ld.System(data, ld.MLP([3, 4, 1], "tanh"), rule), [0, 9]).error
    ours = error(ld.SGD(schedule, batch=2))
    np.testing.assert_allclose(ours, error(ld.Optax(optax.sgd(schedule), batch=2)), rtol=1e-5)


def test_the_linearised_theory_refuses_functions():
    data = ld.Dataset(np.eye(3), [1.0, 2.0, 3.0])
    network = ld.linearise(ld.Model(mlp := ld.MLP([3, 4, 1], "tanh"), mlp.sample(RNG, (3,), None)))
    for rule in (ld.SGD(EXPONENTIAL, batch=2), ld.SGD(EXPONENTIAL, batch=3, sampling="epochs")):
        with pytest.raises(ld.NoTheory, match="the rule's rate is a function of the step"):
            ld.theory_of(ld.System(data, network, rule))
    with pytest.raises(ValueError, match="rule: got one with a schedule"):
        ld.Piecewise(ld.SGD(EXPONENTIAL), steps=[1], rates=[0.1])
