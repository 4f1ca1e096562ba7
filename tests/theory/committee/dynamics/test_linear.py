"""The linear student: closed form against the integrated equations, references and real steps."""

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import learndyn as ld
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.setting import CommitteeSetting

TIMES = np.array([0.0, 0.1, 1.0, 5.0, 20.0])


def system(L, K, M, *, rule=None, noise=0.2, N=None, trainable=None):
    spectrum = ld.PowerLaw(100 * L if N is None else N, L, 1.0)
    teacher = ld.Committee(M, "linear", scale=0.5, init=ld.Normal(1.3))
    data = ld.TeacherStudent(spectrum, teacher, label_noise=noise, loss_scale=0.7)
    student = ld.Committee(K, "linear", scale=0.6, init=ld.Normal(0.5), trainable=trainable)
    return ld.System(data, student, ld.SGD(0.3, batch=2) if rule is None else rule)


def paper(L, beta, eta, sigma_J, N=None, K=1):
    """The scales of worschech2024scaling, K = M."""
    spectrum = ld.PowerLaw(L if N is None else N, L, beta)
    data = ld.TeacherStudent(spectrum, ld.Committee(K, "linear", scale=K**-0.5))
    init = ld.Normal(sigma_J)
    return ld.System(data, ld.Committee(K, "linear", scale=K**-0.5, init=init), ld.SGD(eta))


def field(setting, gram, noisy):
    """d C_l/dα, written out for linear units: D_ij = c_j, Ω_ij = cᵀΣc + label_noise²."""
    (problem, student, teacher, rule, spectrum, _), K = setting, setting.student.units
    a, b = float(student.scale), float(teacher.scale)
    c = np.array([-a] * K + [b] * teacher.units)
    lam = spectrum.values[:, None, None]
    h = 2 * float(problem.loss_scale) * float(rule.learning_rate) * a * np.ones_like(lam)
    if student.trainable is not None:
        h[np.cumsum(spectrum.counts) > student.trainable] = 0.0
    rows = np.zeros((len(c), 1))
    rows[:K] = 1.0
    drift = h * lam * (rows @ (c @ gram)[:, None, :])
    total = c @ np.sum(lam * gram, axis=0) @ c + float(problem.label_noise) ** 2
    phi = (spectrum.counts / spectrum.dim)[:, None, None]
    noise = h**2 * lam * phi * total * (rows @ rows.T) / rule.batch if noisy else 0.0
    return drift + drift.swapaxes(1, 2) + noise


def integrated(field, start, times):
    """By DOP853, ending on every time: its interpolant loses digits between steps."""
    flat, states = lambda t, y: field(y.reshape(start.shape)).ravel(), [start]
    for first, last in itertools.pairwise(times):
        begin = states[-1].ravel()
        found = solve_ivp(flat, (first, last), begin, "DOP853", rtol=1e-11, atol=1e-13)
        states.append(found.y[:, -1].reshape(start.shape))
    return np.array(states)


