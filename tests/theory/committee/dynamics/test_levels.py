"""Many levels: factors, stiff schemes, the exact mean step, frozen directions, other frames."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld
from learndyn.simulation import measure_drift
from learndyn.solving.integrate import integrate
from learndyn.theory.committee.state import Factors, factors_of
from learndyn.theory.dynamics import Explicit, Implicit, Stabilised


def soft(spectrum, K=2, M=2, eta=0.1, activation="erf", std=0.1, **more):
    data = ld.TeacherStudent(spectrum, ld.Committee(M, activation, scale=M**-0.5))
    init = ld.Normal(std)
    student = ld.Committee(K, activation, scale=M**0.5 / K, init=init, **more)
    return ld.System(data, student, ld.SGD(eta))


def curve(system, state, times, order, scheme):
    theory = ld.theory_of(system)
    flow = theory.dynamics(order)
    how = {
        "explicit": lambda: Explicit(state),
        "implicit": lambda: Implicit(state, flow.linearise),
        "stabilised": lambda: Stabilised(state, flow.radius),
    }[scheme]()
    with jax.enable_x64(True):
        numbers = [np.asarray(number) for number in (1.0, 1e-9, 1e-12)]
        found = integrate(theory, flow, how, np.asarray(times), *numbers)
        assert bool(found.succeeded)
        return np.asarray(found.saved[0]["error"])


@pytest.mark.parametrize("levels, exponent", [(1, 1.0), (7, 0.3), (64, 1.5)])
def test_power_law_spectra_have_unit_mean(levels, exponent):
    spectrum = ld.PowerLaw(64 * 7, levels, exponent)
    assert np.sum(spectrum.counts * spectrum.values) == pytest.approx(spectrum.dim, rel=1e-14)
    np.testing.assert_allclose(
        spectrum.values / spectrum.values[0], np.arange(1, levels + 1) ** -(1 + exponent)
    )


def test_factors_hold_the_overlaps_and_move_as_they_do():
    system = soft(ld.PowerLaw(24, 24, 0.5), K=3, M=2, std=1e-6)
    theory, state = ld.theory_of(system), ld.start(system, key=3).state
    factors = factors_of(state, 1)
    assert isinstance(factors, Factors) and factors.J.shape == (24, 3, 1)
    np.testing.assert_allclose(factors.overlaps.Q, state.Q, rtol=1e-9)
    rate, direct = theory.drift(factors, order="flow"), theory.drift(state, order="flow")
    moved = np.einsum("lir,ljr->lij", rate.J, factors.B)
    np.testing.assert_allclose(moved, direct.R, rtol=1e-9, atol=1e-15)
    half = np.einsum("lir,ljr->lij", rate.J, factors.J)
    np.testing.assert_allclose(half + half.swapaxes(1, 2), direct.Q, rtol=1e-8, atol=1e-20)


@pytest.mark.slow
def test_the_three_schemes_agree():
    """Dopri8 in overlaps, Dopri8 and Chebyshev in factors, Rodas in overlaps: one curve."""
    system = soft(ld.PowerLaw(32, 32, 1.0), eta=0.5)
    state, times = ld.start(system, key=1).state, [0.0, 1.0, 10.0, 100.0]
    expected = curve(system, state, times, "flow", "explicit")
    others = {
        "factors": curve(system, factors_of(state, 1), times, "flow", "explicit"),
        "implicit": curve(system, state, times, "flow", "implicit"),
        "stabilised": curve(system, factors_of(state, 1), times, "flow", "stabilised"),
    }
    for name, found in others.items():
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_implicit_scheme_with_all_learning_rate_terms():
    system = soft(ld.PowerLaw(64, 16, 1.0), K=3, eta=0.8)
    state, times = ld.start(system, key=1).state, [0.0, 1.0, 30.0]
    found = curve(system, state, times, "full", "implicit")
    np.testing.assert_allclose(found, curve(system, state, times, "full", "explicit"), rtol=1e-6)


PLAIN, TRAINED = (
    {},
    {
        "outputs": [0.3, -1.3, 0.8],
        "train": ("inputs", "outputs"),
    },
)


@pytest.mark.parametrize("parts", [pytest.param(PLAIN, marks=pytest.mark.slow), TRAINED])
@pytest.mark.parametrize("activation", ["erf", pytest.param("quadratic", marks=pytest.mark.slow)])
def test_linearised_drift_is_its_dense_jacobian(parts, activation):
    """Also with decay, and output weights of both signs."""
    data = ld.TeacherStudent(ld.Spectrum([2.0, 1.0, 0.5], [5, 9, 20]), ld.Committee(2, activation))
    rule = ld.SGD(0.5, decay=0.3, output_decay=0.2) if parts else ld.SGD(0.5)
    system = ld.System(data, ld.Committee(3, activation, scale=0.6, **parts), rule)
    theory, rng, w = ld.theory_of(system), np.random.default_rng(0), 3.7
    with jax.enable_x64(True):
        state = jax.tree.map(jnp.asarray, ld.start(system, key=1).state)
        Q = rng.standard_normal(state.Q.shape)
        b = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape), state)
        b = dataclasses.replace(b, Q=Q + Q.swapaxes(1, 2), T=0 * state.T)
        flat, unravel = ravel_pytree(state)
        for order in ("full", "flow"):
            rate = lambda y, o=order: ravel_pytree(theory.drift(unravel(y), o))[0]
            matrix = w * np.eye(len(flat)) - jax.jit(jax.jacfwd(rate))(flat)
            expected = np.linalg.solve(matrix, ravel_pytree(b)[0])
            flow = theory.dynamics(order)
            found = jax.jit(lambda y, b, f=flow: f.linearise(y, np.float64(w))(b))(state, b)
            # Rounding, times the condition of both solves.
            atol = 1e-15 * np.linalg.cond(matrix) * np.max(np.abs(expected)) * len(flat)
            np.testing.assert_allclose(ravel_pytree(found)[0], expected, rtol=0, atol=atol)


@pytest.mark.slow
def test_solve_chooses_the_scheme_and_says_so():
    small = ld.solve(soft(ld.PowerLaw(400, 4, 1.0)), [0, 1], order="flow")
    assert small.attrs["method"] == "Dopri8, adaptive, in Overlaps"
    stiff = ld.solve(soft(ld.PowerLaw(600, 300, 1.0), eta=1.0), [0, 3000.0])
    assert stiff.attrs["method"] == "Rodas, adaptive, in Overlaps"
    wide = ld.solve(soft(ld.PowerLaw(24, 24, 0.5), K=3), [0, 1], order="flow")
    assert wide.attrs["method"] == "Dopri8, adaptive, in Factors"


@pytest.mark.statistical
@pytest.mark.parametrize(
    "activation, eta",
    [
        pytest.param("linear", 0.8, marks=pytest.mark.slow),
        pytest.param("erf", 8.0, marks=pytest.mark.slow),
        ("quadratic", 0.8),
    ],
)
def test_finite_order_is_the_mean_of_real_steps(activation, eta):
    """At N = 12 the ODE's step is off by many standard errors, the exact mean by none."""
    teacher = ld.Committee(2, activation, scale=0.6)
    inputs = ld.Spectrum([2.0, 0.5], [4, 8])
    data = ld.TeacherStudent(inputs, teacher, label_noise=0.4, loss_scale=0.7)
    system = ld.System(data, ld.Committee(2, activation, scale=0.5), ld.SGD(eta, batch=2))
    begin, theory = ld.start(system, key=5), ld.theory_of(system)
    drawn = measure_drift(system, begin, trials=60_000, key=11)
    exact = 12 * (theory.advance(begin.state).Q - begin.state.Q)
    z = lambda predicted: np.abs((drawn.mean.Q - predicted) / drawn.error.Q).max()
    assert z(exact) < 4.5
    assert z(theory.drift(begin.state).Q) > 9


