"""Committees whose outputs and biases learn, with decay: ODE, chain, real SGD, one system each.

`general.json` has the values of an independent implementation at α = 4: Runge-Kutta of order 4 with
step 0.04 (which 0.08 changes by 3e-9), averages in closed form (erf, relu) or by quadrature.
"""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import learndyn as ld
from learndyn.simulation import measure_drift

CASES = json.loads((Path(__file__).parents[1] / "general.json").read_text())
END = 4.0
# What takes long to compile runs in the whole suite only.
QUICK = [n if n == "erf" else pytest.param(n, marks=pytest.mark.slow) for n in CASES]


def system(name, N, spectrum=None):
    case = CASES[name]
    g, f = case["activations"]
    biased = case["biases"] is not None
    train = ("inputs", "outputs", "biases") if biased else ("inputs", "outputs")
    own = {"outputs": case["outputs"], "biases": case["biases"], "train": train}
    teacher = {"outputs": case["teacher_outputs"], "biases": case["teacher_biases"]}
    data = ld.TeacherStudent(
        spectrum or ld.Isotropic(N), ld.Committee(2, f, **teacher), label_noise=0.2
    )
    rates = {"output_rate": 0.5, "decay": 0.1, "output_decay": 0.05}
    rates |= {"bias_rate": 0.6} if biased else {}
    return ld.System(data, ld.Committee(3, g, **own), ld.SGD(0.7, **rates))


def start(name, N):
    C = np.array(CASES[name]["gram"])
    return ld.start(system(name, N), state=ld.Overlaps(C[:3, :3], C[:3, 3:], C[3:, 3:]), key=1)


def numbers(record):
    """Q for i ≤ j, R, outputs and biases at the last time, (…, numbers)."""
    last = record.isel(time=-1)
    rows, columns = np.triu_indices(3)
    Q, R = last.Q.values[..., rows, columns], last.R.values
    parts = [last[name].values for name in ("outputs", "biases") if name in last]
    return np.concatenate([Q, R.reshape(*R.shape[:-2], -1), *parts], axis=-1)


@functools.cache
def predicted(name):
    return numbers(ld.solve(system(name, 1000), [0.0, END], start=start(name, 1000)))


@pytest.mark.parametrize("name", CASES)
def test_the_solution_is_that_of_an_independent_implementation(name):
    end, (rows, columns) = CASES[name]["end"], np.triu_indices(3)
    C = np.array(end["gram"])
    parts = [end[part] for part in ("outputs", "biases") if end[part] is not None]
    expected = np.concatenate([C[rows, columns], C[:3, 3:].ravel(), *parts])
    np.testing.assert_allclose(predicted(name), expected, rtol=0, atol=1e-6)


def extrapolated(name, plan, key):
    """The mean of the chain minus the ODE as N → ∞, from a fit a + b/N, in standard errors."""
    deviations, errors = [], []
    for N, runs in plan.items():
        options = {"start": start(name, N), "runs": runs, "key": key, "method": "reduced"}
        runs = numbers(ld.simulate(system(name, N), [END], **options))
        deviations.append(runs.mean(0) - predicted(name))
        errors.append(runs.std(0, ddof=1) / np.sqrt(len(runs)))
    z = []
    for d, e in zip(np.transpose(deviations), np.transpose(errors), strict=True):
        A = np.stack([np.ones(len(plan)), 1 / np.array(list(plan))], axis=1) / e[:, None]
        covariance = np.linalg.inv(A.T @ A)
        z.append((covariance @ A.T @ (d / e))[0] / np.sqrt(covariance[0, 0]))
    return np.array(z)


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_the_exact_chain_extrapolates_to_the_solution(name):
    """15 to 18 numbers: the largest of as many normal ones exceeds 4 once in a thousand times."""
    z = extrapolated(name, {250: 1600, 500: 800, 1000: 400}, key=2)
    assert np.abs(z).max() < 4


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_the_exact_chain_extrapolates_to_the_solution_in_many_runs(name):
    z = extrapolated(name, {250: 40000, 500: 30000, 1000: 20000}, key=3)
    assert np.abs(z).max() < 4 and np.sqrt(np.mean(z**2)) < 1.7


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_real_networks_follow_the_solution(name):
    """At N = 1000 finite size shifts means by 1e-4, a tenth of the standard errors."""
    options = {"start": start(name, 1000), "runs": 24, "key": 4, "method": "direct"}
    runs = numbers(ld.simulate(system(name, 1000), [END], **options))
    z = (runs.mean(0) - predicted(name)) / (runs.std(0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4.5  # Student's t with 23 degrees of freedom


@pytest.mark.statistical
@pytest.mark.parametrize("name", QUICK)
def test_linear_noise_is_the_spread_of_the_chain(name):
    """At N = 1000 linear noise errs by a few percent, as does the spread of 800 runs (2.5 %)."""
    given, begin = system(name, 1000), start(name, 1000)
    theory = ld.solve(given, [1.0], start=begin, fluctuations=True, rtol=1e-6)
    runs = ld.simulate(given, [1.0], start=begin, runs=800, key=6, method="reduced")
    for part in ("Q", "R", "outputs", "biases", "error"):
        if part in runs:
            expected, found = theory[f"{part}_std"].values, runs[part].std("run", ddof=1).values
            np.testing.assert_allclose(found[0], expected[0], rtol=0.15)


@pytest.mark.statistical
@pytest.mark.parametrize("name", QUICK)
def test_finite_order_is_the_mean_of_real_steps(name):
    """At N = 12, in two levels and with large decays, where the ODE's step is off."""
    plain = system(name, 12, ld.Spectrum([2.0, 0.5], [5, 7]))
    biased = {"bias_rate": 1.0} if CASES[name]["biases"] else {}
    rule = ld.SGD(1.5, batch=2, output_rate=1.1, decay=3.0, output_decay=1.0, **biased)
    given = ld.System(plain.problem, plain.network, rule)
    begin, theory = ld.start(given, key=5), ld.theory_of(given)
    drawn = measure_drift(given, begin, trials=60_000, key=11)
    after = theory.advance(begin.state)
    for part in ("Q", "R", "outputs", "biases"):
        if getattr(after, part) is not None:
            exact = 12 * (getattr(after, part) - getattr(begin.state, part))
            z = (getattr(drawn.mean, part) - exact) / getattr(drawn.error, part)
            assert np.abs(z).max() < 4.5
    z = (drawn.mean.Q - theory.drift(begin.state).Q) / drawn.error.Q
    assert np.abs(z).max() > 9
