"""Infinitely wide networks that learn, against draws of the process and trained networks."""

import jax
import numpy as np
import pytest
from scipy.linalg import expm

import learndyn as ld
from learndyn.theory.infinite_width import theory as infinite

RNG = np.random.default_rng(3)
X, TEST = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))
Y = np.sign(X[:, 0] * X[:, 1])
DATA = ld.Dataset(X, Y, test=(TEST, np.ones(4)), loss_scale=0.7)
SLOW = pytest.mark.slow
RATE, TIMES = 0.2, np.array([0, 1, 2, 5, 40])


def wide(rule=None, data=DATA, activation="relu", train="all", **more):
    network = ld.MLP([3, 64, 64, 1], activation, **more)
    return ld.System(data, ld.infinite(network, train=train), rule or ld.GradientDescent(RATE))


def step_matrices(system):
    """Covariance of all inputs at the start, and P − 1 of a step, (h/n) K on the columns of X."""
    both, network = np.concatenate([X, TEST]), system.network
    pull = np.zeros((10, 10))
    pull[:, :6] = 2 * 0.7 * RATE / 6 * network.ntk(both, X)
    return network.nngp(both), pull


MOVING = {
    "heavy ball": ld.GradientDescent(RATE, momentum=0.8),
    "Nesterov": ld.SGD(RATE, batch=6, sampling="epochs", momentum=0.6, nesterov=True),
    "changing rates": ld.Piecewise(
        ld.GradientDescent(RATE, momentum=0.7), steps=[2, 9], rates=[0.5 * RATE, 1.5 * RATE]
    ),
}


@pytest.mark.parametrize("name", MOVING)
def test_momentum_and_changing_rates_are_matrix_products(name):
    """Outputs and the sum v of forces, multiplied out: v ← β v + A f, f ← f − η v."""
    rule = MOVING[name]
    system, pieces = wide(rule, bias=True, gain=1.2), isinstance(rule, ld.Piecewise)
    inner = rule.rule if pieces else rule
    beta, C = float(inner.momentum), step_matrices(system)[0]
    rates, changes = ([RATE, *rule.rates], rule.steps) if pieces else ([RATE], np.zeros(0))
    A, one, none = step_matrices(system)[1] / RATE, np.eye(10), np.zeros((10, 10))
    targets, whole, own = np.concatenate([Y, np.zeros(4)]), np.eye(20), []
    for step in range(TIMES[-1] + 1):
        own.append(whole[:10, :10])
        eta = rates[np.count_nonzero(changes <= step)]
        forced = np.block([[one, none], [A, beta * one]])
        ahead = np.block([[one - eta * A, -eta * beta * one], [none, one]])
        plain = np.block([[one, -eta * one], [none, one]])
        whole = (ahead if inner.nesterov else plain) @ forced @ whole
    record = ld.solve(system, TIMES)
    assert record.attrs["method"] == "closed form"
    for i, t in enumerate(TIMES):
        mean, variance = targets - own[t] @ targets, np.diag(own[t] @ C @ own[t].T)
        close = dict(rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(record.test_output_mean[i, :, 0], mean[6:], **close)
        np.testing.assert_allclose(record.test_output_variance[i], variance[6:], **close)
    theory, state = ld.theory_of(system), ld.start(system).state
    for _ in range(TIMES[3]):
        state = theory.advance(state)
    known = theory.dynamics("full").closed_form(ld.start(system).state, TIMES[3:4])
    for part, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(known), strict=True):
        np.testing.assert_allclose(part, wanted[0], rtol=1e-9, atol=1e-12)
    # A state that moves has no closed form, and goes on from there.
    later = ld.solve(system, TIMES[:2], start=ld.start(system, state=state))
    assert later.attrs["method"] == "iterated map"
    two = theory.dynamics("full").closed_form(ld.start(system).state, TIMES[3:4] + TIMES[1])
    np.testing.assert_allclose(later.test_output_variance[1], np.diag(two.covariance[0])[6:])


def test_hundreds_of_steps_keep_their_digits():
    """Iterated from a state that moves, near the critical rate, where rounding must not grow."""
    at = lambda rate: wide(ld.GradientDescent(rate, momentum=0.7))
    system = at(0.9 * ld.theory_of(at(RATE)).landmarks()["critical_learning_rate"])
    theory, first = ld.theory_of(system), ld.start(system).state
    record = ld.solve(system, [400], start=ld.start(system, state=theory.advance(first)))
    known = theory.dynamics("full").closed_form(first, np.array([401]))
    assert record.attrs["method"] == "iterated map"
    variance = np.diag(known.covariance[0])
    # 400 roundings of covariances of order 1.
    np.testing.assert_allclose(record.test_output_variance[0], variance[6:], atol=1e-12)
    np.testing.assert_allclose(record.output_variance[0], variance[:6], atol=1e-12)


