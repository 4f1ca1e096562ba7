"""Teachers that move: fixed points, networks, and the chain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.random import Source, key_of_run
from learndyn.problems.drift import partners
from learndyn.simulation.one_step import measure_drift

DRIFTS = {"diffusion": ld.Drift(diffusion=0.3), "rotation": ld.Drift(rotation=0.4)}
LINE = ld.Committee(1, "linear", init=ld.Normal(1.2))


def line(drift, eta=0.5, noise=0.3, N=40, batch=1, scale=0.5):
    problem = ld.TeacherStudent(
        ld.Isotropic(N), LINE, label_noise=noise, drift=drift, loss_scale=scale
    )
    return ld.System(problem, LINE, ld.SGD(eta, batch=batch))


def units(drift, N=40):
    """Two levels, two units a side, both layers trained, batches, decay."""
    teacher = ld.Committee(2, "erf")
    spectrum = ld.Spectrum([1.5, 0.5], [N // 2, N // 2])
    problem = ld.TeacherStudent(spectrum, teacher, label_noise=0.2, drift=drift)
    student = ld.Committee(2, "erf", outputs=[1.0, 0.7], train=("inputs", "outputs"))
    return ld.System(problem, student, ld.SGD(0.8, output_rate=0.3, decay=0.1, batch=2))


@pytest.mark.parametrize("name", DRIFTS)
def test_the_tracking_error_is_where_the_flow_comes_to_rest(name):
    """`tracking_error` solves dQ = dR = 0 by hand; `solve` integrates."""
    it = line(DRIFTS[name], batch=2, scale=0.8)
    landmarks = ld.theory_of(it).landmarks()
    rows = 2 if name == "rotation" else 1  # the teacher, and its partner
    state = ld.Overlaps([[1.0]], np.zeros((1, rows)), 1.44 * np.eye(rows))
    end = ld.solve(it, [0, 60], start=ld.start(it, state=state)).error.values[-1]
    np.testing.assert_allclose(end, landmarks["tracking_error"], rtol=1e-6)


@pytest.mark.parametrize("name", DRIFTS)
def test_no_constant_rate_tracks_better_than_the_best(name):
    error = lambda eta: ld.theory_of(line(DRIFTS[name], eta)).landmarks()["tracking_error"]
    best = ld.theory_of(line(DRIFTS[name])).landmarks()
    assert error(best["best_learning_rate"]) == pytest.approx(best["best_tracking_error"])
    rates = np.linspace(0.02, 1.95, 200)
    assert best["best_tracking_error"] <= min(map(error, rates)) * (1 + 1e-9)


def test_a_teacher_too_fast_is_best_not_followed():
    landmarks = ld.theory_of(line(ld.Drift(rotation=20.0), noise=2.0)).landmarks()
    assert set(landmarks) == {"tracking_error"}


@pytest.mark.parametrize("name", DRIFTS)
def test_rows_move_as_stated(name):
    """After many steps: the angle, or the decay of the overlap; and the norms."""
    N, inputs = 400, ld.Gaussian(ld.Isotropic(400))
    rows = np.random.default_rng(0).standard_normal((3, N))
    now, key = rows, key_of_run(3, 0)

    @jax.jit
    def moved(rows, step):
        return DRIFTS[name].moved(rows, inputs, np.float64(1.0), Source(jnp.asarray(key), step))

    with jax.enable_x64(True):
        for step in range(200):  # α = 1/2
            now = np.asarray(moved(now, jnp.asarray(step)))
    overlap = np.sum(now * rows, axis=1) / np.sum(rows**2, axis=1)
    if name == "rotation":
        np.testing.assert_allclose(overlap, np.cos(0.2), atol=1e-4)
        np.testing.assert_allclose(now @ now.T, rows @ rows.T, rtol=1e-3, atol=0.1)
        turned = np.asarray(partners(rows, inputs))
        np.testing.assert_allclose(np.sum(turned * rows, axis=1), 0, atol=1e-10)
    else:
        spread = np.sqrt((1 - np.exp(-0.3)) / N)  # of the overlap with the noise
        assert np.all(abs(overlap - np.exp(-0.15)) < 4.5 * spread)
        assert np.all(abs(np.mean(now**2, axis=1) - 1) < 4.5 * np.sqrt(2 / N))


class Pairs(Source):
    """Random numbers of which neighbours cancel."""

    def normal(self, shape, dtype, stream=0, first=0):
        half = super().normal((shape[-1] // 2, 1), dtype, stream, first)
        return (half * jnp.asarray([1.0, -1.0], dtype)).reshape(shape)


def test_a_slow_teacher_keeps_its_norm_in_single_precision():
    """In a step a row loses less than it is rounded by, which must not be rounded away."""
    N, lost = 10**6, 1e-8
    rows = np.repeat(np.random.default_rng(0).uniform(1, 2, N // 2), 2).astype(np.float32)[None]
    drift, inputs = ld.Drift(diffusion=lost * N), ld.Gaussian(ld.Isotropic(N))
    with jax.enable_x64(True):
        pairs = Pairs(jnp.asarray(key_of_run(3, 0)), jnp.asarray(0))
        after = drift.moved(jnp.asarray(rows), inputs, np.float64(1.0), pairs)
    change = np.mean(np.asarray(after, np.float64) - rows)
    rounding = 2.0**-23 / np.sqrt(12 * N)
    assert after.dtype == np.float32 and abs(change + 1.5 * lost) < 1e-3 * lost + 4.5 * rounding


@pytest.mark.parametrize("name", DRIFTS)
def test_the_overlap_with_a_student_at_rest_moves_as_stated(name):
    """With a rate of almost 0 only the teacher moves: cos ω α, or exp(−δ α)."""
    it = line(DRIFTS[name], eta=1e-9, N=40)
    record = ld.solve(it, [0, 1, 2], start=(start := ld.start(it, key=1)))
    R = start.state.R[0, 0]
    angle = 0.4 * record.time.values
    if name == "rotation":
        expected = R[0] * np.cos(angle) + R[1] * np.sin(angle)
    else:
        expected = R[0] * np.exp(-0.3 * record.time.values)
    np.testing.assert_allclose(record.R.values[:, 0, 0], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIFTS)
@pytest.mark.parametrize("system", [line, units])
def test_chain_has_the_law_of_networks(name, system):
    it, times, runs = system(DRIFTS[name], N=24), [0.0, 1.0, 4.0], 3000
    start = ld.start(it, key=3)
    both = [ld.simulate(it, times, start=start, runs=runs, key=5, method=m, dtype="float64")
            for m in ("direct", "reduced")]  # fmt: skip
    for variable in ("Q", "R", "error"):
        a, b = (np.moveaxis(record[variable].values[:, 1:], 0, 0) for record in both)
        error = np.sqrt((a.var(0) + b.var(0)) / runs)
        assert np.all(abs(a.mean(0) - b.mean(0)) < 4.8 * error), variable
        # The spread of a skewed variable is known to about twice √(1/2 runs).
        assert np.all(abs(a.std(0) / b.std(0) - 1) < 4.8 * 2 * np.sqrt(1 / runs)), variable


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIFTS)
def test_networks_follow_the_theory(name):
    """The deviation falls as 1/N: extrapolated from N and 2N it vanishes."""
    times, runs, means = [0.0, 1.0, 5.0], 3000, []
    for N in (60, 120):
        it = units(DRIFTS[name], N)
        typical = ld.start(it, key=1).state
        M, K = typical.R.shape[2], 2
        T = np.array([np.eye(M) / 2] * 2)
        state = ld.Overlaps(np.array([np.eye(K) / 2] * 2), 0 * typical.R, T, outputs=[1.0, 0.7])
        start = ld.start(it, state=state)
        record = ld.simulate(it, times, start=start, runs=runs, key=N, method="reduced")
        means.append(record.error.values)
    theory = ld.solve(it, times, start=start).error.values
    estimate = 2 * means[1].mean(0) - means[0].mean(0)
    error = np.hypot(2 * means[1].std(0), means[0].std(0)) / np.sqrt(runs)
    assert np.all(abs(estimate - theory)[1:] < 4.5 * error[1:] + 2e-4)  # 1/N² at N = 60


@pytest.mark.slow
def test_networks_step_as_the_drift_says():
    """One step at a fixed teacher: what moves the teacher is tested above."""
    it = units(DRIFTS["diffusion"])
    start = ld.start(it, key=1)
    measured = measure_drift(it, start, trials=5000, key=2)
    drift = ld.theory_of(it).drift(start.state)
    student = drift.R + 0.3 * start.state.R
    assert np.all(abs(measured.mean.R - student) < 4.8 * measured.error.R)


@pytest.mark.parametrize("name", ["diffusion", pytest.param("rotation", marks=pytest.mark.slow)])
def test_the_chain_knows_rates_that_change(name):
    """It follows the theory of the rate that falls, which is far from that of its first value."""
    times, N, runs = [0.0, 2.0], 100, 100
    rate = jax.tree_util.Partial(lambda top, step: top / (1 + step / 100), np.asarray(0.5))
    systems = [line(DRIFTS[name], eta, N=N) for eta in (rate, 0.5)]
    start = ld.start(systems[0], key=1)
    falls, stays = (ld.solve(it, times, start=start).error.values[-1] for it in systems)
    record = ld.simulate(systems[0], times, start=start, runs=runs, method="reduced")
    found = record.error.values[:, -1]
    allowed = 4.5 * found.std() / np.sqrt(runs) + 5 * falls / N  # standard errors, and order 1/N
    assert abs(found.mean() - falls) < allowed < abs(stays - falls) / 2


def test_what_cannot_move_is_refused():
    with pytest.raises(ValueError, match="diffusion: got neither a diffusion nor a rotation; al"):
        ld.Drift()
    with pytest.raises(
        ValueError, match="diffusion: got both a diffusion and a rotation; allowed is"
    ):
        ld.Drift(diffusion=0.1, rotation=0.1)
    with pytest.raises(ValueError, match="drift: got a rotation for a level of dimension 5; allow"):
        line(ld.Drift(rotation=0.1), N=5)
    with pytest.raises(ValueError, match="drift: got one for a LinearTeacher; allowed is a Commit"):
        ld.TeacherStudent(ld.Isotropic(4), ld.LinearTeacher(1), drift=ld.Drift(rotation=0.1))
    problem = ld.TeacherStudent(ld.Isotropic(4), LINE, drift=ld.Drift(rotation=0.1))
    system = ld.System(problem, ld.Committee(1, "erf"), ld.SGD(0.1, momentum=0.5))
    with pytest.raises(ld.NoTheory, match="online: the rule has momentum"):
        ld.theory_of(system)
    with pytest.raises(
        ValueError, match="drift: got a teacher that moves, in a system without a t"
    ):
        ld.simulate(system, [0, 1])


def test_text_gives_the_problem_back():
    it = line(DRIFTS["rotation"])
    again = ld.System.from_json(it.to_json())
    assert repr(again) == repr(it)
    assert "drift" not in repr(ld.TeacherStudent(ld.Isotropic(4), LINE))
