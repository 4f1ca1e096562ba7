"""Committees with several outputs: units on their own, brute force, and real networks."""

import numpy as np
import pytest
import scipy

import learndyn as ld

TIMES = np.array([0.0, 1.0, 2.0])
V = np.array([[0.9, -0.5, 0.3], [-0.4, 0.7, 0.2]])
LABELS = np.array([[1.0, 0.2, -0.4], [-0.3, 0.9, 0.5]])
BIASES, TEACHER_BIASES = np.array([0.2, -0.1]), np.array([0.1, -0.2])
ALL = ("inputs", "outputs", "biases")
RATES = {"output_rate": 0.3, "bias_rate": 0.2, "decay": 0.1, "output_decay": 0.05}
GRAM = np.array(
    [[1.2, 0.3, 0.1, 0.2], [0.3, 0.8, -0.2, 0.1], [0.1, -0.2, 1.1, 0], [0.2, 0.1, 0, 0.9]]
)


def several(N, batch=1, **more):
    """Three outputs, everything trained, scales, noise, and a loss of another scale."""
    teacher = ld.Committee(2, "erf", outputs=LABELS, biases=TEACHER_BIASES, scale=0.8)
    problem = ld.TeacherStudent(ld.Isotropic(N), teacher, label_noise=0.2, loss_scale=0.7)
    student = ld.Committee(2, "erf", outputs=V, biases=BIASES, train=ALL, scale=1.2)
    return ld.System(problem, student, ld.SGD(0.4, batch=batch, **RATES, **more))


def state():
    return ld.Overlaps(GRAM[:2, :2], GRAM[:2, 2:], GRAM[2:, 2:], outputs=V, biases=BIASES)


def numbers(record):
    last = record.isel(time=slice(1, None))
    lead = last.error.shape[:-1]
    names = ("Q", "R", "outputs", "biases", "error")
    return np.concatenate([last[n].values.reshape(*lead, -1) for n in names], axis=-1)


def test_units_with_orthonormal_output_weights_learn_as_if_alone():
    """δ_i = g'_i v_i·Δ has no term of the other unit: Q_ii and R_ii are those of one unit."""
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    system = lambda units, outputs: ld.System(
        ld.TeacherStudent(ld.Isotropic(100), ld.Committee(units, "erf", outputs=outputs)),
        ld.Committee(units, "erf", outputs=outputs),
        ld.SGD(0.7),
    )
    pair = ld.Overlaps([[0.3, 0.1], [0.1, 0.5]], np.diag([0.2, -0.1]), np.eye(2))
    both, single = ld.theory_of(system(2, turn)), ld.theory_of(system(1, None))
    alone = [ld.Overlaps([[pair.Q[0, i, i]]], [[pair.R[0, i, i]]], [[1.0]]) for i in range(2)]
    for order in ("full", "flow"):
        found = both.drift(pair, order)
        for i, state in enumerate(alone):
            expected = single.drift(state, order)
            np.testing.assert_allclose(found.Q[0, i, i], expected.Q.item(), rtol=1e-7)
            np.testing.assert_allclose(found.R[0, i, i], expected.R.item(), rtol=1e-7)
    errors = [single.observe(state)["error"] for state in alone]
    np.testing.assert_allclose(both.observe(pair)["error"], sum(errors), rtol=1e-7)


def test_the_drift_is_the_average_over_samples():
    """Brute force over the four pre-activations, drawn by NumPy alone."""
    system, count = several(1000), 400_000
    drift = ld.theory_of(system).drift(ld.start(system, state=state()).state)
    rng = np.random.default_rng(3)
    z = rng.multivariate_normal(np.zeros(4), GRAM, size=count)
    g = lambda x: scipy.special.erf(x / np.sqrt(2))
    x, y = z[:, :2] + BIASES, z[:, 2:] + TEACHER_BIASES
    noise = 0.2 * rng.standard_normal((count, 3))
    e = 0.8 * g(y) @ LABELS + noise - 1.2 * g(x) @ V
    F = 2 * 0.7 * 1.2 * np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2) * (e @ V.T)
    along = 0.4 * F[:, :, None] * z[:, None]
    Q, R = along[:, :, :2], along[:, :, 2:]
    Q = Q + Q.swapaxes(1, 2) + 0.4**2 * F[:, :, None] * F[:, None]
    outputs = 0.3 * 2 * 0.7 * 1.2 * g(x)[:, :, None] * e[:, None]
    decayed = {"Q": 0.2 * GRAM[:2, :2], "R": 0.1 * GRAM[:2, 2:], "outputs": 0.05 * V, "biases": 0}
    for name, samples in {"Q": Q, "R": R, "outputs": outputs, "biases": 0.2 * F}.items():
        own = np.asarray(getattr(drift, name)).reshape(samples.shape[1:]) + decayed[name]
        error = samples.std(0) / np.sqrt(count)
        assert np.max(np.abs(samples.mean(0) - own) / error) < 4.5, name


