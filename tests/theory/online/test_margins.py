"""Averages with losses of margins against brute force, and against networks."""

import jax
import numpy as np
import pytest
import scipy

import learndyn as ld
from learndyn.simulation.one_step import measure_drift
from learndyn.theory.online import averages

ETA = 0.7
LOSSES = {"logistic": ld.Logistic(), "hinge": ld.Hinge(0.8), "cross-entropy": ld.CrossEntropy()}
PULLS = {
    "logistic": lambda z: 1 / (1 + np.exp(z)),
    "hinge": lambda z: (z <= 0.8) * 1.0,
    "cross-entropy": lambda z: 1 / (1 + np.exp(z)),
}


def system(loss, student, noise=0.0, N=60, spectrum=None, bias=None, rule=None):
    teacher = ld.Committee(1, "sign", biases=bias)
    spectrum = ld.Isotropic(N) if spectrum is None else spectrum
    problem = ld.TeacherStudent(spectrum, teacher, loss=loss, label_noise=noise)
    return ld.System(problem, student, ld.SGD(ETA) if rule is None else rule)


def by_dblquad(q, r, T, function, lines):
    """E[function(x, B)] over two correlated variables, with panels that end at the given lines."""
    std = np.sqrt(T - r**2 / q)
    x, w = np.polynomial.legendre.leggauss(60)

    def panels(edges):
        edges = np.sort(np.clip(edges, -9, 9))
        middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
        y = (middle[:, None] + half[:, None] * x).ravel()
        return y, (half[:, None] * w).ravel() * np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi)

    u, wu = panels(np.array([-9, -3, 0, 3, 9, *(np.array(lines) / np.sqrt(q))]))
    total = 0.0
    for ui, wi in zip(u, wu, strict=True):
        middle = r / np.sqrt(q) * ui
        v, wv = panels(np.array([-9, -3, 0, 3, 9, -middle / std]))
        total += wi * (wv @ function(np.sqrt(q) * ui, middle + std * v))
    return total


@pytest.mark.parametrize("name", LOSSES)
def test_one_unit_is_the_average_over_two_variables(name):
    """E[F B] = dR/η, and dQ/η = 2 E[F x] + η E[F²]."""
    q, r, T = 1.7, 0.9, 0.8
    theory = ld.theory_of(system(LOSSES[name], ld.Committee(1, "linear")))
    drift = theory.drift(ld.Overlaps([[q]], [[r]], [[T]]))
    F = lambda x, B: np.sign(B) * PULLS[name](x * np.sign(B))
    mean = lambda function: by_dblquad(q, r, T, function, [-0.8, 0.8])
    FB, Fx, FF = (mean(lambda x, B, k=k: F(x, B) * k(x, B)) for k in (
        lambda x, B: B, lambda x, B: x, F))  # fmt: skip
    np.testing.assert_allclose(drift.R.item(), ETA * FB, rtol=1e-9)
    np.testing.assert_allclose(drift.Q.item(), 2 * ETA * Fx + ETA**2 * FF, rtol=1e-9)


def sampled(K, sigma, g, slope, v, b, bias, pull, flip, count=400_000):
    """Means of F z and F F over samples, and their standard errors."""
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal(np.zeros(K + 1), sigma, size=count)
    x, B = z[:, :K] + b, z[:, K] + bias
    label = np.sign(B) * np.where(rng.random(count) < flip, -1, 1)
    output = g(x) @ v
    F = (v * slope(x)) * (label * pull(label * output))[:, None]
    products = F[:, :, None] * z[:, None, :], F[:, :, None] * F[:, None, :]
    return [(p.mean(0), p.std(0) / np.sqrt(count)) for p in products]


@pytest.mark.parametrize("name", ["logistic", pytest.param("hinge", marks=pytest.mark.slow)])
def test_two_units_with_biases_are_the_average_over_samples(name):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 5))
    sigma, v, b, bias = A @ A.T / 5, np.array([0.9, -0.6]), np.array([0.2, -0.3]), 0.4
    student = ld.Committee(2, "erf", outputs=v, biases=b, train=("inputs", "biases"))
    theory = ld.theory_of(system(LOSSES[name], student, noise=0.8, bias=[bias]))
    state = ld.Overlaps(sigma[:2, :2], sigma[:2, 2:], sigma[2:, 2:], biases=b)
    drift = theory.drift(ld.start(theory.system, state=state).state)
    flip = scipy.special.ndtr(-1 / 0.8)
    slope = lambda x: np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)
    g = lambda x: scipy.special.erf(x / np.sqrt(2))
    Fz, FF = sampled(2, sigma, g, slope, v, b, bias, PULLS[name], flip)
    assert np.all(abs(drift.R[0, :, 0] - ETA * Fz[0][:, 2]) < 4.5 * ETA * Fz[1][:, 2])
    mean = ETA * (Fz[0][:, :2] + Fz[0][:, :2].T) + ETA**2 * FF[0]
    error = 2 * ETA * Fz[1][:, :2].max() + ETA**2 * FF[1].max()
    # Quasi-random points, where the hinge jumps, have an error of their own.
    assert np.all(abs(drift.Q[0] - mean) < 4.5 * error + (2e-3 if name == "hinge" else 0))


