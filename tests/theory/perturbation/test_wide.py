"""The limit of wide layers: closed forms against reference values, integrals and roots."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import learndyn as ld
from learndyn.theory.perturbation import errata, regression, sgd, wide
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import traces_of

NP = ld.NodePerturbation


def layers(two_layers, L_h, rule=None, **options):
    return two_layers.system(100, L_h, 10, rule or NP(1e-5), **options)


def test_landmarks_are_the_reference_values(reference, two_layers):
    for row in reference["closed_forms_B3"]:
        it = layers(two_layers, row["Lh"])
        found = ld.theory_of(it).landmarks(target=row["eps_tg_over_eps_init"])
        np.testing.assert_allclose(found["critical_learning_rate"], row["eta_star"], rtol=1e-12)
        np.testing.assert_allclose(found["minimal_time"], row["T_np_min_over_c"], rtol=1e-10)
        share = found["optimal_learning_rate"] / found["critical_learning_rate"]
        np.testing.assert_allclose(share, row["c_opt_over_c_star"], rtol=1e-5)  # of a flat minimum
        for part, time in row["T_np_eq80_at_multiple_of_c_star"].items():
            at = layers(two_layers, row["Lh"], NP(float(part) * row["eta_star"]))
            ours = ld.theory_of(at).landmarks()["training_time"]
            np.testing.assert_allclose(ours, time["T"], rtol=1e-9)
        plain = ld.theory_of(layers(two_layers, row["Lh"], ld.SGD(1e-5))).landmarks()
        np.testing.assert_allclose(plain["minimal_time"], row["T_sgd_eq96"], rtol=1e-12)


def test_the_fastest_rate_is_below_the_critical_one(two_layers):
    edge = ld.theory_of(layers(two_layers, 10**4)).landmarks()
    rate, best = edge["critical_learning_rate"], edge["minimal_time"]
    time = lambda part: ld.theory_of(
        layers(two_layers, 10**4, NP(part * rate))
    ).landmarks()["training_time"]  # fmt: skip
    assert 0.78 < edge["optimal_learning_rate"] / rate < 0.83
    assert time(1 - 1e-12) > 12 * best and time(1.001) == np.inf
    assert all(time(part) > best for part in (0.5, 0.7, 0.9))


@pytest.mark.parametrize("loss_scale", [0.5, 2.0])
def test_rates_are_the_rules_own(loss_scale, two_layers):
    for rule in (NP(1e-5), ld.SGD(1e-5)):
        found = ld.theory_of(layers(two_layers, 1000, rule, loss_scale=loss_scale)).landmarks()
        paper = ld.theory_of(layers(two_layers, 1000, rule)).landmarks()
        for name in ("critical_learning_rate", "optimal_learning_rate"):
            assert found[name] == pytest.approx(paper[name] / (2 * loss_scale))
        assert found["minimal_time"] == pytest.approx(paper["minimal_time"])


def test_training_time_is_that_of_the_flow(two_layers):
    """Eq. 80 against the flow of order "wide", solved: error and norm at that time (Eq. 81)."""
    it = layers(two_layers, 1000, NP(1e-4))
    theory, of = ld.theory_of(it), PerturbationSetting.of(it)
    start = wide.xavier(of, 1.0, 2 / 110)
    steps = theory.landmarks()["training_time"]
    record = ld.solve(it, [0, steps], start=ld.start(it, state=start), order="wide", rtol=1e-11)
    np.testing.assert_allclose(record.epsilon[1], 1e-4 * start.epsilon, rtol=1e-6)
    a, epsilon, c_o = map(float, wide.reduced(of, start))
    end = wide.final_norm(c_o, a, epsilon, 1e-4 * epsilon)
    np.testing.assert_allclose(record.alpha[1] * 1000 ** (-1 / 3), end, rtol=1e-8)


def test_training_time_without_the_limit(reference, two_layers):
    """Within 6 % of Eq. 68 from 10³ to 10⁶ hidden units, and 13 433 at the reference's case."""
    for row in reference["wide_times"]:
        it = layers(two_layers, row["Lh"], NP(row["eta"]))
        found = ld.theory_of(it).landmarks()["finite_training_time"]
        assert found == pytest.approx(row["T_68"], rel=0.06)
    at = layers(two_layers, 1000, NP(0.00012020197388822527))
    found = ld.theory_of(at).landmarks()["finite_training_time"]
    assert found == pytest.approx(13433, abs=0.5)


