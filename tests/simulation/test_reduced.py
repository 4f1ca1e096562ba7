"""The reduced engine: reproducible, bounded, exact where the overlaps are singular."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.linalg import smallest_eigenvalue
from learndyn.simulation import reduced


def system(eta=0.5, spectrum=None, activation="erf", K=2, M=2, noise=0.1, scale=1.0, batch=1):
    spectrum = ld.Isotropic(60) if spectrum is None else spectrum
    teacher = ld.Committee(M, activation, scale=scale)
    data = ld.TeacherStudent(spectrum, teacher, label_noise=noise)
    return ld.System(data, ld.Committee(K, activation, scale=scale), ld.SGD(eta, batch=batch))


def run(it, times, **options):
    return ld.simulate(it, times, method="reduced", **options)


def test_record_has_the_schema_of_the_direct_engine():
    ours, theirs = (ld.simulate(system(), [0, 1, 2.5], runs=3, method=m)
                    for m in ("reduced", "direct"))  # fmt: skip
    assert {n: v.dims for n, v in ours.items()} == {n: v.dims for n, v in theirs.items()}
    assert ours.attrs["method"] == "reduced" and ours.attrs["dtype"] == "float64"
    assert ours.attrs["generator"] == "SplitMix64"
    np.testing.assert_array_equal(ours.step, [0, 60, 150])
    # The same start, up to the precision of the direct engine's weights.
    np.testing.assert_allclose(ours.Q[:, 0], theirs.Q[:, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("batch", "counts"), [(1, (1, 21)), pytest.param(4, (5,), marks=pytest.mark.slow)]
)
def test_a_run_does_not_depend_on_the_others(batch, counts):
    it = system(spectrum=ld.Spectrum([2.0, 0.5], [3, 40]), batch=batch)
    many = run(it, [1, 4], runs=150, key=7)
    for runs in counts:
        few = run(it, [1, 4], runs=runs, key=7)
        for name in ("Q", "R", "error"):
            np.testing.assert_array_equal(few[name], many[name][:runs])
    assert np.all(np.std(many.R.values, axis=0) > 0)


def test_a_run_does_not_depend_on_the_times_or_the_block(monkeypatch):
    it = system()
    once = run(it, [3], key=7)
    often = run(it, np.arange(1, 181) / 60, key=7)
    np.testing.assert_array_equal(often.R[:, -1], once.R[:, -1])
    monkeypatch.setattr(reduced, "NUMBERS", {True: 512, False: 512})
    small = run(it, [3], key=7)
    np.testing.assert_array_equal(small.R, once.R)


def test_memory_does_not_grow_with_the_number_of_steps(peak_memory):
    """What is held is one block of random numbers, of 120 000 steps they would take 300 MB."""
    it = system()
    chain = ld.theory_of(it).chain()
    each = chain.normals + len(chain.degrees)
    assert reduced.block_size(chain, 64) * 64 * each <= reduced.NUMBERS[True]
    run(it, [1], runs=64)
    assert 120_000 * 64 * each * 8 > 300e6
    assert peak_memory(lambda: run(it, [2000], runs=64)) < 50


def test_dimension_costs_nothing_and_the_state_still_moves():
    it = system(spectrum=ld.Isotropic(10**8), activation="quadratic", scale=0.5)
    begin = ld.start(it, key=1)
    record = run(it, [0, 2e-5], start=begin, runs=3)
    moved = record.R[:, 1] - record.R[:, 0]
    assert np.all(np.abs(moved) > 0)
    # 2000 steps of size 1/N, all of one law: standard deviation of about √2000 η/N.
    expected = ld.theory_of(it).drift(begin.state).R[0] * 2e-5
    assert np.max(np.abs(moved - expected)) < 100 * np.sqrt(2000) * 0.5e-8


@pytest.mark.slow
def test_large_N_follows_the_theory():
    it = system(spectrum=ld.PowerLaw(10**6, 2, 1.0), K=2, M=1, noise=0.0, eta=1.0)
    begin = ld.start(it, key=1)
    record, theory = run(it, [0.02], start=begin, runs=8), ld.solve(it, [0.02], start=begin)
    error = record.R.std("run", ddof=1) / np.sqrt(8)
    # Student's t with 7 degrees of freedom exceeds 7.1 in one of 5000.
    assert np.all(np.abs(record.R.mean("run") - theory.R) < 7.1 * error)
    assert float(error.max()) < 1e-3


def on_the_manifold(spectrum, T):
    """Student = teacher: the Gram matrix (T, T; T, T) is singular and the error zero."""
    it = system(spectrum=spectrum, M=3, K=3, noise=0.0, eta=1.0)
    return it, ld.Overlaps(T, T, T)


def test_zero_error_stays_exactly():
    it, state = on_the_manifold(ld.Isotropic(50), np.eye(3))
    record = run(it, [0, 5, 20], start=ld.start(it, state=state), runs=2)
    assert np.all(record.Q.values == np.eye(3)) and np.all(record.R.values == np.eye(3))
    assert np.all(np.abs(record.error) < 1e-15)


def test_zero_error_stays_to_rounding_for_any_teacher():
    A = np.random.default_rng(0).standard_normal((2, 3, 9)) / 3
    T = A @ A.swapaxes(1, 2)
    it, state = on_the_manifold(ld.Spectrum([1.5, 0.5], [20, 20]), T)
    record = run(it, [0, 5, 20], start=ld.start(it, state=state), runs=2)
    first = record.isel(time=0)
    assert float(np.max(np.abs(record.Q - first.Q))) < 1e-12
    assert float(np.max(np.abs(record.error))) < 1e-13


@pytest.mark.parametrize("activation", ["erf", "quadratic"])
def test_overlaps_stay_semidefinite_on_the_way_to_zero_error(activation):
    """Learning to the end: the student's part outside the teacher's span shrinks to rounding."""
    eta, scale = {"erf": (1.0, 1.0), "quadratic": (0.15, 0.5)}[activation]
    it = system(spectrum=ld.Isotropic(20), activation=activation, noise=0.0, eta=eta, scale=scale)
    state = ld.Overlaps(np.eye(2) * 1.1, np.eye(2) * 0.9, np.eye(2))
    record = run(it, [0, 50, 200, 1000], start=ld.start(it, state=state), runs=4)
    assert np.all(record.outcome == "finished")
    assert float(np.max(record.error[:, -1])) < 1e-10 < float(record.error[0, 0])
    for r in range(4):
        for t in range(4):
            Q, R = record.Q[r, t].values, record.R[r, t].values
            C = np.block([[Q, R], [R.T, np.eye(2)]])
            assert smallest_eigenvalue(C) > -1e-13


def test_divergence_is_a_result():
    it = system(eta=4.0, activation="quadratic")
    record = run(it, [0, 5, 10, 20], runs=12)
    assert "diverged" in set(record.outcome.values)
    for r in range(12):
        at = float(record.diverged_at[r])
        gone = record.time.values >= (np.inf if np.isnan(at) else at)
        assert np.all(np.isnan(record.error[r, gone]))
        assert np.all(np.isfinite(record.error[r, ~gone]))


def test_progress_ends_at_one():
    seen = []
    run(system(), [0, 2], runs=30, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == pytest.approx(1.0)


def test_auto_takes_it_where_it_is_cheaper():
    large = system(spectrum=ld.Isotropic(2000))
    assert ld.simulate(large, [0.01]).attrs["method"] == "reduced"
    every = ld.PowerLaw(24, 24, 1.0)  # a level for every dimension: nothing to gain
    assert ld.simulate(system(spectrum=every), [1]).attrs["method"] == "direct"
    probed = ld.simulate(large, [0.01], probes={"first": lambda model: model.weights[0, 0]})
    assert probed.attrs["method"] == "direct"
    data = ld.TeacherStudent(ld.Isotropic(30), ld.Committee(1, "linear"))
    mixed = ld.System(data, ld.Committee(3, "erf"), ld.SGD(0.2))
    assert ld.simulate(mixed, [1]).attrs["method"] == "direct"


def _dataset():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 9))
    return ld.System(ld.Dataset(x, x[:, 0]), ld.Committee(2, "erf"), ld.SGD(0.1))


def _perturbed():
    data = ld.TeacherStudent(ld.Isotropic(9), ld.Committee(1, "linear"))
    return ld.System(data, ld.Committee(3, "erf"), ld.NodePerturbation(0.2))


def _descent():
    data = ld.TeacherStudent(ld.Isotropic(9), ld.Committee(1, "erf"))
    return ld.System(data, ld.Committee(1, "erf"), ld.GradientDescent(0.1))


def _deep():
    data = ld.TeacherStudent(ld.Isotropic(3), ld.LinearTeacher(2, np.eye(2, 3)))
    return ld.System(data, ld.DeepLinear([3, 4, 2]), ld.GradientDescent(0.1))


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (_dataset, {}, "method: got 'reduced' for Dataset, Committee, SGD"),
        (_perturbed, {}, "the rule is NodePerturbation, not SGD"),
        (_descent, {}, "GradientDescent, which does not sample; allowed here is 'direct'"),
        (_deep, {}, "deep linear theory knows no exact chain"),
        (system, {"probes": {"norms": lambda model: 0.0}}, "probes: got 'norms' with 'reduced'"),
    ],
)
def test_unsupported_systems_are_refused_in_one_line(make, options, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        run(make(), [1], **options)
    assert said in str(caught.value) and "'direct'" in str(caught.value)
