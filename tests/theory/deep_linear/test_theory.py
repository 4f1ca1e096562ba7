"""Deep linear networks: modes against trained networks, flows, conservation laws."""

import json
import pathlib

import jax
import numpy as np
import pytest

import learndyn as ld
from learndyn.runtime.jaxprs import Traced

REFERENCE = json.loads((pathlib.Path(__file__).parent / "reference.json").read_text())
RULES = {
    "SGD": lambda eta: ld.GradientDescent(eta),
    "NGD": lambda eta: ld.NaturalGradient(eta),
    "sqrtNGD": lambda eta: ld.NaturalGradient(eta, power=0.5),
    "NGD-d": lambda eta: ld.NaturalGradient(eta, blocks=True),
    "sqrtNGD-d": lambda eta: ld.NaturalGradient(eta, power=0.5, blocks=True),
}
STRENGTHS = [[0.5, 0.6, 0.7], [0.4, 0.5, 0.6], [0.8, 0.3, 0.9]]


def det(n, m, k, scale):
    i, j = np.ogrid[:n, :m]
    return scale * np.sin(k + 0.7 * i * i + 1.3 * j + 0.37 * i * j)


def system(rule, *, widths=(3, 4, 5, 3), init=None, variance=1.0, target=None):
    target = det(3, 3, 7.0, 0.6) + 1.5 * np.eye(3) if target is None else target
    inputs = ld.Spectrum([variance], [target.shape[1]])
    data = ld.TeacherStudent(inputs, ld.LinearTeacher(len(target), target))
    return ld.System(data, ld.DeepLinear(widths, init=init or ld.Aligned(STRENGTHS)), rule)


@pytest.mark.parametrize(
    "name",
    [n if n == "NGD-d" else pytest.param(n, marks=pytest.mark.slow) for n in RULES],
)
@pytest.mark.parametrize("variance", [pytest.param(1.0, marks=pytest.mark.slow), 1.7])
def test_modes_are_exact_for_aligned_networks(name, variance):
    it = system(RULES[name](0.02), variance=variance)
    begin, steps = ld.start(it, key=1), np.array([0.0, 5, 50, 150])
    discrete = ld.simulate(it, steps, start=begin, dtype="float64")
    solved = ld.solve(it, steps, start=begin)
    np.testing.assert_allclose(solved.sigma, discrete.sigma[0], atol=1e-10)
    np.testing.assert_allclose(solved.error, discrete.error[0], atol=1e-9)
    assert solved.attrs["coverage"] == "exact"
    assert ld.compare(solved, discrete).verdict == "agrees"
    flow = ld.simulate(it, steps * 0.02, start=begin, method="flow")
    field = ld.solve(it, steps * 0.02, start=begin, order="flow")
    np.testing.assert_allclose(field.sigma, flow.sigma[0], atol=1e-7)
    assert flow.time.attrs["unit"] == field.time.attrs["unit"] == "learning rate × steps"


@pytest.mark.parametrize("name", [n for n in RULES if n in REFERENCE])
def test_flow_of_weights_against_reference(name):
    target = det(3, 3, 7.0, 0.6) + 1.5 * np.eye(3)
    it = system(RULES[name](1.0), widths=(3, 3, 3, 3), target=target)
    weights = tuple(det(3, 3, i, 0.4) + np.eye(3) for i in (1, 2, 3))
    begin = ld.Start(ld.theory_of(it).project(weights, target), lambda: (weights, target))
    product = {"product": lambda model: np.linalg.multi_dot(model.weights[::-1])}
    found = ld.simulate(it, [1.0], start=begin, method="flow", probes=product)
    np.testing.assert_allclose(found["product"][0, 0], REFERENCE[name], atol=1e-8)


@pytest.mark.parametrize(
    "name", [n if n == "sqrtNGD" else pytest.param(n, marks=pytest.mark.slow) for n in RULES]
)
def test_conservation_laws_along_simulated_flows(name):
    """w_i w_iᵀ − w_{i+1}ᵀ w_{i+1} (Eq. 4): kept by the full rules, not by the block rules."""
    it = system(RULES[name](1.0), init=ld.Xavier(1.2))
    kept = lambda w, i: w[i] @ w[i].T - w[i + 1].T @ w[i + 1]
    conserved = {f"c{i}": lambda model, i=i: kept(model.weights, i) for i in range(2)}
    record = ld.simulate(it, [0.0, 1.0], method="flow", probes=conserved, key=3)
    assert str(record.outcome.values[0]) == "finished"
    moved = max(float(np.abs(record[c][0, 1] - record[c][0, 0]).max()) for c in conserved)
    if name.endswith("-d"):
        assert moved > 1e-3
    else:
        assert moved < 1e-7  # integrator tolerance 1e-10 a step, over hundreds of steps