@pytest.mark.parametrize("batch", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_chain_is_that_of_real_networks(batch):
    system, runs = several(20, batch), 400
    start = ld.start(system, state=state(), key=2)
    chain, real = (
        numbers(
            ld.simulate(system, TIMES, start=start, runs=runs, key=1, method=m, dtype="float64")
        )
        for m in ("reduced", "direct")
    )
    error = np.sqrt((chain.var(0) + real.var(0)) / runs)
    assert np.abs((chain.mean(0) - real.mean(0)) / error).max() < 4.5
    np.testing.assert_allclose(chain.std(0), real.std(0), rtol=5 / np.sqrt(runs))


@pytest.mark.slow
def test_networks_approach_the_theory_as_1_over_N():
    means, errors, runs = [], [], 3000
    for N in (100, 200):
        system = several(N)
        start = ld.start(system, state=state())
        options = {"runs": runs, "key": N, "method": "reduced"}
        found = numbers(ld.simulate(system, TIMES, start=start, **options))
        means.append(found.mean(0))
        errors.append(found.std(0) / np.sqrt(runs))
    theory = numbers(ld.solve(system, TIMES, start=start))
    extrapolated, error = 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])
    left = np.abs(means[0] - theory).max() / 5  # of order 1/N²
    assert np.abs(extrapolated - theory).max() < 4.5 * error.max() + left


def test_a_single_column_is_one_output():
    """A matrix with one column is the vector of output weights, in another theory."""
    state = ld.Overlaps(GRAM[:2, :2], GRAM[:2, 2:], GRAM[2:, 2:])
    drifts, names = [], []
    for outputs in (np.array([0.7, -0.4]), np.array([[0.7], [-0.4]])):
        net = ld.Committee(2, "erf", outputs=outputs)
        problem = ld.TeacherStudent(ld.Isotropic(50), net, label_noise=0.3)
        theory = ld.theory_of(ld.System(problem, net, ld.SGD(0.6)))
        drifts.append(theory.drift(state))
        names.append(theory.name)
    assert names == ["committee", "general committee"]
    for name in ("Q", "R"):
        np.testing.assert_allclose(*(getattr(drift, name) for drift in drifts), rtol=1e-9)


def test_outputs_are_labelled_written_and_read_back():
    system = several(30)
    again = ld.System.from_json(system.to_json())
    assert again.to_json() == system.to_json() and repr(again) == repr(system)
    assert ld.theory_of(system).variables["outputs"].dims == ("student", "output")


def test_outputs_that_do_not_fit_are_refused():
    teacher = ld.TeacherStudent(ld.Isotropic(10), ld.Committee(2, "erf", outputs=LABELS))
    with pytest.raises(ValueError, match="network: got one scalar output; allowed here is 3"):
        ld.System(teacher, ld.Committee(2, "erf"), ld.SGD(0.1))
    with pytest.raises(ValueError, match="outputs: got shape"):
        ld.Committee(2, "erf", outputs=np.ones((3, 2)))
    student = ld.Committee(2, "erf", outputs=V)
    with pytest.raises(ld.NoTheory, match="general committee: the rule has momentum"):
        ld.theory_of(ld.System(teacher, student, ld.SGD(0.1, momentum=0.5)))
    moving = ld.TeacherStudent(
        ld.Isotropic(10), ld.Committee(2, "erf", outputs=LABELS), drift=ld.Drift(diffusion=0.5)
    )
    with pytest.raises(ld.NoTheory, match="general committee: the teacher moves"):
        ld.theory_of(ld.System(moving, student, ld.SGD(0.1)))