def test_the_conserved_quantity_along_flow_and_map(two_layers):
    """Constant along the flow; along the recursion of Eq. 74 it drifts in proportion to η_o."""
    it = layers(two_layers, 10**4, NP(4e-5))
    theory, of = ld.theory_of(it), PerturbationSetting.of(it)
    start = wide.xavier(of, 1.0, 2 / 110)
    begin = ld.start(it, state=start)
    solved = ld.solve(it, [0, 2e4], start=begin, order="wide", rtol=1e-11)
    states = [
        ld.Traces(*(solved[name][i] for name in ("alpha", "beta", "epsilon", "phi")))
        for i in (0, 1)
    ]
    total = [float(theory.invariants(state)["epsilon_tot"]) for state in states]
    np.testing.assert_allclose(total[1], total[0], rtol=1e-9)
    assert solved.epsilon[-1] < 0.01 * solved.epsilon[0]
    drifts = [drift_of_map(eta_o) for eta_o in (2e-3, 1e-3)]
    assert drifts[0] == pytest.approx(2 * drifts[1], rel=0.05) and 1e-6 < abs(drifts[0]) < 0.01


def drift_of_map(eta_o, c_o=2.0, a=0.1, epsilon=0.02):
    """How much Eq. 74 changes Eq. 78 relatively; there η_o² L_x L_y (1 + β) = η_o c_o."""
    first = wide.conserved(a, epsilon, c_o)
    for _ in range(int(3 / eta_o)):
        push = eta_o * c_o * epsilon
        a, epsilon = a + push, epsilon - 2 * eta_o * a * epsilon + push * a**2
    return float(wide.conserved(a, epsilon, c_o) / first - 1)


def test_exponents_are_those_at_which_the_width_drops_out(two_layers):
    """At η_o fixed, curves of a and ε for 10⁶ and 10⁹ hidden units are one (Eqs. 72-74)."""
    curves = []
    for L_h in (1e6, 1e9):
        of = PerturbationSetting(100, L_h, 10, 1e-3 * L_h**-wide.RHO, 0.0)
        start = ld.Traces(0.1 * L_h**wide.KAPPA, 2.0, 0.02, 0.0, None, 0.02)
        change = wide.change(of, start)
        curves.append([change.alpha * L_h**-wide.KAPPA, change.epsilon])
    np.testing.assert_allclose(*curves, rtol=1e-12)
    assert 2 * wide.RHO + wide.KAPPA == 1


def test_start_values_are_means(two_layers):
    it = two_layers.system(8, 20, 5, NP(1e-3))
    theory = ld.theory_of(it)
    drawn = [theory.sample(key)[0] for key in range(2000)]
    found = np.array([_values(traces_of(state)) for state in drawn])
    typical = wide.xavier(PerturbationSetting.of(it), 1.0, np.mean(it.problem.teacher.matrix**2))
    expected = [float(v) for v in _values(typical)]
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * error)


def _values(traces):
    return traces.alpha, traces.beta, traces.epsilon, traces.phi, traces.alpha2


def test_nullcline(reference, two_layers):
    given = reference["nullcline85"]
    found = wide.nullcline(given["a"], given["c"], given["Lx"], given["sigma_t2"])
    assert found == pytest.approx(given["eps"], rel=1e-12)
    it = layers(two_layers, 1000, NP(1e-4), noise=np.sqrt(0.1))
    of = PerturbationSetting.of(it)
    a, _, c_o = wide.reduced(of, ld.Traces(2.0, 2.0, 0.0, 0.0))
    still = ld.Traces(2.0, 2.0, wide.nullcline(a, c_o, of.L_x, of.sigma_t2), 0.0)
    assert abs(ld.theory_of(it).drift(still, "wide").epsilon) < 1e-18