def test_momentum_makes_a_flow_faster():
    rule = ld.GradientDescent(RATE, momentum=0.75)
    fast, slow = wide(rule), wide()
    curve = ld.solve(fast, [0, 0.3, 2], order="flow").error
    np.testing.assert_allclose(curve, ld.solve(slow, [0, 1.2, 8], order="flow").error, rtol=1e-12)
    rates = [ld.theory_of(each).landmarks()["critical_learning_rate"] for each in (fast, slow)]
    assert rates[0] == pytest.approx(1.75 * rates[1])
    of = lambda each: ld.theory_of(each).drift(ld.start(each).state, order="flow").mean
    drifts = [of(each) for each in (fast, slow)]
    np.testing.assert_allclose(drifts[0], 4 * drifts[1], rtol=1e-12)
    with pytest.raises(ValueError, match="order: got 'flow', but the rate changes in time"):
        ld.solve(wide(MOVING["changing rates"]), [0, 1], order="flow")


@pytest.mark.parametrize("train", ["all", "last"])
def test_every_step_is_a_matrix_product(train):
    """Mean and covariance of f ← f − A (f − y), multiplied out; for the flow by expm."""
    system = wide(train=train, bias=True, gain=1.2)
    C, A = step_matrices(system)
    y = np.concatenate([Y, np.ones(4)])
    targets = np.concatenate([Y, np.zeros(4)])
    ways = {
        "full": (TIMES, lambda t: np.linalg.matrix_power(np.eye(10) - A, t)),
        "flow": (RATE * TIMES, lambda t: expm(-t * A)),
    }
    for order, (times, power) in ways.items():
        record = ld.solve(system, times, order=order)
        assert record.attrs["method"] == "closed form"
        for i, t in enumerate(TIMES):
            P = power(t)
            # f_t − y* = P (f_0 − y*) on training inputs, and f moves by as much elsewhere.
            mean, covariance = targets - P @ targets, P @ C @ P.T
            variance = np.diag(covariance)
            for prefix, rows in (("", slice(0, 6)), ("test_", slice(6, 10))):
                close = dict(rtol=1e-9, atol=1e-12)
                m, v = (record[f"{prefix}output_{of}"][i] for of in ("mean", "variance"))
                np.testing.assert_allclose(m[:, 0], mean[rows], **close)
                np.testing.assert_allclose(v, variance[rows], **close)
                error = 0.7 * np.mean((mean - y)[rows] ** 2 + variance[rows])
                np.testing.assert_allclose(record[f"{prefix}error"][i], error, **close)


def test_the_last_layer_learns_the_posterior_of_a_gaussian_process():
    system = wide(train="last", activation="erf")
    K, cross, prior = (system.network.nngp(*pair) for pair in ((X,), (TEST, X), (TEST,)))
    found = ld.theory_of(system).predict([0.0, np.inf], TEST)
    solved = np.linalg.solve(K, cross.T).T
    np.testing.assert_allclose(found.variance[0], np.diag(prior), rtol=1e-12)
    np.testing.assert_allclose(found.mean[1, :, 0], solved @ Y, rtol=1e-9)
    posterior = np.diag(prior - solved @ cross.T)
    np.testing.assert_allclose(found.variance[1], posterior, rtol=1e-9)
    late = ld.solve(system, [10**9]).isel(time=0)
    np.testing.assert_allclose(late.test_output_variance, posterior, rtol=1e-6)


def test_predictions_between_steps_are_those_of_the_nearest_step():
    """Above half of the critical rate powers that are not whole would have no sign."""
    rate = 0.9 * ld.theory_of(wide()).landmarks()["critical_learning_rate"]
    theory = ld.theory_of(wide(ld.GradientDescent(rate)))
    near, step = theory.predict([2.6, 7.4], TEST), theory.predict([3, 7], TEST)
    np.testing.assert_array_equal(near.mean, step.mean)


def test_many_new_inputs_are_predicted_in_blocks(monkeypatch):
    x, theory = np.random.default_rng(4).normal(size=(15, 3)), ld.theory_of(wide())
    together = theory.predict([3, np.inf], x)
    monkeypatch.setattr(infinite, "LEAST", 1)
    for whole, part in zip(together, theory.predict([3, np.inf], x), strict=True):
        np.testing.assert_allclose(part, whole, rtol=1e-9, atol=1e-12)
    assert theory.predict(3, x[:0]).mean.shape == (1, 0, 1)