def test_unaligned_networks_are_covered_approximately():
    it = system(ld.NaturalGradient(0.05, power=0.5), init=ld.SmallRandom(0.3))
    begin, steps = ld.start(it, key=2), [0, 20, 60]
    said = "solve: the deep linear theory covers this start approximately"
    with pytest.warns(UserWarning, match=said) as told:
        theory = ld.solve(it, steps, start=begin)
    assert len(told) == 1 and theory.attrs["coverage"] == "approximate"
    network = ld.simulate(it, steps, start=begin)
    found = ld.compare(theory, network)
    assert found.verdict == "deviates" and "the theory is approximate here" in found.reason


def test_an_aligned_start_of_an_unaligned_law_is_judged_exact():
    it = system(ld.GradientDescent(0.05), init=ld.Xavier())
    begin = ld.start(it, state=ld.Modes(STRENGTHS))
    assert ld.solve(it, [1], start=begin).attrs["coverage"] == "exact"


def test_modes_beyond_a_bottleneck_stay_frozen():
    it = system(ld.NaturalGradient(0.05), widths=(3, 2, 2, 3), init=ld.Aligned(0.4))
    record = ld.solve(it, [0, 100])
    assert np.all(np.abs(record["map"][1, :2] - ld.theory_of(it).target[:2]) < 0.05)
    np.testing.assert_array_equal(record["map"][:, 2], 0.0)
    network = ld.simulate(it, [0, 100], dtype="float64")
    np.testing.assert_allclose(network["map"][0], record["map"], atol=1e-8)
    with pytest.raises(ValueError, match="too narrow"):
        ld.start(it, state=ld.Modes(np.full((3, 3), 0.4)))


def test_a_whitened_data_set_is_covered_and_a_coloured_one_is_not():
    x, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 3)))
    y = np.random.default_rng(1).normal(size=(9, 2))
    make = lambda x: ld.System(
        ld.Dataset(x, y), ld.DeepLinear([3, 3, 2], init=ld.Aligned(0.5)), ld.NaturalGradient(0.05)
    )
    white = make(3 * x)
    begin = ld.start(white)
    theory, network = ld.solve(white, [0, 30], start=begin), None
    network = ld.simulate(white, [0, 30], start=begin, dtype="float64")
    assert ld.compare(theory, network).verdict == "agrees"
    with pytest.raises(ld.NoTheory, match="not white"):
        ld.solve(make(x * [1, 2, 3]), [1])


@pytest.mark.slow
def test_natural_gradient_learns_at_one_rate_whatever_the_depth():
    """Eq. 21 with p = 0: Δ(t) = Δ(0) e^(−t), here through the full weights."""
    for widths in ((3, 3), (3, 3, 3), (3, 4, 4, 3)):
        init = ld.Aligned(np.full(len(widths) - 1, 0.6))
        record = ld.simulate(
            system(ld.NaturalGradient(1.0), widths=widths, init=init), [0.0, 2.0], method="flow"
        )
        gap = record["map"][0] - ld.theory_of(system(ld.NaturalGradient(1.0), widths=widths,
                                                     init=init)).target  # fmt: skip
        np.testing.assert_allclose(gap[1], gap[0] * np.exp(-2), atol=1e-7)


def test_one_program_measures_networks_on_every_white_data_set():
    """What it is compiled from has no number of the data in it."""
    network = ld.DeepLinear((4, 4, 4), init=ld.SmallRandom(0.1))
    weights, programs = (np.eye(4), np.eye(4)), []
    for key in range(5):
        rng = np.random.default_rng(key)
        x = 2 * np.linalg.qr(rng.standard_normal((4, 4)))[0]
        data = ld.Dataset(x, rng.standard_normal((4, 4)))
        theory = ld.theory_of(ld.System(data, network, ld.GradientDescent(1.0)))
        assert theory.name == "deep linear"
        with jax.enable_x64(True):
            measure = lambda w, theory=theory: theory.measure(w, ())
            programs.append(Traced(measure, weights).program)
    assert len(set(programs)) == 1