@pytest.mark.parametrize("K", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_levels_step_as_the_drift_says(K):
    """The mean change of R in one step is the drift at every N, in every level."""
    spectrum = ld.Spectrum([1.6, 0.4], [20, 20])
    student = ld.Committee(K, "linear" if K == 1 else "tanh", train=("inputs", "outputs"))
    it = system(ld.Logistic(), student, spectrum=spectrum)
    start = ld.start(it, key=1)
    measured = measure_drift(it, start, trials=20_000, key=2)
    drift = ld.theory_of(it).drift(start.state)
    for part in ("R", "outputs"):
        mean, error = (np.asarray(getattr(m, part)) for m in (measured.mean, measured.error))
        assert np.all(abs(mean - getattr(drift, part)) < 4.5 * error), part


@pytest.mark.slow
def test_finer_quadrature_changes_nothing(monkeypatch):
    theory = ld.theory_of(system(ld.Logistic(), ld.Committee(2, "tanh")))
    state = ld.Overlaps([[1.5, 0.3], [0.3, 0.9]], [[0.7], [0.5]], [[1.0]])
    rough = theory.drift(state)
    monkeypatch.setattr(averages, "STEPS", {2: 0.2, 3: 0.3})
    jax.clear_caches()
    fine = theory.drift(state)
    assert np.any(rough.Q != fine.Q)  # so that the second was computed
    np.testing.assert_allclose(rough.Q, fine.Q, atol=1e-6)
    np.testing.assert_allclose(rough.R, fine.R, atol=1e-6)


def test_cross_entropy_of_one_output_is_the_logistic_loss():
    state = ld.Overlaps([[1.7]], [[0.9]], [[0.8]])
    both = [ld.theory_of(system(loss, ld.Committee(1, "linear"))).drift(state).Q
            for loss in (ld.Logistic(), ld.CrossEntropy())]  # fmt: skip
    np.testing.assert_array_equal(*both)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "hinge"])
def test_networks_follow_the_theory(name):
    """The deviation falls as 1/N: extrapolated from N and 2N it vanishes."""
    student, times, runs = ld.Committee(1, "linear"), [0.0, 2.0, 10.0], 800
    means = []
    state = ld.Overlaps([[1.0]], [[0.1]], [[1.0]])
    for N in (100, 200):
        it = system(LOSSES[name], student, noise=0.5, N=N)
        start = ld.start(it, state=state, key=2)
        record = ld.simulate(it, times, start=start, runs=runs, key=N, method="reduced")
        means.append((record.classification_error.values, record.error.values))
    theory = ld.solve(it, times, start=start)
    for a, b, exact in zip(*means, (theory.classification_error, theory.error), strict=True):
        estimate = 2 * b.mean(0) - a.mean(0)
        error = np.hypot(2 * b.std(0), a.std(0)) / np.sqrt(runs)
        assert np.all(abs(estimate - exact.values)[1:] < 4.5 * error[1:])


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (
            {"teacher": ld.Committee(2, "sign")},
            "the teacher of a loss of margins is not one 'sign'",
        ),
        ({"teacher": ld.Committee(1, "erf")}, "the teacher of a loss of margins is not one 'sign'"),
        (
            {"student": ld.Committee(4, "erf")},
            "the student has 4 units, and quadrature at most thr",
        ),
        (
            {"loss": ld.CrossEntropy(), "label_noise": 0.1},
            "labels are not ±1, as CrossEntropy need",
        ),
        ({"student": ld.Committee(1, "erf", trainable=5)}, "some directions are not trained"),
    ],
)
def test_the_rest_is_refused_with_the_reason(problem, reason):
    student = problem.pop("student", ld.Committee(1, "linear"))
    teacher = problem.pop("teacher", ld.Committee(1, "sign"))
    problem.setdefault("loss", ld.Logistic())
    data = ld.TeacherStudent(ld.Isotropic(10), teacher, **problem)
    with pytest.raises(ld.NoTheory, match=f"online: .*{reason}"):
        ld.theory_of(ld.System(data, student, ld.SGD(0.1)))


def test_jumps_that_no_panel_ends_at_are_approximate():
    level = lambda loss, student: (
        ld.theory_of(system(loss, student)).covers(system(loss, student)).level
    )
    assert level(ld.Hinge(), ld.Committee(1, "linear")) == "exact"
    assert level(ld.Logistic(), ld.Committee(2, "erf")) == "exact"
    assert level(ld.Hinge(), ld.Committee(2, "erf")) == "approximate"