def test_critical_is_the_edge_of_recovery(two_layers):
    """Just below c*, the error of Eq. 77 comes down to the target; just above, it never does."""
    a, epsilon, target = 0.2, 0.03, 3e-6
    edge = wide.critical(a, epsilon, target)
    lowest = lambda c: np.min(
        solve_ivp(
            lambda _, y: [c * y[1], -(2 - c * y[0]) * y[0] * y[1]],
            (0, 2000), [a, epsilon], rtol=1e-10, atol=1e-16, max_step=2.0,
        ).y[1]
    )  # fmt: skip
    assert lowest(0.99 * edge) < target < lowest(1.01 * edge)
    assert edge < 2 / a


def test_sgd_keeps_its_norms_and_falls_by_a_factor(two_layers):
    it = layers(two_layers, 1000, ld.SGD(0.002))
    start = wide.xavier(PerturbationSetting.of(it), 1.0, 2 / 110)
    record = ld.solve(it, [0, 300], start=ld.start(it, state=start), order="wide")
    factor = sgd.error_factor(PerturbationSetting.of(it), start.alpha, start.beta)
    np.testing.assert_allclose(record.epsilon[1] / record.epsilon[0], np.exp(300 * (factor - 1)))
    steps = ld.theory_of(it).landmarks()["training_time"]
    assert steps == pytest.approx(np.log(1e-4) / np.log(factor))
    found = ld.theory_of(it).landmarks()
    edge = PerturbationSetting(100, 1000, 10, found["critical_learning_rate"], 0.0)
    assert sgd.error_factor(edge, start.alpha, start.beta) == pytest.approx(1.0)


def test_regression(reference):
    for name, row in reference["linear_regression"].items():
        L_x, L_y = map(int, name.split("_"))
        K = {rule: regression.noise(L_x, L_y, rule) for rule in regression.RULES}
        large = regression.noise(L_x, L_y, "node perturbation", exact=False)
        time = lambda K: float(regression.minimal_time(K, 1e-4))
        assert regression.optimal_learning_rate(K["sgd"]) == pytest.approx(row["eta_opt_sgd"])
        assert time(K["sgd"]) == pytest.approx(row["T_sgd_1e4"], rel=1e-12)
        assert time(K["node perturbation"]) == pytest.approx(row["T_np_1e4"], rel=1e-12)
        at = regression.training_time(1 / large, K["node perturbation"], 1e-4)
        expected = row["T_np_1e4_at_eta_1_over_LxLy"]
        assert at == (pytest.approx(expected, rel=1e-12) if expected else np.inf)
        assert regression.critical_learning_rate(large) == pytest.approx(2 / (L_x * L_y))
        assert -errata.printed_eq104(L_x, L_y, 1e-4) == pytest.approx(
            row["paper_T_np_sign_corrected"]
        )
    with pytest.raises(ValueError, match="rule: got 'adam'"):
        regression.noise(3, 2, "adam")


@pytest.mark.parametrize("rule", regression.RULES)
def test_regression_factor_against_brute_force(rule):
    """The mean of |E − η ξ ξᵀ E x xᵀ|² over 10⁶ steps."""
    L_x, L_y, eta, rng = 6, 4, 0.02, np.random.default_rng(0)
    E = rng.standard_normal((L_y, L_x))
    x, xi = rng.standard_normal((10**6, L_x)), rng.standard_normal((10**6, L_y))
    e = x @ E.T
    push = e if rule == "sgd" else xi * np.sum(xi * e, axis=1, keepdims=True)
    cross = np.sum(push * e, axis=1)
    after = np.sum(E**2) - 2 * eta * cross + eta**2 * np.sum(push**2, axis=1) * np.sum(x**2, axis=1)
    after /= np.sum(E**2)
    expected = regression.error_factor(eta, regression.noise(L_x, L_y, rule))
    assert abs(after.mean() - expected) < 4 * after.std() / 1e3
    coarse = regression.error_factor(eta, regression.noise(L_x, L_y, rule, exact=False))
    assert abs(after.mean() - coarse) > 8 * after.std() / 1e3


def test_printed_73b_is_half_of_68b():
    assert errata.printed_eq73b_signal(0.3, 1000, 100, 0.2) == pytest.approx(0.3 * 0.1 * 100 * 0.2)
