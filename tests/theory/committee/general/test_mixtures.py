"""Committees on mixtures: a closed form, brute force, the centred limit, and real networks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import learndyn as ld
from learndyn.numerics.random import Source, key_of_run

CORNERS = np.array([[1.5, 0.0], [-1.5, 0.0], [0.0, 1.5], [0.0, -1.5]])
XOR = [1.0, 1.0, -1.0, -1.0]
TIMES = np.array([0.0, 1.0, 2.0])
PARTS = {"outputs": [0.9, -0.5, 0.7], "biases": [0.2, -0.3, 0.1]}
EVERY = ("inputs", "outputs", "biases")
RULE = {"output_rate": 0.3, "bias_rate": 0.2, "decay": 0.1, "output_decay": 0.05}


def apart(N):
    """Variances of four clusters in two levels, in no common order."""
    return ld.Commuting([[1.0, 0.5], [0.6, 0.9], [0.8, 1.2], [0.5, 0.4]], [N // 2, N - N // 2])


def xor(N, g="tanh", K=3, rule=None, **problem):
    mixture = ld.Mixture(CORNERS, apart(N), weights=[1, 2, 1, 1])
    labelled = ld.LabelledMixture(mixture, XOR, label_noise=0.2, **problem)
    parts = {name: numbers[:K] for name, numbers in PARTS.items()}
    return ld.System(
        labelled, ld.Committee(K, g, train=EVERY, **parts), rule or ld.SGD(0.5, **RULE)
    )


def taught(N, **rule):
    """A teacher of two units labels; one of them depends on the means."""
    teacher = ld.Committee(2, "erf", outputs=[1.0, -0.6], biases=[0.3, 0.0])
    problem = ld.TeacherStudent(ld.Mixture(CORNERS, apart(N)), teacher, label_noise=0.1)
    return ld.System(problem, ld.Committee(2, "erf", outputs=[0.8, -0.7]), ld.SGD(0.6, **rule))


def started(system, key=0, length=1.0):
    """A start whose students see the means: a share of their rows lies along them."""
    begin = ld.start(system, key=key)
    rows = begin.weights if system.network.is_array else begin.weights.inputs
    rows = rows.copy()
    rows[:, :2] += (
        length * np.sqrt(system.dim) * np.array([[0.5, 0.2], [-0.3, 0.4], [0.1, -0.6]])[: len(rows)]
    )
    whole = rows if system.network.is_array else begin.weights._replace(inputs=rows)
    return ld.start(system, weights=whole, teacher=begin.teacher)


def numbers(record):
    """All that a record has, after time 0, as a matrix (runs, numbers) or a vector."""
    last = record.isel(time=slice(1, None))
    names = [n for n in ("Q", "R", "means", "outputs", "biases", "error") if n in last]
    lead = last.error.shape[:-1]
    return np.concatenate([last[n].values.reshape(*lead, -1) for n in names], axis=-1)


def test_a_linear_student_has_a_closed_form():
    """The mean of w obeys dw/dα = η (E[y x] − E[x xᵀ] w), in the coordinates of the mean."""
    means, eta = np.array([[1.2, 0.3], [-0.8, 0.9]]), 0.4
    mixture = ld.Mixture(means, [ld.Spectrum([1.0], [300]), ld.Spectrum([0.5], [300])])
    problem = ld.LabelledMixture(mixture, [1.0, -0.5])
    system = ld.System(problem, ld.Committee(1, "linear"), ld.SGD(eta))
    begin = started(system)
    found = ld.solve(system, TIMES, start=begin, order="flow").means.values[:, :, 0]
    second = np.mean(
        [np.outer(m, m) + v * np.eye(2) for m, v in zip(means, (1, 0.5), strict=True)], axis=0
    )
    drive = (means.T @ [1.0, -0.5]) / 2
    w = begin.weights[0, :2] / np.sqrt(300)
    rest = np.linalg.solve(second, drive)
    expected = [means @ (rest + scipy.linalg.expm(-eta * second * t) @ (w - rest)) for t in TIMES]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("make", [xor, taught], ids=["constants", "teacher"])
def test_the_drift_is_the_mean_step_of_many_examples(make):
    """Brute force: the linear part of a step, averaged over inputs drawn by NumPy alone."""
    system, rng, count = make(12), np.random.default_rng(5), 400_000
    begin, mixture = started(system), system.problem.inputs
    theory, N = ld.theory_of(system), system.dim
    rows = begin.weights if system.network.is_array else begin.weights.inputs
    v, b = system.network.outputs, system.network.biases
    b = np.zeros(len(rows)) if b is None else b
    cluster = rng.choice(4, p=mixture.probabilities, size=count)
    values, counts = mixture.levels
    x = np.repeat(np.sqrt(values), counts, axis=1)[cluster] * rng.standard_normal((count, N))
    x[:, :2] += CORNERS[cluster]
    g, slope = FUNCTIONS[system.network.activation]
    z = x @ rows.T / np.sqrt(N) + b
    if make is xor:
        y = np.array(XOR)[cluster]
    else:
        teacher = system.problem.teacher
        y = FUNCTIONS["erf"][0](x @ begin.teacher.T / np.sqrt(N) + teacher.biases) @ teacher.outputs
    e = (y - g(z) @ v)[:, None]
    delta, eta = v * slope(z) * e, float(system.rule.learning_rate)
    fixed = [begin.teacher] if make is taught else []
    fixed = np.concatenate([*fixed, np.sqrt(N) * np.pad(CORNERS, ((0, 0), (0, N - 2)))])
    drift = theory.drift(begin.state, "flow")
    decay = 0.1 if make is xor else 0.0
    along = lambda others: eta * delta[:, :, None] * (x @ others.T / np.sqrt(N))[:, None]
    pairs = [
        (along(fixed), drift.R.sum(0) + decay * begin.state.R.sum(0)),
        (
            along(rows) + along(rows).swapaxes(1, 2),
            drift.Q.sum(0) + 2 * decay * begin.state.Q.sum(0),
        ),
    ]
    if make is xor:
        pairs += [(0.3 * g(z) * e, drift.outputs + 0.05 * v), (0.2 * delta, drift.biases)]
    for samples, expected in pairs:
        error = samples.std(0) / np.sqrt(count)
        assert np.max(np.abs(samples.mean(0) - expected) / error) < 4.5


FUNCTIONS = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "erf": (
        lambda z: scipy.special.erf(z / np.sqrt(2)),
        lambda z: np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2),
    ),
}


def test_clusters_without_means_that_are_alike_are_gaussian_inputs():
    teacher = ld.Committee(2, "erf", biases=[0.1, -0.2])
    rule, spectrum = ld.SGD(0.7, decay=0.1), ld.Spectrum([1.5, 0.5], [30, 30])
    systems = [
        ld.System(ld.TeacherStudent(inputs, teacher, label_noise=0.1), ld.Committee(3, "erf"), rule)
        for inputs in (spectrum, ld.Mixture(np.zeros((2, 1)), spectrum))
    ]
    begin = ld.start(systems[0], key=2)
    given = {"weights": begin.weights, "teacher": begin.teacher}
    plain, mixed = (ld.solve(s, TIMES, start=ld.start(s, **given)) for s in systems)
    for name in ("Q", "R", "error"):
        np.testing.assert_allclose(mixed[name], plain[name], rtol=1e-5, atol=1e-7)


@functools.cache
def runs(make, N, method, count, **rule):
    system = make(N, rule=ld.SGD(0.5, **RULE, **rule)) if make is xor else make(N, **rule)
    begin = started(system)
    return numbers(
        ld.simulate(system, TIMES, start=begin, runs=count, method=method, key=N, dtype="float64")
    )


@pytest.mark.parametrize("make", [xor, taught], ids=["constants", "teacher"])
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_the_chain_is_that_of_real_networks(make, batch):
    chain, real = (runs(make, 20, method, 300, batch=batch) for method in ("reduced", "direct"))
    error = np.sqrt((chain.var(0) + real.var(0)) / 300)
    assert np.abs((chain.mean(0) - real.mean(0)) / error).max() < 4.5
    np.testing.assert_allclose(chain.std(0), real.std(0), rtol=5 / np.sqrt(300))


@pytest.mark.parametrize("make", [xor, taught], ids=["constants", "teacher"])
def test_networks_approach_the_theory_as_1_over_N(make):
    found = {N: runs(make, N, "reduced", 3000) for N in (100, 200)}
    extrapolated = 2 * found[200].mean(0) - found[100].mean(0)
    error = np.sqrt((4 * found[200].var(0) + found[100].var(0)) / 3000)
    limit = 2 * theory_at(make, 200) - theory_at(make, 100)  # the starts of two sizes differ
    gap = np.abs(found[100].mean(0) - theory_at(make, 100)).max()
    assert np.abs(extrapolated - limit).max() < 4.5 * error.max() + gap / 5


def theory_at(make, N):
    system = make(N, rule=ld.SGD(0.5, **RULE)) if make is xor else make(N)
    return numbers(ld.solve(system, TIMES, start=started(system)))


def test_a_rate_that_changes_is_known_to_both():
    falling = lambda step: 0.5 / (1 + step / 40)
    found = {m: runs(xor, 20, m, 300) for m in ("reduced",)}
    system = xor(20, rule=ld.SGD(falling, **RULE))
    begin = started(system)
    both = [
        numbers(ld.simulate(system, TIMES, start=begin, runs=300, method=m, key=1, dtype="float64"))
        for m in ("reduced", "direct")
    ]
    error = np.sqrt((both[0].var(0) + both[1].var(0)) / 300)
    assert np.abs((both[0].mean(0) - both[1].mean(0)) / error).max() < 4.5
    assert np.abs((both[0].mean(0) - found["reduced"].mean(0)) / error).max() > 9
    changed = numbers(ld.solve(system, TIMES, start=begin))
    constant = numbers(ld.solve(xor(20), TIMES, start=started(xor(20))))
    assert np.abs(changed - constant).max() > 0.01


def test_a_state_is_realised_with_means_that_stay_where_they_are():
    for system in (xor(40), taught(40)):
        theory, begin = ld.theory_of(system), started(system)
        weights, teacher = theory.realise(begin.state, key=7)
        again = theory.project(weights, teacher)
        for name in ("Q", "R", "T"):
            np.testing.assert_allclose(getattr(again, name), getattr(begin.state, name), atol=1e-12)
    with pytest.raises(ValueError, match="state: got T whose last rows are not the means"):
        state = begin.state
        ld.start(system, state=ld.Overlaps(state.Q, state.R, 1.1 * state.T))


def test_covariances_that_commute_are_found_and_others_refused():
    rng, N = np.random.default_rng(3), 12
    frame, _ = np.linalg.qr(rng.standard_normal((N, N)))
    values = np.array([[1.0] * 6 + [0.5] * 6, [0.5] * 4 + [1.0] * 8])
    matrices = np.stack([frame @ np.diag(row) @ frame.T for row in values])
    means = rng.standard_normal((2, N))
    turned = ld.Mixture(means, matrices)
    plain = ld.Mixture(means @ frame, values)
    assert sorted(turned.levels[1].tolist()) == sorted(plain.levels[1].tolist()) == [2, 4, 6]
    rows, seen = rng.standard_normal((2, N)), []
    for mixture, weights in ((turned, rows), (plain, rows @ frame)):
        system = ld.System(
            ld.LabelledMixture(mixture, [1, -1]), ld.Committee(2, "erf"), ld.SGD(0.3)
        )
        theory, state = ld.theory_of(system), ld.start(system, weights=weights).state
        drift = theory.drift(state)
        # Levels have no order: sums over them are compared.
        sums = {"drift of Q": np.sum(drift.Q, 0), "drift of R": np.sum(drift.R, 0)}
        seen.append(theory.observe(state) | sums)
    assert np.abs(seen[0]["drift of Q"]).max() > 0.01
    for name, value in seen[0].items():
        np.testing.assert_allclose(value, seen[1][name], atol=1e-10, err_msg=name)
    other = np.stack([matrices[0], np.diag(values[1])])
    system = ld.System(
        ld.LabelledMixture(ld.Mixture(means, other), [1, -1]), ld.Committee(2, "erf"), ld.SGD(0.3)
    )
    with pytest.raises(ld.NoTheory, match="the covariances of the clusters do not commute"):
        ld.solve(system, TIMES)
    record = ld.simulate(system, [0, 30], runs=8)  # networks are trained all the same
    assert record.error.values[:, -1].mean() < record.error.values[:, 0].mean()


def test_inputs_have_the_means_and_covariances_that_they_state():
    rng, count = np.random.default_rng(0), 40_000
    A = rng.standard_normal((2, 3, 3))
    matrices = A @ A.swapaxes(1, 2) + 0.1 * np.eye(3)
    mixture = ld.Mixture([[1.0, 2.0], [-1.0, 0.0]], matrices, weights=[1, 3])
    problem = ld.LabelledMixture(mixture, [[1.0], [-1.0]])
    with jax.enable_x64(True):
        source = Source(jnp.asarray(key_of_run(3, 0)), jnp.asarray(0))
        x, y = problem.sampler((), np.float64)(source, (count,))
    first = np.asarray(y)[:, 0] > 0
    assert abs(first.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / count)
    for mine, mean, matrix in zip((first, ~first), mixture.full_means, matrices, strict=True):
        own = np.asarray(x)[mine]
        error = np.sqrt(np.diag(matrix) / len(own))
        assert np.abs((own.mean(0) - mean) / error).max() < 5
        scatter = np.sqrt(2 * np.outer(np.diag(matrix), np.diag(matrix)) / len(own))
        assert np.abs((np.cov(own.T) - matrix) / scatter).max() < 5


@pytest.mark.parametrize("distance", [0.5, 1.0, 2.0])
def test_bayes_limits_of_two_and_of_four_clusters(distance):
    tail = scipy.stats.norm.cdf
    pair = ld.LabelledMixture(ld.Mixture([[distance], [-distance]], ld.Isotropic(50)), [1, -1])
    limits = ld.theory_of(ld.System(pair, ld.Committee(1, "erf"), ld.SGD(0.1))).landmarks()
    assert limits["bayes_error"] == pytest.approx(tail(-distance), abs=1e-3)
    spread = scipy.integrate.quad(
        lambda x: (1 - np.tanh(distance * x) ** 2) * scipy.stats.norm.pdf(x - distance), -9, 12
    )
    assert limits["bayes_loss"] == pytest.approx(spread[0] / 2, abs=1e-3)
    corners = distance * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    four = ld.LabelledMixture(ld.Mixture(corners, ld.Isotropic(50)), XOR)
    limits = ld.theory_of(ld.System(four, ld.Committee(1, "erf"), ld.SGD(0.1))).landmarks()
    p = tail(-distance / np.sqrt(2))  # one of two independent signs is wrong
    assert limits["bayes_error"] == pytest.approx(2 * p * (1 - p), abs=1e-3)


def test_lengths_tell_clusters_of_different_variances_apart():
    """Without means the limit is that of two chi-square numbers."""
    N, ratio = 40, 1.5
    mixture = ld.Mixture(np.zeros((2, 1)), [ld.Spectrum([v], [N]) for v in (1.0, ratio)])
    system = ld.System(ld.LabelledMixture(mixture, [1, -1]), ld.Committee(1, "erf"), ld.SGD(0.1))
    edge = N * np.log(ratio) / (1 - 1 / ratio)
    chi = scipy.stats.chi2(N)
    wrong = (chi.sf(edge) + chi.cdf(edge / ratio)) / 2
    assert ld.theory_of(system).landmarks()["bayes_error"] == pytest.approx(wrong, abs=1e-3)


def test_the_classification_error_is_that_of_outputs():
    system = xor(60)
    begin = started(system, length=2.0)
    predicted = ld.theory_of(system).observe(begin.state)["classification_error"]
    rng, count, mixture = np.random.default_rng(8), 200_000, system.problem.inputs
    cluster = rng.choice(4, p=mixture.probabilities, size=count)
    values, counts = mixture.levels
    x = np.repeat(np.sqrt(values), counts, axis=1)[cluster] * rng.standard_normal((count, 60))
    x[:, :2] += CORNERS[cluster]
    w, v, b = begin.weights
    outputs = np.tanh(x @ w.T / np.sqrt(60) + b) @ v
    wrong = np.mean(np.sign(outputs) != np.array(XOR)[cluster])
    assert predicted == pytest.approx(wrong, abs=1e-3 + 4.5 * np.sqrt(0.25 / count))


def test_what_is_refused_says_why():
    mixture = ld.Mixture(CORNERS, ld.Isotropic(30))
    labelled = ld.LabelledMixture(mixture, XOR)
    student = ld.Committee(2, "erf")
    with pytest.raises(ld.NoTheory, match="the rule has momentum"):
        ld.solve(ld.System(labelled, student, ld.SGD(0.1, momentum=0.5)), TIMES)
    with pytest.raises(ValueError, match="the noise of mixtures and of several outputs is not"):
        ld.solve(ld.System(labelled, student, ld.SGD(0.1)), TIMES, fluctuations=True)
    with pytest.raises(ValueError, match="targets: got shape"):
        ld.LabelledMixture(mixture, [1, -1])
    with pytest.raises(ValueError, match="network: got one scalar output; allowed here is 2"):
        ld.System(ld.LabelledMixture(mixture, np.eye(2)[[0, 0, 1, 1]]), student, ld.SGD(0.1))
    with pytest.raises(ValueError, match="covariances: got those of 2 clusters for means of 4"):
        ld.Mixture(CORNERS, [ld.Isotropic(30), ld.Isotropic(30)])
    with pytest.raises(ValueError, match="means: got 40 coordinates; allowed are at most 30"):
        ld.Mixture(np.ones((2, 40)), ld.Isotropic(30))


def test_a_mixture_is_written_and_read_back():
    for system in (xor(30), taught(30)):
        again = ld.System.from_json(system.to_json())
        assert again.to_json() == system.to_json()
        names = {"np": np, "ld": ld}
        exec(ld.code_of(system), names)  # a program of ours
        assert names["system"].to_json() == system.to_json()