def test_the_unlearned_error_is_stated():
    """A linear network on more examples than dimensions: least squares is left over."""
    x, y = RNG.normal(size=(9, 3)), RNG.normal(size=9)
    system = wide(data=ld.Dataset(x, y), activation="linear")
    rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    landmarks = ld.theory_of(system).landmarks()
    assert landmarks["final_error"] == pytest.approx(0.5 * np.mean(rest**2), rel=1e-10)
    about = ld.solve(system, [0]).attrs
    assert (about["kernel_rows"], about["kernel_rank"]) == (9, 3)
    assert about["unlearned_error"] == pytest.approx(landmarks["final_error"], rel=1e-10)
    late = ld.theory_of(system).predict(np.inf, x).mean[0, :, 0]
    np.testing.assert_allclose(y - late, rest, atol=1e-10)


def test_equal_inputs_with_unequal_targets_leave_half_of_their_difference():
    """And what initialisations scatter is learned; without inputs nothing is."""
    twice = ld.Dataset(np.concatenate([X, X[:2]]), np.concatenate([Y, Y[:2] + 3]), loss_scale=0.7)
    about = ld.solve(wide(data=twice), [0]).attrs
    assert about["kernel_rank"] == 6
    assert about["unlearned_error"] == pytest.approx(0.7 * 2 * 3**2 / 2 / 8, rel=1e-9)
    blind = wide(data=ld.Dataset(0 * X, Y))
    marks = ld.theory_of(blind).landmarks()
    assert marks == {"critical_learning_rate": np.inf, "final_error": 0.5}
    assert ld.solve(blind, [9]).error.item() == 0.5


@pytest.mark.parametrize("order", ["full", "flow"])
def test_above_the_critical_rate_descent_diverges(order):
    rate = ld.theory_of(wide()).landmarks()["critical_learning_rate"]
    assert rate == pytest.approx(6 / (0.7 * np.linalg.eigvalsh(wide().network.ntk(X))[-1]))
    system = wide(ld.GradientDescent(1.1 * rate))
    record = ld.solve(system, [0, 10, 1000], order=order)
    assert str(record.outcome.values) == ("diverged" if order == "full" else "finished")
    below = ld.solve(wide(ld.GradientDescent(0.99 * rate)), [0, 10, 1000])
    assert str(below.outcome.values) == "finished"


def test_batches_of_all_examples_are_gradient_descent():
    rule = ld.SGD(RATE, batch=6, sampling="epochs")
    of = lambda rule: ld.solve(wide(rule), TIMES).error.values
    np.testing.assert_array_equal(of(rule), of(ld.GradientDescent(RATE)))


def test_several_outputs_are_independent():
    labels = np.array([0, 1, 2, 0, 1, 2])
    data = ld.Dataset(X, labels)
    network = ld.MLP([3, 8, 8, 3], "tanh")
    system = ld.System(data, ld.infinite(network), ld.GradientDescent(RATE))
    record = ld.solve(system, TIMES)
    one_hot = np.eye(3)[labels]
    for k in range(3):
        alone = ld.System(
            ld.Dataset(X, one_hot[:, k]),
            ld.infinite(ld.MLP([3, 8, 8, 1], "tanh")),
            ld.GradientDescent(RATE),
        )
        single = ld.solve(alone, TIMES)
        np.testing.assert_allclose(record.output_mean[..., k], single.output_mean[..., 0])
    spread = 0.5 * np.mean(
        np.sum((record.output_mean.values - one_hot) ** 2, 2) + 3 * record.output_variance, 1
    )
    np.testing.assert_allclose(record.error, spread)


def trained(network, rule, runs, seed, times=TIMES, last=False):
    """Outputs on X and TEST of networks trained from their own weights, (runs, times, inputs).

    One program of its own for all runs, which shares nothing with `simulate`.
    """
    rng, both = np.random.default_rng(seed), np.concatenate([X, TEST]).astype(np.float32)
    drawn = [network.sample(rng, (3,)) for _ in range(runs)]
    weights = jax.tree.map(lambda *w: np.stack(w).astype(np.float32), *drawn)
    y, rate = Y.astype(np.float32), np.float32(rule.learning_rate)
    beta = np.float32(0 if rule.momentum is None else rule.momentum)
    loss = lambda w: 0.7 * ((network(w, both[:6]) - y) ** 2).mean()

    def step(now, _):
        w, v = now
        slope = jax.grad(loss)(w)
        if last:
            slope = (*jax.tree.map(lambda g: 0 * g, slope[:-1]), slope[-1])
        v = jax.tree.map(lambda a, g: beta * a + g, v, slope)
        return (jax.tree.map(lambda a, g: a - rate * g, w, v), v), network(w, both)

    rest = lambda w: (w, jax.tree.map(lambda a: 0 * a, w))
    along = jax.jit(jax.vmap(lambda w: jax.lax.scan(step, rest(w), length=times[-1] + 1)[1]))
    return np.asarray(along(weights), np.float64)[:, times]


