"""Momentum: its limits, a closed form, and real networks."""

import functools

import jax
import numpy as np
import pytest

import learndyn as ld

STATE = ld.Overlaps([[0.3, 0.05], [0.05, 0.4]], [[0.1], [-0.05]], [[1.0]], outputs=[0.7, -0.4])
TIMES = np.array([0.0, 0.5, 1.0, 2.0])


def system(N, beta, rate=None, **options):
    """The same rates in the limit of every β."""
    student = ld.Committee(2, "erf", outputs=[0.7, -0.4], train=("inputs", "outputs"))
    problem = ld.TeacherStudent(ld.Isotropic(N), ld.Committee(1, "erf"), label_noise=0.2)
    rates = {"output_rate": 0.3, "decay": 0.2, "output_decay": 0.1}
    rates = {name: (1 - beta) * rate for name, rate in rates.items()}
    return ld.System(
        problem, student, ld.SGD(rate or 0.6 * (1 - beta), momentum=beta, **rates, **options)
    )


def solved(N, beta, order, **options):
    it = system(N, beta, **options)
    return numbers(ld.solve(it, TIMES, start=ld.start(it, state=STATE), order=order))


def numbers(record):
    """All observables at the last two times."""
    last = record.isel(time=slice(2, None))
    lead = last.error.shape[:-1]
    return np.concatenate(
        [last[n].values.reshape(*lead, -1) for n in ("Q", "R", "outputs", "error")], axis=-1
    )


def test_at_order_full_it_is_sgd_at_a_larger_rate():
    rates = {"output_rate": 0.3, "decay": 0.2, "output_decay": 0.1}
    it = system(500, 0.5)
    plain = ld.System(it.problem, it.network, ld.SGD(0.6, **rates))
    expected = numbers(ld.solve(plain, TIMES, start=ld.start(plain, state=STATE)))
    np.testing.assert_allclose(solved(500, 0.5, "full"), expected, rtol=1e-9)


def test_velocities_that_relax_at_once_give_the_order_full():
    limit = solved(1000, 0.5, "full")
    gaps = [np.abs(solved(N, 0.5, "inertial") - limit).max() for N in (200, 400, 800)]
    slopes = np.log2(np.array(gaps[:-1]) / gaps[1:])  # the gap is of order 1/γ
    np.testing.assert_allclose(slopes, 1.0, atol=0.1)


def test_a_linear_student_is_a_damped_oscillator():
    N, gamma, rate = 100, 3.0, 1.2
    beta = 1 - gamma / N
    problem = ld.TeacherStudent(ld.Isotropic(N), ld.Committee(1, "linear"))
    rule = ld.GradientDescent(rate * (1 - beta), momentum=beta)  # sees no examples, no noise
    it = ld.System(problem, ld.Committee(1, "linear"), rule)
    begin = ld.start(it, state=ld.Overlaps([[0.25]], [[0.5]], [[1.0]]))
    found = ld.solve(it, TIMES, start=begin, order="inertial")
    # R'' + γ R' = γ η (1 − R), and the deviation stays along the teacher.
    a, w = gamma / 2, np.sqrt(gamma * rate - gamma**2 / 4)
    deviation = 0.5 * np.exp(-a * TIMES) * (np.cos(w * TIMES) + a / w * np.sin(w * TIMES))
    np.testing.assert_allclose(found.R.values[:, 0, 0], 1 - deviation, atol=1e-7)
    np.testing.assert_allclose(found.error, deviation**2 / 2, atol=1e-7)


@functools.cache
def runs(N, beta, method, count, **options):
    it = system(N, beta, **options)
    start = ld.start(it, state=STATE, key=2)
    return ld.simulate(it, TIMES, start=start, runs=count, method=method, key=N)


FALLING = jax.tree_util.Partial(lambda top, step: top / (1 + step / 20), np.asarray(0.12))


WARMING = jax.tree_util.Partial(lambda top, step: top * step / 2000, np.asarray(0.12))
WARM = jax.tree_util.Partial(lambda top, step: top * step / 30, np.asarray(0.12))  # 0 at first


@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": True, "batch": 3, "rate": FALLING}, {"rate": WARM}],
    ids=["plain", "all", "from zero"],
)
def test_the_chain_is_that_of_real_networks(options):
    chain, real = (runs(20, 0.8, method, 300, **options) for method in ("reduced", "direct"))
    one, other = numbers(chain), numbers(real)
    error = np.sqrt((one.var(0) + other.var(0)) / 300)
    assert np.abs((one.mean(0) - other.mean(0)) / error).max() < 4.2
    np.testing.assert_allclose(one.std(0), other.std(0), rtol=4.2 / np.sqrt(300))


@pytest.mark.parametrize("own", [True, False])
def test_a_rate_that_begins_at_zero_gives_decay_no_kick(own):
    """A velocity that held the decay divided by the rate would throw weights away at once."""
    N, beta = 2000, 0.8
    rates = {"output_rate": 0.1} if own else {}
    rule = ld.SGD(WARMING, momentum=beta, decay=0.1, output_decay=0.05, **rates)
    plain = system(N, beta)
    it = ld.System(plain.problem, plain.network, rule)
    start = ld.start(it, state=STATE)
    found = numbers(ld.simulate(it, TIMES, start=start, runs=60, method="reduced", key=4))
    expected = numbers(ld.solve(it, TIMES, start=start))
    # Student's error, and a 1/N correction, which momentum makes 1/(1 − β) times larger.
    bound = 4.2 * found.std(0) / np.sqrt(60) + 1 / (N * (1 - beta))
    assert np.all(np.abs(found.mean(0) - expected) < bound)


def test_networks_approach_the_inertial_order_as_1_over_N():
    gamma, found = 4.0, {}
    for N in (50, 100):
        found[N] = numbers(runs(N, 1 - gamma / N, "reduced", 4000))
    extrapolated = 2 * found[100].mean(0) - found[50].mean(0)
    error = np.sqrt((4 * found[100].var(0) + found[50].var(0)) / 4000)
    limit = solved(100, 1 - gamma / 100, "inertial")
    gap = np.abs(found[50].mean(0) - limit).max()
    assert np.abs(extrapolated - limit).max() < 4.2 * error.max() + gap / 10
    # Velocities matter: without them the prediction is far off.
    assert np.abs(solved(100, 1 - gamma / 100, "full") - limit).max() > 10 * gap


def test_orders_say_what_is_known():
    it = system(50, 0.5)
    with pytest.raises(ValueError, match="order: got 'finite'; allowed is one of 'full', 'flow'"):
        ld.solve(it, TIMES, order="finite")
    plain = ld.System(it.problem, it.network, ld.SGD(0.1))
    with pytest.raises(ValueError, match="order: got 'inertial'; allowed is one of"):
        ld.solve(plain, TIMES, order="inertial")
    assert ld.theory_of(system(50, 0.5, rate=FALLING)).orders == ("full", "flow")
    assert not ld.theory_of(it).landmarks()
