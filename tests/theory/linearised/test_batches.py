"""Mean losses under mini-batches against many runs, and a dense step of the second moments."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.theory.linearised import batches

TIMES = np.array([0, 1, 3, 10, 30])
RULES = {
    "plain": ld.SGD(0.4, batch=2, decay=0.01),
    "changing rates": ld.Piecewise(
        ld.SGD(0.1, batch=2, momentum=0.7, nesterov=True), steps=[4], rates=[0.2]
    ),
}
RUNS = 2000
ALLOWED = 4.0  # standard errors, of 2 sets at 4 correlated times


@pytest.mark.parametrize("runs", [RUNS, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", RULES)
def test_mean_losses_are_those_of_many_runs(twin, rule, runs):
    system, number = twin(RULES[rule]), runs
    theory = ld.solve(system, TIMES, fluctuations=True)
    runs = ld.simulate(system, TIMES, runs=number, key=7, dtype="float64")
    assert theory.attrs["coverage"] == "exact"
    for name in ("error", "test_error"):
        spread = runs[name].std("run", ddof=1).values
        z = (runs[name].mean("run") - theory[name]).values[1:] / spread[1:] * np.sqrt(number)
        assert np.abs(z).max() < ALLOWED
        np.testing.assert_allclose(theory[f"{name}_std"][1:], spread[1:], rtol=0.2)


def test_noise_is_what_makes_the_difference(twin):
    """Without it the loss is that of full batches, by many standard errors."""
    system = twin(RULES["plain"])
    full = ld.System(system.problem, system.network, ld.GradientDescent(0.4, decay=0.01))
    noisy, calm = ld.solve(system, [30], fluctuations=True), ld.solve(full, [30])
    error = noisy.error_std.item() / np.sqrt(RUNS)
    assert noisy.error.item() - calm.error.item() > 2 * ALLOWED * error


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_step_of_moments_is_the_average_over_all_batches(twin, nesterov):
    """By enumeration: the mean loss after two steps of every pair of batches of one example."""
    system = twin(ld.SGD(0.3, momentum=0.5, nesterov=nesterov), examples=3, outputs=2)
    theory, kernel = ld.theory_of(system), ld.theory_of(system).kernel
    values = ld.start(system).state.values
    K, n, scale = kernel.matrix, 3, 0.7
    y = theory.targets

    def moved(f, v, i):
        r = np.zeros((n, 2))
        r[i] = 2 * scale * (f[i] - y[i])
        force = 0.3 * (K @ r.reshape(-1)).reshape(f.shape)
        v = 0.5 * v + force
        return f - (force + 0.5 * v if nesterov else v), v

    loss = []
    for i in range(n):
        for j in range(n):
            f, v = moved(values, np.zeros_like(values), i)
            f, _ = moved(f, v, j)
            loss.append(scale / n * np.sum((f[:n] - y) ** 2))
    assert ld.solve(system, [2]).error.item() == pytest.approx(np.mean(loss), rel=1e-12)


KINDS = [{}, {"momentum": 0.6}, {"momentum": 0.6, "nesterov": True}]


def second_moments(K, residuals, steps, rate, scale, momentum=0.0, nesterov=False):
    """Mean square residuals by a power of the average of A ⊗ A over batches of one example."""
    n, k = residuals.shape
    size, one, beta = n * k, np.eye(n * k), momentum
    whole = np.zeros((4 * size**2, 4 * size**2))
    for i in range(n):
        seen = np.zeros(size)
        seen[i * k : (i + 1) * k] = 1
        pull = 2 * scale * rate * K * seen
        ahead = (1 + beta) * pull if nesterov else pull
        kicked = beta**2 if nesterov else beta
        step = np.block([[one - ahead, -kicked * one], [pull, beta * one]])
        whole += np.kron(step, step) / n
    start = np.concatenate([residuals.reshape(-1), np.zeros(size)])
    end = np.linalg.matrix_power(whole, steps) @ np.kron(start, start)
    return scale / n * np.trace(end.reshape(2 * size, -1)[:size, :size])


@pytest.mark.parametrize("rule", KINDS)
def test_hundreds_of_steps_keep_their_digits(twin, rule):
    """Rounding does not grow where the moments fall."""
    of = lambda rate: twin(ld.SGD(rate, **rule), examples=3, outputs=2)
    rate = 0.9 * ld.theory_of(of(0.1)).landmarks()["largest_stable_rate"]
    system, steps = of(rate), 400
    theory = ld.theory_of(system)
    residuals = ld.start(system).state.values[:3] - theory.targets
    known = second_moments(theory.kernel.trained, residuals, steps, rate, 0.7, **rule)
    # Of every step, times a condition of a thousand; outputs of order 1 round by ε.
    eps = 2.0**-52
    close = pytest.approx(known, rel=steps * 1e3 * eps, abs=100 * eps * known**0.5)
    assert ld.solve(system, [steps]).error.item() == close


@pytest.mark.parametrize("rule", KINDS)
def test_the_largest_stable_rate(twin, rule):
    """Just below it the mean loss falls in the end, just above it grows."""
    landmarks = ld.theory_of(twin(ld.SGD(0.1, batch=2, **rule), outputs=1)).landmarks()
    rate = landmarks["largest_stable_rate"]
    assert rate < 0.9 * landmarks["critical_learning_rate"]
    last = []
    for factor in (0.97, 1.03):
        system = twin(ld.SGD(factor * rate, batch=2, **rule), outputs=1)
        record = ld.solve(system, [400, 600])
        last.append(np.inf if record.outcome.item() == "diverged" else np.diff(record.error)[0])
    assert last[0] < 0 < last[1]


def test_what_is_never_learned_is_in_the_record(twin):
    """Of mini-batches too; a kernel of zero learns nothing at any rate."""
    system = twin(ld.SGD(0.3, batch=2), hidden=1, outputs=1)
    full = ld.System(system.problem, system.network, ld.GradientDescent(0.3))
    record, known = (ld.solve(each, [0]).attrs for each in (system, full))
    for name in ("kernel_rank", "unlearned_error"):
        assert record[name] == known[name] and 0 < record[name] < record["kernel_rows"]
    data = ld.Dataset(np.zeros((3, 3)), np.ones(3))
    blind = ld.System(data, system.network, ld.SGD(0.3, batch=2))
    assert ld.theory_of(blind).landmarks()["largest_stable_rate"] == np.inf
    assert ld.solve(blind, [0, 4]).attrs["unlearned_error"] == 0.5


class Diagonal(batches.LinearisedBatchTheory):
    """With a smaller limit."""

    most_exact = 5


def test_many_outputs_take_the_diagonal_approximation(twin):
    """Close to the exact moments, and said to be approximate."""
    system, times = twin(ld.SGD(0.2, batch=3)), TIMES
    exact, rough = ld.solve(system, times), ld.solve(system, times, theory=Diagonal)
    assert rough.attrs["coverage"] == "approximate" and "uncorrelated" in rough.coverage_reason
    full = ld.solve(ld.System(system.problem, system.network, ld.GradientDescent(0.2)), times)
    for name in ("error", "test_error"):
        noise = np.abs(exact[name] - full[name]).values[1:]
        miss = np.abs(rough[name] - exact[name]).values[1:]
        assert np.all(miss < 0.5 * noise.max()) and noise.max() > 0.01 * full[name].values[0]
    # A single step has no scatter before it that could be correlated.
    np.testing.assert_allclose(rough.error[:2], exact.error[:2], rtol=1e-12)
    rate = lambda theory: theory(system).landmarks()["largest_stable_rate"]
    assert rate(Diagonal) == pytest.approx(rate(batches.LinearisedBatchTheory), rel=0.3)
    with pytest.raises(ValueError, match="fluctuations: got True, but modes that are taken"):
        ld.solve(system, times, theory=Diagonal, fluctuations=True)


def test_what_is_refused(twin):
    system = twin(ld.SGD(0.2, batch=3))
    other = ld.System(system.problem, system.network, ld.SGD(0.2, batch=3, sampling="epochs"))
    with pytest.raises(ld.NoTheory, match="mini-batches: an epoch's batches share no example"):
        ld.solve(other, [1])
    labels = twin(ld.SGD(0.2, batch=3), loss=ld.CrossEntropy())
    with pytest.raises(ld.NoTheory, match="the loss is CrossEntropy: no moments close"):
        ld.solve(labels, [1])