def deviations(system, outputs):
    """How far mean and variance of trained networks are from the theory, and standard errors."""
    record = ld.solve(system, TIMES)
    of = lambda name: np.concatenate([record[name], record[f"test_{name}"]], 1)
    mean, variance = of("output_mean")[..., 0], of("output_variance")
    runs = len(outputs)
    off = outputs.mean(0) - mean, outputs.var(0, ddof=1) - variance
    fourth = ((outputs - outputs.mean(0)) ** 4).mean(0)
    return off, (outputs.std(0) / runs**0.5, np.sqrt((fourth - outputs.var(0) ** 2) / runs))


@pytest.mark.parametrize(
    ("last", "momentum"), [(False, None), (True, None), pytest.param(False, 0.8, marks=SLOW)]
)
def test_wide_networks_learn_like_this(last, momentum):
    """400 networks of width 256 or more: five standard errors, and 5/width of the largest value."""
    network = ld.MLP([3, 256, 1], "erf", gain=1.3, bias=True)
    rule = ld.GradientDescent(RATE, momentum=momentum)
    system = ld.System(DATA, ld.infinite(network, train="last" if last else "all"), rule)
    outputs = trained(network, rule, 400, 0, last=last)
    for off, error in zip(*deviations(system, outputs), strict=True):
        assert np.all(np.abs(off) < 5 * error + 5 / 256)
        assert np.abs(off).max() > 1e-6  # not the same computation


@pytest.mark.slow
@pytest.mark.parametrize("case", ["residual", "standard"])
def test_finite_widths_extrapolate_to_this(case):
    """2 f(2m) − f(m) has no term of 1/m: within four and a half standard errors."""
    standard = {"parameterisation": "standard"} if case == "standard" else {}
    kind = ld.MLP if standard else ld.ResidualMLP
    of = lambda m: kind([3, m, m, 1], "relu", gain=1.2, **standard)
    rule, runs, m = ld.GradientDescent(RATE), 1000, 64
    rate = lambda m: ld.GradientDescent(RATE / m) if standard else rule
    system = ld.System(DATA, ld.infinite(of(m)), rule)
    coarse, fine = (deviations(system, trained(of(k), rate(k), runs, k)) for k in (m, 2 * m))
    for off, error, finer, fine_error in zip(*coarse, *fine, strict=True):
        scatter = np.sqrt(4 * fine_error**2 + error**2)
        # What is left is of order 1/m² beside the deviation at m.
        left = 4 * np.abs(off).max() / m
        assert np.all(np.abs(2 * finer - off) < 4.5 * scatter + left + 1e-9)


def test_simulate_names_the_finite_network():
    system = wide()
    for call in (lambda: ld.simulate(system, [0, 1]), lambda: ld.start(system).weights):
        with pytest.raises(ValueError, match=r"\Anetwork: got an infinite network.*MLP\(.*\)\Z"):
            call()


@pytest.mark.parametrize(
    ("rule", "data", "reason"),
    [
        (ld.NaturalGradient(0.1), DATA, "the rule is not GradientDescent or SGD"),
        (ld.SGD(0.1, batch=2), DATA, "the rule draws mini-batches"),
        (ld.SGD(0.1, batch=2, sampling="epochs"), DATA, "its steps are correlated"),
        (ld.Piecewise(ld.GradientDescent(0.1, decay=0.1), steps=[1], rates=[0.2]), DATA, "decay"),
        (ld.GradientDescent(0.1, decay=0.1), DATA, "decay"),
        (None, ld.Dataset(X, (Y > 0).astype(int), loss=ld.CrossEntropy()), "only a Dataset with"),
    ],
)
def test_the_rest_is_refused_with_a_reason(rule, data, reason):
    with pytest.raises(ld.NoTheory, match=f"infinite width: [^;]*{reason}"):
        ld.solve(wide(rule, data), [0, 1])


def test_kernels_that_do_not_fit_are_refused_with_their_size(monkeypatch):
    monkeypatch.setattr("learndyn.theory.infinite_width.theory.memory", lambda: 1000)
    with pytest.raises(ld.NoTheory, match=r"kernels of 10 inputs take .* GiB"):
        ld.solve(wide(), [0, 1])


def test_wrong_arguments():
    theory, start = ld.theory_of(wide()), ld.start(wide())
    with pytest.raises(ValueError, match="times: got one that is negative"):
        theory.predict(-1, TEST)
    with pytest.raises(ValueError, match=r"times: got shape \(1, 2\); allowed is a list"):
        theory.predict([[1, 2]], TEST)
    with pytest.raises(ValueError, match=r"\Ax: got shape \(2, 2\); allowed is"):
        theory.predict(1, np.eye(2))
    small = type(start.state)(start.state.mean[1:], start.state.covariance)
    with pytest.raises(ValueError, match=r"state: got a mean of shape \(9, 1\); allowed is"):
        ld.start(wide(), state=small)