def test_finite_order_of_the_linear_student_is_the_closed_recursion():
    """e_k ← e_k − 2x_k e_k + (η²/N²)(N_k λ_k Σ_j λ_j e_j + 2 λ_k² e_k), x_k = η λ_k / N."""
    N, eta = 40, 0.7
    spectrum = ld.PowerLaw(N, 4, 1.0)
    data = ld.TeacherStudent(spectrum, ld.Committee(1, "linear", init=ld.Typical()))
    system = ld.System(data, ld.Committee(1, "linear", init=ld.Normal(0.5)), ld.SGD(eta))
    begin, times = ld.start(system, key=0), np.array([0, 0.5, 2.0, 5.0])
    lam, counts = spectrum.values, spectrum.counts
    e = np.array([C[0, 0] - 2 * C[0, 1] + C[1, 1] for C in begin.state.gram])
    errors = []
    for step in range(int(5 * N) + 1):
        if step in np.rint(times * N):
            errors.append(lam @ e / 2)
        noise = counts * lam * (lam @ e) + 2 * lam**2 * e
        e = e - 2 * eta / N * lam * e + eta**2 / N**2 * noise
    found = ld.solve(system, times, start=begin, order="finite")
    np.testing.assert_allclose(found.error, errors, rtol=1e-12)
    assert found.attrs["method"] == "iterated map"


