"""Committee equations: reference numbers, brute-force averages, closed forms, limits."""

import json
import pathlib

import numpy as np
import optax
import pytest

import learndyn as ld
from learndyn.networks import AbstractInitialisation
from learndyn.simulation import measure_drift

REFERENCE = json.loads((pathlib.Path(__file__).parent / "reference.json").read_text())


def quadratic(p, p_star, eta, N=1000, **problem):
    teacher = ld.Committee(p_star, "quadratic", scale=1 / p_star, init=ld.Orthonormal(1.0))
    data = ld.TeacherStudent(ld.Isotropic(N), teacher, loss_scale=1.0, **problem)
    student = ld.Committee(p, "quadratic", scale=1 / p, init=ld.Orthonormal(1.0))
    return ld.System(data, student, ld.SGD(eta))


def soft(K, M, eta, lam, phi, N=1000):
    counts = np.rint(np.array(phi) * N).astype(int)
    data = ld.TeacherStudent(ld.Spectrum(lam, counts), ld.Committee(M, "erf", scale=M**-0.5))
    return ld.System(data, ld.Committee(K, "erf", scale=M**0.5 / K), ld.SGD(eta))


@pytest.mark.parametrize("case", REFERENCE["quadratic_field"], ids=lambda c: f"p{c['p']}")
def test_quadratic_vector_field(case):
    theory = ld.theory_of(quadratic(case["p"], case["pstar"], case["eta"]))
    state = ld.Overlaps(case["Q"], case["rho"], case["T"])
    full, flow = theory.drift(state), theory.drift(state, order="flow")
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    close(full.R[0], case["drho_dalpha"])
    close(full.Q[0], case["dQ_dalpha_full"])
    close(flow.Q[0], case["dQ_dalpha_order_eta"])
    close(theory.observe(state)["error"], case["risk"])
    assert not np.any(full.T)


@pytest.mark.parametrize("case", REFERENCE["erf_field"], ids=lambda c: f"K{c['K']}")
def test_erf_vector_field_by_level(case):
    theory = ld.theory_of(soft(*(case[k] for k in ("K", "M", "eta", "lam", "phi"))))
    state = ld.Overlaps(case["q"], case["r"], case["t"])
    full, flow = theory.drift(state), theory.drift(state, order="flow")
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)
    close(full.R, case["dr"])
    close(full.Q, case["dq_full"])
    close(flow.Q, case["dq_order_eta"])
    close(theory.observe(state)["error"], case["eps_g"])


@pytest.mark.parametrize("case", REFERENCE["quadratic_ode"], ids=lambda c: f"p{c['p']}")
def test_quadratic_solution(case):
    system = quadratic(case["p"], case["pstar"], case["eta"])
    begin = ld.start(system, state=ld.Overlaps(case["Q0"], case["rho0"], case["T"]))
    record = ld.solve(system, case["alphas"], start=begin, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(record.R, case["rho"], atol=1e-8)
    np.testing.assert_allclose(record.Q, case["Q"], atol=1e-8)
    np.testing.assert_allclose(record.error, case["risk"], rtol=1e-6)


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=f"L{len(c['lam'])}", marks=[pytest.mark.slow] * (i > 0))
     for i, c in enumerate(REFERENCE["erf_ode"])],
)  # fmt: skip
def test_erf_solution_by_level(case):
    system = soft(*(case[k] for k in ("K", "M", "eta", "lam", "phi")))
    begin = ld.start(system, state=ld.Overlaps(case["q0"], case["r0"], case["t"]))
    record = ld.solve(system, case["alphas"], start=begin, rtol=1e-10, atol=1e-13)
    lam = np.array(case["lam"])[None, :, None, None]
    np.testing.assert_allclose(record.R, np.sum(lam * case["r"], axis=1), atol=1e-7)
    np.testing.assert_allclose(record.Q, np.sum(lam * case["q"], axis=1), atol=1e-7)
    np.testing.assert_allclose(record.error, case["eps_g"], rtol=1e-6, atol=1e-9)


