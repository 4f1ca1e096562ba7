"""Hebb, perceptron and AdaTron: closed forms, networks, asymptotic errors.

For a linear unit of norm √q at the angle θ to a teacher of norm √T, by the averages over two
correlated normal variables:

    E[|B|] = √(2T/π),  E[x sgn B] = √(2q/π) cos θ,  P(err) = θ/π
    E[|B|; err] = √T (1 − cos θ)/√(2π),  E[x sgn B; err] = −√q (1 − cos θ)/√(2π)
    E[x²; err] = q (θ − sin θ cos θ)/π,  E[x B; err] = −√(qT) (sin θ − θ cos θ)/π
"""

import numpy as np
import pytest

import learndyn as ld
from learndyn.simulation.one_step import measure_drift

N = 200
RULES = {"hebb": ld.Hebb(0.7), "perceptron": ld.Perceptron(0.7), "adatron": ld.AdaTron(0.7)}
# The other two run in the whole suite only.
MOST = ["perceptron", *(pytest.param(n, marks=pytest.mark.slow) for n in ("hebb", "adatron"))]
ROOT = np.sqrt(2 * np.pi)


def system(rule, noise=0.0, N=N, norm=1.0):
    teacher = ld.Committee(1, "sign", init=ld.Orthonormal(1.0))
    problem = ld.TeacherStudent(ld.Isotropic(N), teacher, label_noise=noise)
    return ld.System(problem, ld.Committee(1, "linear", init=ld.Orthonormal(norm)), rule)


def overlaps(q, T, theta):
    return ld.Overlaps([[q]], [[np.sqrt(q * T) * np.cos(theta)]], [[T]])


def closed(name, eta, q, T, theta):
    """dR and dQ without label noise."""
    c, s = np.cos(theta), np.sin(theta)
    short = 2 * np.sin(theta / 2) ** 2 / ROOT  # (1 − cos θ)/√(2π)
    if name == "hebb":
        return eta * 2 / ROOT * np.sqrt(T), 4 * eta / ROOT * np.sqrt(q) * c + eta**2
    if name == "perceptron":
        dQ = -2 * eta * np.sqrt(q) * short + eta**2 * theta / np.pi
        return eta * np.sqrt(T) * short, dQ
    wrong = q * (theta - s * c) / np.pi
    return eta * np.sqrt(q * T) * (s - theta * c) / np.pi, (eta**2 - 2 * eta) * wrong


@pytest.mark.parametrize("name", RULES)
def test_drift_is_the_closed_form_at_any_angle(name):
    theory = ld.theory_of(system(RULES[name]))
    for q, T, theta in ((1.3, 0.8, 1.1), (0.2, 1.0, 2.5), (4.0, 1.0, 1e-2), (50.0, 1.0, 1e-4)):
        drift = theory.drift(overlaps(q, T, theta))
        dR, dQ = closed(name, 0.7, q, T, theta)
        # The state knows θ² to 1e-16 by R, and terms of order 1 cancel in dR.
        np.testing.assert_allclose(drift.R.item(), dR, rtol=1e-9, atol=2e-14)
        np.testing.assert_allclose(drift.Q.item(), dQ, rtol=1e-9, atol=1e-13)


def test_noise_turns_labels():
    """A label is turned with the probability Φ(−1/σ) = 0.1587 at σ = 1."""
    p = 0.15865525393145707
    drift = ld.theory_of(system(ld.Hebb(0.7), noise=1.0)).drift(overlaps(1.3, 0.8, 1.1))
    dR, dQ = closed("hebb", 0.7, 1.3, 0.8, 1.1)
    np.testing.assert_allclose(drift.R.item(), (1 - 2 * p) * dR, rtol=1e-9)
    np.testing.assert_allclose(drift.Q.item(), (1 - 2 * p) * (dQ - 0.49) + 0.49, rtol=1e-9)


@pytest.mark.parametrize("name", RULES)
def test_observables_are_closed_forms(name):
    state = overlaps(1.3, 1.0, 0.4)
    seen = ld.theory_of(system(RULES[name])).observe(state)
    np.testing.assert_allclose(seen["classification_error"], 0.4 / np.pi, rtol=1e-9)
    # Half of E[(sgn B − x)²].
    expected = (1 - 4 / ROOT * np.sqrt(1.3) * np.cos(0.4) + 1.3) / 2
    np.testing.assert_allclose(seen["error"], expected, rtol=1e-9)


@pytest.mark.parametrize("name", MOST)
def test_networks_step_as_the_drift_says(name):
    """The mean change of R in one step is the drift at every N."""
    it = system(RULES[name], noise=0.5, N=60)
    start = ld.start(it, key=1)
    measured = measure_drift(it, start, trials=20_000, key=2)
    drift = ld.theory_of(it).drift(start.state)
    assert abs(measured.mean.R - drift.R).item() < 4.5 * measured.error.R.item()
    # Q has a term of order 1/N besides: at most that share of the drift's own terms.
    assert abs(measured.mean.Q - drift.Q).item() < 4.5 * measured.error.Q.item() + 2 * 0.49 / 60


@pytest.mark.parametrize("name", MOST)
def test_late_errors_are_the_landmarks(name):
    """The ratio to c · α^exponent tends to 1."""
    it = system(RULES[name])
    landmarks, times = ld.theory_of(it).landmarks(), [0.0, 300.0, 3000.0]
    start = ld.start(it, state=overlaps(1.0, 1.0, 1.5))
    record = ld.solve(it, times, start=start, rtol=1e-10, atol=1e-14)
    asymptotic = landmarks["error_prefactor"] * np.array(times[1:]) ** landmarks["error_exponent"]
    ratio = record["classification_error"].values[1:] / asymptotic
    assert abs(ratio[1] - 1) < 0.02
    assert abs(ratio[1] - 1) < abs(ratio[0] - 1)


def test_a_best_rate_of_adatron_is_three_halves():
    prefactor = lambda eta: ld.theory_of(system(ld.AdaTron(eta))).landmarks()["error_prefactor"]
    assert prefactor(1.5) == pytest.approx(4 / 3)
    assert prefactor(1.5) < min(prefactor(1.4), prefactor(1.6))
    assert ld.theory_of(system(ld.AdaTron(3.0))).landmarks() == {}


def test_norms_that_grow_under_hebb_are_no_divergence():
    record = ld.solve(system(ld.Hebb(1.0)), [0, 3000])
    assert record.outcome == "finished" and record.Q.values[-1].item() > 1e6


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_chain_has_the_law_of_networks(name):
    it, times, runs = system(RULES[name], noise=0.3, N=30), [0.0, 2.0, 8.0], 4000
    start = ld.start(it, key=3)
    both = [ld.simulate(it, times, start=start, runs=runs, key=5, method=m, dtype="float64")
            for m in ("direct", "reduced")]  # fmt: skip
    for variable in ("Q", "R", "classification_error"):
        a, b = (record[variable].values.reshape(runs, 3)[:, 1:] for record in both)
        error = np.sqrt((a.var(0) + b.var(0)) / runs)
        assert np.all(abs(a.mean(0) - b.mean(0)) < 4.5 * error), variable
        assert np.all(abs(a.std(0) / b.std(0) - 1) < 4.5 * np.sqrt(2 / runs)), variable