def test_a_large_first_level_makes_the_limit_approximate():
    heavy = ld.solve(soft(ld.PowerLaw(128, 128, 1.0), K=1, M=1, eta=1.0), [0, 1])
    assert heavy.attrs["coverage"] == "approximate" and "finite" in heavy.attrs["coverage_reason"]
    light = ld.solve(soft(ld.PowerLaw(12800, 128, 1.0), K=1, M=1, eta=0.05), [0, 1])
    assert light.attrs["coverage"] == "exact"


@pytest.mark.slow
def test_frozen_directions_keep_their_overlaps():
    system = soft(ld.PowerLaw(300, 3, 1.0), trainable=200, eta=0.3)
    begin, theory = ld.start(system, key=2), ld.theory_of(system)
    rate = theory.drift(begin.state)
    assert not np.any(rate.Q[2]) and not np.any(rate.R[2]) and np.all(rate.R[:2] != 0)
    times = [0, 5.0, 20.0]
    predicted = ld.solve(system, times, start=begin)
    for method in ("direct", "reduced"):
        runs = ld.simulate(system, times, start=begin, runs=8, method=method)
        assert ld.compare(predicted, runs).attrs["verdict"] != "deviates"
    last = ld.update(system, begin.weights, teacher=begin.teacher, key=3)
    np.testing.assert_array_equal(last[:, 200:], begin.weights[:, 200:])


def test_frozen_directions_that_cut_a_level_have_no_theory():
    system = soft(ld.PowerLaw(300, 3, 1.0), trainable=150)
    with pytest.raises(ld.NoTheory, match="150 trainable directions cut a level"):
        ld.solve(system, [0, 1])


@pytest.mark.parametrize("trainable", [0, 301])
def test_trainable_directions_out_of_range(trainable):
    with pytest.raises(ValueError, match="trainable: got"):
        soft(ld.PowerLaw(300, 3, 1.0), trainable=trainable)


def test_another_frame_changes_nothing_but_the_weights():
    spectrum = ld.Spectrum([1.8, 0.2], [20, 20])
    frame, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))
    plain, turned = soft(spectrum), soft(ld.Gaussian(spectrum, frame))
    begin = ld.start(turned, key=1)
    np.testing.assert_allclose(begin.state.Q, ld.start(plain, key=1).state.Q)
    theory = ld.theory_of(turned)
    found = theory.project(begin.weights, begin.teacher)
    np.testing.assert_allclose(found.R, begin.state.R, atol=1e-14)
    runs = ld.simulate(turned, [0, 5.0], start=begin, runs=40, method="direct")
    same = ld.simulate(
        plain, [0, 5.0], start=ld.start(plain, key=1), runs=40, key=9, method="direct"
    )
    gap = runs.error.mean("run") - same.error.mean("run")
    spread = np.hypot(runs.error.std("run"), same.error.std("run")) / np.sqrt(40)
    assert float(np.abs(gap / (spread + 1e-6)).max()) < 4.5


@pytest.mark.parametrize("frame", [np.eye(3), 2 * np.eye(4)])
def test_a_frame_must_be_orthogonal(frame):
    with pytest.raises(ValueError, match="frame: got"):
        ld.Gaussian(ld.Isotropic(4), frame)