def test_linear_student_decays_as_the_closed_form_says():
    # K = M = 1, isotropic: d error/dα = (−2 s + s²) error with s = 2 · loss_scale · η.
    teacher = ld.Committee(1, "linear", init=ld.Typical())
    data = ld.TeacherStudent(ld.Isotropic(100), teacher, label_noise=0.3)
    eta, noise = 0.4, 0.3
    system = ld.System(data, ld.Committee(1, "linear"), ld.SGD(eta))
    begin = ld.start(system, state=ld.Overlaps([[0.7]], [[0.2]], [[1.0]]))
    times = np.linspace(0, 20, 11)
    error = ld.solve(system, times, start=begin).error.values
    rate = 2 * eta - eta**2
    floor = eta**2 * noise**2 / 2 / rate
    first = (0.7 - 2 * 0.2 + 1.0) / 2
    np.testing.assert_allclose(error, floor + (first - floor) * np.exp(-rate * times), rtol=1e-7)
    assert ld.theory_of(system).landmarks()["critical_learning_rate"] == pytest.approx(2.0)


@pytest.mark.statistical
@pytest.mark.parametrize("activation", ["linear", "erf", "quadratic"])
@pytest.mark.parametrize("levels", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_drift_is_the_average_of_real_steps(activation, levels):
    """Brute force: 40000 single SGD steps of weights of size 200, averaged."""
    N, eta, trials = 200, 0.8, 40_000
    spectrum = ld.Isotropic(N) if levels == 1 else ld.Spectrum([1.6, 0.4], [100, 100])
    teacher = ld.Committee(2, activation, scale=0.6)
    data = ld.TeacherStudent(spectrum, teacher, label_noise=0.4, loss_scale=0.7)
    system = ld.System(data, ld.Committee(3, activation, scale=0.5), ld.SGD(eta, batch=2))
    begin, theory = ld.start(system, key=5), ld.theory_of(system)
    drawn = measure_drift(system, begin, trials=trials, key=11)
    full, flow = theory.drift(begin.state), theory.drift(begin.state, order="flow")
    # The ODE leaves out terms of relative order 1/N of the η² part (1 + 6/N for squares).
    finite_size = 20 / N * np.abs(full.Q - flow.Q).max()
    for name, bias in (("Q", finite_size), ("R", 0.0)):
        mean, error, predicted = (getattr(x, name) for x in (drawn.mean, drawn.error, full))
        assert np.all(np.abs(mean - predicted) < 4.5 * error + bias)


def test_levels_of_nearly_equal_eigenvalue_are_one_level():
    N = 400
    teacher = ld.Committee(2, "erf")
    make = lambda s: ld.System(ld.TeacherStudent(s, teacher), ld.Committee(3, "erf"), ld.SGD(0.7))
    two, one = make(ld.Spectrum([1 + 1e-12, 1.0], [100, 300])), make(ld.Isotropic(N))
    state = ld.start(two, key=2).state
    summed = ld.Overlaps(*(np.sum(a, axis=0) for a in (state.Q, state.R, state.T)))
    split, whole = ld.theory_of(two).drift(state), ld.theory_of(one).drift(summed)
    np.testing.assert_allclose(split.Q.sum(0), whole.Q[0], atol=1e-11)
    np.testing.assert_allclose(split.R.sum(0), whole.R[0], atol=1e-11)


def test_asymmetry_of_rounding_does_not_grow():
    """With η² terms an asymmetric Q would destroy this run near t = η α = 250."""
    system = quadratic(6, 3, 0.3)
    rho = 0.01 * np.random.default_rng(0).standard_normal((6, 3))
    begin = ld.start(system, state=ld.Overlaps(np.eye(6), rho, np.eye(3)))
    record = ld.solve(system, [400 / 0.3, 800 / 0.3], start=begin)
    assert str(record.outcome.values) == "finished"
    np.testing.assert_array_equal(record.Q, record.Q.transpose("time", "student'", "student"))
    # R ∝ t^-2: doubling the time quarters it, up to corrections of relative order 1/t.
    assert float(record.error[0] / record.error[1]) == pytest.approx(4, rel=0.1)


@pytest.mark.slow
def test_population_gradient_descent_follows_the_flow():
    system = quadratic(3, 2, 0.2, N=300)
    descent = ld.System(system.problem, system.network, ld.GradientDescent(0.2))
    begin, times = ld.start(descent, key=1), [0, 5, 20, 40]
    flow = ld.solve(system, times, start=begin, order="flow")
    np.testing.assert_allclose(ld.solve(descent, times, start=begin).R, flow.R, rtol=1e-6)
    steps = ld.simulate(descent, times, start=begin, dtype="float64")
    # Steps of relative size η · rate / N: first order in 1/N.
    np.testing.assert_allclose(steps.R[0], flow.R, atol=0.05)


def test_scales_and_norms_carry_landmarks_over():
    """Another student scale, teacher norm, loss scale and batch: fixed points still fixed."""
    teacher = ld.Committee(2, "quadratic", scale=0.3, init=ld.Orthonormal(1.3))
    data = ld.TeacherStudent(ld.Spectrum([1.7], [500]), teacher, loss_scale=0.5)
    student = ld.Committee(3, "quadratic", scale=0.8)
    system = ld.System(data, student, ld.SGD(0.02, batch=2))
    theory, found = ld.theory_of(system), ld.theory_of(system).landmarks()
    for order, name in (("flow", "norm_fixed_point"), ("full", "plateau_norm")):
        state = ld.Overlaps(found[name] * np.eye(3), np.zeros((3, 2)), 1.69 * np.eye(2))
        assert np.abs(theory.drift(state, order=order).Q).max() < 1e-14
    assert theory.observe(
        ld.Overlaps(found["norm_fixed_point"] * np.eye(3), np.zeros((3, 2)), 1.69 * np.eye(2))
    )["error"] == pytest.approx(found["plateau_error"])
    tiny = ld.Overlaps(found["plateau_norm"] * np.eye(3), np.full((3, 2), 1e-9), 1.69 * np.eye(2))
    rate = theory.drift(tiny).R[0] / 1e-9 / 0.02
    np.testing.assert_allclose(rate, found["plateau_growth_rate"], rtol=1e-6)


def test_no_theory_says_why():
    data = ld.TeacherStudent(ld.Isotropic(10), ld.Committee(1, "erf"))
    system = ld.System(data, ld.Committee(1, "erf"), ld.NodePerturbation(0.1))
    with pytest.raises(ld.NoTheory, match="committee: the rule is NodePerturbation, not SGD"):
        ld.solve(system, [0, 1])
    adam = ld.System(data, ld.Committee(1, "erf"), ld.Optax(optax.adam(0.1)))
    with pytest.raises(ld.NoTheory, match="committee: the rule is Optax, not SGD: rules such as A"):
        ld.solve(adam, [0, 1])


def test_state_is_conserved_only_where_theory_says():
    system = quadratic(3, 2, 0.1)
    theory = ld.theory_of(system)
    rho = 0.1 * np.random.default_rng(1).standard_normal((3, 2))
    assert set(theory.invariants(ld.Overlaps(np.eye(3), rho, np.eye(2)))) == {"S"}
    assert theory.invariants(ld.Overlaps(np.diag([0.5, 1, 1.5]), rho, np.eye(2))) == {}


class Leaning(AbstractInitialisation):
    """A user's law: rows that share a direction, and so overlap."""

    lean: float = 0.6

    @property
    def variance(self):
        return 1.0

    def sample(self, rng, units, dim):
        shared, own = rng.standard_normal((1, dim)), rng.standard_normal((units, dim))
        return self.lean * shared + np.sqrt(1 - self.lean**2) * own


class Halved(ld.Normal):
    """A subclass of a known law that samples otherwise."""

    def sample(self, rng, units, dim):
        return super().sample(rng, units, dim) / 2


LEVELS = ld.Spectrum([2.0, 0.7], [3, 27])  # the first with fewer dimensions than there are rows


def drawn_from(init, teacher, inputs=LEVELS):
    data = ld.TeacherStudent(inputs, ld.Committee(2, "erf", scale=0.7, init=teacher))
    return ld.System(data, ld.Committee(2, "erf", scale=0.7, init=init), ld.SGD(0.5))


@pytest.mark.parametrize("teacher", [ld.Normal(1.0), ld.Typical(), Leaning()], ids=repr)
@pytest.mark.parametrize(
    "init", [ld.Normal(0.5), ld.Orthonormal(0.5), ld.Typical(), Leaning(), Halved(1.0)], ids=repr
)
def test_every_law_of_rows_has_a_start(init, teacher):
    """The state is that of the weights, in a rotated frame too."""
    rng = np.random.default_rng(0)
    frame = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    wide = ld.Spectrum([2.0, 0.7], [10, 20])
    for inputs in (wide, ld.Gaussian(wide, frame=frame)):
        system = drawn_from(init, teacher, inputs)
        begin = ld.start(system, key=1)
        again = ld.theory_of(system).project(begin.weights, begin.teacher)
        np.testing.assert_allclose(again.gram, begin.state.gram, atol=1e-12)
        assert begin.weights.shape == begin.teacher.shape == (2, 30)
    if isinstance(teacher, ld.Typical):
        np.testing.assert_allclose(begin.state.T, [np.eye(2) / 3, np.eye(2) * 2 / 3], atol=1e-12)


def test_laws_of_your_own_are_sampled_not_replaced():
    """Mean overlaps over 100 draws: those of the law's `sample`, in standard errors."""
    starts = [ld.start(drawn_from(Halved(1.0), Leaning()), key=key).state for key in range(100)]
    for found, expected in (
        ([float(s.Q.sum(axis=0)[0, 0]) for s in starts], 0.25),
        ([float(s.T.sum(axis=0)[0, 1]) for s in starts], 0.36),
    ):
        assert abs(np.mean(found) - expected) < 4 * np.std(found) / np.sqrt(100)


def test_a_law_of_your_own_is_solved_and_simulated_by_both_engines():
    system, times = drawn_from(Leaning(), Leaning(0.3)), np.array([0.0, 1.0])
    begin = ld.start(system, key=2)
    theory = ld.solve(system, times, key=2)
    runs = {
        method: ld.simulate(system, times, key=2, runs=200, method=method, dtype="float64").error
        for method in ("direct", "reduced")
    }
    first = ld.theory_of(system).observe(begin.state)["error"]
    assert float(theory.error[0]) == pytest.approx(float(first), rel=1e-12)
    for error in runs.values():
        np.testing.assert_allclose(error[:, 0], first, rtol=1e-10)
    last = {method: error.values[:, -1] for method, error in runs.items()}
    spread = np.sqrt(sum(np.var(each) / 200 for each in last.values()))
    assert abs(last["direct"].mean() - last["reduced"].mean()) < 4 * spread
    assert abs(last["direct"].mean() / first - 1) > 0.05  # it has moved


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: ld.start(drawn_from(Misshapen(), ld.Normal(1.0))),
            "Misshapen.sample: got shape (30, 2); allowed is (units, dim) = (2, 30)",
        ),
        (
            lambda: ld.start(drawn_from(Leaning(np.nan), ld.Normal(1.0))),
            "Leaning.sample: ",
        ),
        (
            lambda: ld.start(drawn_from(Leaning(), ld.Typical(), ld.Spectrum([2.0, 0.9], [1, 29]))),
            "init: got Typical() with 2 units, but a level of 1 dimensions; allowed are at most 1",
        ),
    ],
)
def test_laws_whose_rows_are_wrong_are_refused_in_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*; allowed [^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)


class Misshapen(Leaning):
    """A law whose rows are columns."""

    def sample(self, rng, units, dim):
        return super().sample(rng, dim, units)