@pytest.mark.parametrize("order", ["full", "flow"])
@pytest.mark.parametrize(("K", "M"), [(1, 1), (3, 2)])
@pytest.mark.parametrize(("L", "learning"), [(1, 1), (4, 4), (4, 2), (64, 64)])
def test_closed_form_solves_the_equations(L, learning, K, M, order):
    """Against DOP853 on the overlaps, at a tolerance far below the 1e-8 that is asked for."""
    one = system(L, K, M, trainable=100 * learning)
    setting, state = CommitteeSetting.of(one), ld.start(one, key=1).state
    gram, noisy = state.gram, order == "full"
    rate = ld.theory_of(one).drift(state, order)
    np.testing.assert_allclose(field(setting, gram, noisy)[:, :K, :K], rate.Q, atol=1e-13)
    np.testing.assert_allclose(field(setting, gram, noisy)[:, :K, K:], rate.R, atol=1e-13)
    found = integrated(lambda C: field(setting, C, noisy), gram, TIMES)
    C = np.einsum("l,tlij->tij", setting.spectrum.values, found)
    curve = linear.curve(setting, state, TIMES, order)
    np.testing.assert_allclose(curve["Q"], C[:, :K, :K], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(curve["R"], C[:, :K, K:], rtol=1e-8, atol=1e-9)
    c = np.array([-0.6] * K + [0.5] * M)
    np.testing.assert_allclose(curve["error"], 0.7 * C @ c @ c, rtol=1e-8, atol=1e-9)


def test_one_level_decays_with_one_rate():
    rule = ld.SGD(0.4)
    one = system(1, 1, 1, rule=rule, noise=0.3)
    state = ld.Overlaps([[0.7]], [[0.2]], [[1.0]])
    s = 2 * 0.7 * 0.4 * 0.6**2
    rate, first = 2 * s - s**2, 0.36 * 0.7 - 2 * 0.3 * 0.2 + 0.25
    floor = s**2 * 0.3**2 / rate
    found = linear.curve(CommitteeSetting.of(one), state, TIMES)
    expected = 0.7 * (floor + (first - floor) * np.exp(-rate * TIMES))
    np.testing.assert_allclose(found["error"], expected, rtol=1e-13)
    R = 0.2 + (1 - np.exp(-s * TIMES)) * (0.5 - 0.6 * 0.2) / 0.6
    np.testing.assert_allclose(found["R"][:, 0, 0], R, rtol=1e-13)


def test_population_gradient_has_no_sampling_term():
    one = system(4, 3, 2, rule=ld.GradientDescent(0.3))
    setting, state = CommitteeSetting.of(one), ld.start(one, key=2).state
    full, flow = (linear.curve(setting, state, TIMES, order) for order in ("full", "flow"))
    assert all(np.array_equal(full[name], flow[name]) for name in full)
    assert linear.critical_learning_rate(setting) == np.inf


REFERENCE = [
    # L, β, η, σ_J², then α, Eq. 8 and Eq. 6 corrected.
    (
        (128, 1.0, 1.0, 1.0),
        (1.0, 5.0, 20.0, 100.0),
        (0.038550837289941305, 0.014680112525987183, 0.0052101440067536964, 0.0007305247234814903),
        (0.07745560578462028, 0.02963755637374175, 0.010539489168568759, 0.0014818920715725854),
    ),
    (
        (4, 1.0, 0.7, 0.3),
        (0.0, 0.5, 1.0, 2.0, 5.0),
        (0.65, 0.19969443008171078, 0.10671610568688038, 0.0547625692534963, 0.014886850247175409),
        (0.65, 0.29425822205352115, 0.17815050073569777, 0.09583331776262013, 0.02809155908380904),
    ),
]


@pytest.mark.parametrize(("case", "alphas", "eq8", "eq6"), REFERENCE)
@pytest.mark.parametrize("K", [1, 3])
def test_mean_over_teacher_and_student(case, alphas, eq8, eq6, K):
    L, beta, eta, variance = case
    setting = CommitteeSetting.of(paper(L, beta, eta, np.sqrt(variance), K=K))
    full, flow = (
        linear.mean_curve(setting, list(alphas), order)["error"] for order in ("full", "flow")
    )
    np.testing.assert_allclose(full, eq6, rtol=1e-10)
    np.testing.assert_allclose(flow, eq8, rtol=1e-10)


def test_mean_curve_is_the_mean_of_curves():
    one = system(4, 2, 3, N=40)
    setting, keys = CommitteeSetting.of(one), range(400)
    drawn = [linear.curve(setting, ld.start(one, key=k).state, TIMES) for k in keys]
    mean = linear.mean_curve(setting, TIMES)
    for name, expected in mean.items():
        values = np.array([curve[name] for curve in drawn])
        error = values.std(axis=0, ddof=1) / np.sqrt(len(keys))
        assert np.all(np.abs(values.mean(axis=0) - expected) < 4.5 * error)


def test_modes_sum_to_the_corrected_equation_6():
    (L, beta, eta, variance), alphas, _, eq6 = REFERENCE[0]
    spectrum = ld.PowerLaw(L, L, beta)
    rates, b, weights = linear.modes(spectrum, eta)
    decay = np.exp(-2 * eta * np.outer(alphas, rates))
    np.testing.assert_allclose((1 + variance) / 2 * decay @ weights, eq6, rtol=1e-10)
    np.testing.assert_allclose(weights, 2 / (2 - eta) * b * rates, rtol=1e-9)
    np.testing.assert_allclose(b.sum(), 1.0, rtol=1e-13)
    assert np.all(np.diff(rates) < 0) and np.all(rates < spectrum.values)


def test_modes_are_those_of_the_paper_s_matrix():
    """B = 2 A_1 + η U in the basis of moments e^(l) = Σ λ^l e_l, which Cayley-Hamilton closes."""
    L, eta = 4, 0.8
    spectrum = ld.PowerLaw(L, L, 0.5)
    moments = np.vander(spectrum.values, L + 1, increasing=True).mean(axis=0)
    B = -2 * np.eye(L, k=1)
    B[-1] = 2 * np.poly(spectrum.values)[::-1][:L]  # λ^L = −Σ_j c_j λ^j
    B[:, 1] += eta * moments[1:]
    values, W = np.linalg.eig(B)
    order = np.argsort(values.real)
    b = np.linalg.solve(W[:, order] / W[0, order], moments[:L])
    found = linear.modes(spectrum, eta)
    np.testing.assert_allclose(-2 * found.rates, values[order], rtol=1e-9)
    np.testing.assert_allclose(found.b, b, rtol=1e-9)


@pytest.mark.parametrize("rule", [ld.SGD(1.0), ld.SGD(1.0, batch=5)])
def test_error_grows_beyond_the_critical_learning_rate(rule):
    critical = linear.critical_learning_rate(CommitteeSetting.of(system(16, 3, 2, rule=rule)))
    for factor, sign in ((1 - 1e-6, 1), (1 + 1e-6, -1)):
        tuned = ld.SGD(factor * critical, batch=rule.batch)
        setting = CommitteeSetting.of(system(16, 3, 2, rule=tuned))
        slowest = linear.modes(setting.spectrum, linear.strength(setting) / rule.batch).rates[-1]
        assert np.sign(slowest) == sign
    # Levels that do not learn do not count.
    half = CommitteeSetting.of(system(16, 3, 2, rule=rule, trainable=800))
    share = half.spectrum.values[:8].sum() / half.spectrum.values.sum()
    assert linear.critical_learning_rate(half) == pytest.approx(critical / share, rel=1e-13)
    # One level: the critical rate of the isotropic theory.
    single = system(1, 3, 2, rule=rule)
    landmark = ld.theory_of(single).landmarks()["critical_learning_rate"]
    assert linear.critical_learning_rate(CommitteeSetting.of(single)) == pytest.approx(
        landmark, rel=1e-14
    )


def test_divergence_is_infinite_and_not_an_error():
    setting = CommitteeSetting.of(system(4, 3, 2, rule=ld.SGD(30.0)))
    found = linear.curve(setting, linear.mean_state(setting), [0.0, 0.1, 1e4])
    assert np.isfinite(found["error"][1]) and found["error"][2] == np.inf
    assert np.all(np.isfinite(found["R"]))


def finite_map(setting):
    """The mean of e_l over one step, as the docstring of `finite_size_margin` states it."""
    s, lam, counts = linear.strength(setting), setting.spectrum.values, setting.spectrum.counts
    N, share = setting.spectrum.dim, 1 / setting.rule.batch
    own = 1 - 2 * s / N * lam + (s / N) ** 2 * (1 + share) * lam**2
    return np.diag(own) + (s / N) ** 2 * share * np.outer(counts * lam, lam)


@pytest.mark.statistical
@pytest.mark.parametrize("batch", [1, 3])
def test_finite_map_is_the_mean_of_real_steps(batch):
    N, trials, rng = 6, 200_000, np.random.default_rng(8)
    data = ld.TeacherStudent(ld.Spectrum([2.0, 0.5], [2, 4]), ld.Committee(1, "linear"))
    setting = CommitteeSetting.of(
        ld.System(data, ld.Committee(1, "linear"), ld.SGD(0.9, batch=batch))
    )
    E = rng.standard_normal(N)
    x = rng.standard_normal((trials, batch, N)) * np.sqrt([2.0] * 2 + [0.5] * 4)
    after = E - 0.9 / N * np.mean(x * (x @ E)[..., None], axis=1)
    by_level = lambda v: np.stack([np.sum(v[..., :2] ** 2, -1), np.sum(v[..., 2:] ** 2, -1)], -1)
    drawn = by_level(after) / N
    error = drawn.std(axis=0) / np.sqrt(trials)
    assert np.all(np.abs(drawn.mean(axis=0) - finite_map(setting) @ by_level(E) / N) < 4.5 * error)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("eta", [0.1, 1.0, 1.3, 1.45, 3.0, 8.0])
def test_finite_size_margin_is_the_border_of_the_map(eta, batch):
    one = paper(32, 1.0, eta, 1.0)
    setting = CommitteeSetting.of(ld.System(one.problem, one.network, ld.SGD(eta, batch=batch)))
    radius = np.abs(np.linalg.eigvals(finite_map(setting))).max()
    assert np.sign(linear.finite_size_margin(setting)) == np.sign(1 - radius)


def test_finite_size_margin_of_the_paper_s_figure_2():
    margin = linear.finite_size_margin(CommitteeSetting.of(paper(128, 1.0, 1.0, 1.0)))
    assert 1 - margin == pytest.approx(0.997, abs=5e-4)  # all the digits of the reference
    # With many dimensions a level it becomes 1 − η/η_c, the margin of the equations.
    setting = CommitteeSetting.of(paper(4, 1.0, 1.0, 1.0, N=4_000_000))
    limit = 1 - 1.0 / linear.critical_learning_rate(setting)
    assert linear.finite_size_margin(setting) == pytest.approx(limit, abs=1e-5)
    deterministic = system(4, 1, 1, rule=ld.GradientDescent(0.3))
    assert linear.finite_size_margin(CommitteeSetting.of(deterministic)) == 1.0


@pytest.mark.slow
def test_ten_thousand_levels():
    one = system(10_000, 2, 2, N=20_000, noise=0.0)
    setting, state = CommitteeSetting.of(one), ld.start(one, key=3).state
    times = np.array([0.0, 1e-6, 2e-6, 10.0, 1e3])
    found = linear.curve(setting, state, times)
    np.testing.assert_allclose(
        found["error"][0], ld.theory_of(one).observe(state)["error"], rtol=1e-11
    )
    # The initial slope is that of the equations: a parabola through three times is off by h²
    # times the third derivative, (2 s λ_1 h)² ≈ 3e-5 of the first.
    slope = (4 * found["Q"][1] - 3 * found["Q"][0] - found["Q"][2]) / 2e-6
    drift = np.einsum("l,lij->ij", setting.spectrum.values, ld.theory_of(one).drift(state).Q)
    np.testing.assert_allclose(slope, drift, rtol=1e-4)
    flow = linear.curve(setting, state, times, "flow")["error"]
    assert np.all(found["error"][1:] > flow[1:]) and np.all(np.diff(found["error"]) < 0)


def test_bad_input():
    setting = CommitteeSetting.of(system(4, 1, 1))
    state = linear.mean_state(setting)
    with pytest.raises(ValueError, match="order: got 'finite'"):
        linear.curve(setting, state, [1.0], "finite")
    with pytest.raises(ValueError, match="times: got"):
        linear.curve(setting, state, [2.0, 1.0])
    erf = ld.TeacherStudent(ld.Isotropic(10), ld.Committee(1, "erf"))
    other = CommitteeSetting.of(ld.System(erf, ld.Committee(1, "erf"), ld.SGD(0.1)))
    with pytest.raises(ValueError, match="activation: got 'erf'"):
        linear.curve(other, ld.Overlaps([[1.0]], [[0.0]], [[1.0]]), [1.0])


@pytest.mark.parametrize("order", ["full", "flow"])
def test_even_state_has_the_mean_error(order):
    setting, times = CommitteeSetting.of(paper(16, 1.0, 0.5, 0.7)), [0.0, 0.3, 5.0, 100.0]
    even = linear.curve(setting, linear.even_state(setting), times, order)["error"]
    mean = linear.mean_curve(setting, times, order)["error"]
    np.testing.assert_allclose(even, mean, rtol=1e-12)
    total = linear.even_state(setting)
    assert not total.Q.any() and not total.R.any()
    np.testing.assert_allclose(total.T.sum(), 1 + 0.7**2, rtol=1e-14)
