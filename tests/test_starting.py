"""Starts: the law of drawn states, and weights that have a given state."""

import numpy as np
import pytest

import learndyn as ld


def system(spectrum, student=None, teacher=None, K=3, M=2):
    data = ld.TeacherStudent(spectrum, ld.Committee(M, "erf", init=teacher))
    return ld.System(data, ld.Committee(K, "erf", init=student), ld.SGD(0.1))


@pytest.mark.parametrize("N", [5, 60])
@pytest.mark.parametrize("spectrum", ["one", "two", "uneven"])
def test_realised_weights_have_the_state(N, spectrum):
    choice = {
        "one": ld.Isotropic(10 * N),
        "two": ld.Spectrum([2.0, 0.5], [5 * N, 5 * N]),
        "uneven": ld.Spectrum([2.0, 0.5, 0.1], [2 * N, N, 7 * N]),
    }[spectrum]
    it = system(choice, ld.Normal(0.7), ld.Orthonormal(1.2))
    begin, theory = ld.start(it, key=4), ld.theory_of(it)
    again = theory.project(begin.weights, begin.teacher)
    for a, b in ((again.Q, begin.state.Q), (again.R, begin.state.R), (again.T, begin.state.T)):
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_given_state_is_realised_exactly_even_if_singular():
    it = system(ld.Isotropic(40))
    R = np.array([[0.5, 0.1], [0.2, -0.3], [0.7, -0.2]])
    state = ld.Overlaps(R @ R.T, R, np.eye(2))  # the student inside the teacher's span
    begin = ld.start(it, state=state)
    again = ld.theory_of(it).project(begin.weights, begin.teacher)
    np.testing.assert_allclose(again.Q[0], R @ R.T, atol=1e-13)
    np.testing.assert_allclose(again.R[0], R, atol=1e-13)


def test_rows_of_very_different_lengths_are_all_realised():
    it = system(ld.PowerLaw(40, 4, 1.0))
    W, B = np.split(np.random.default_rng(0).standard_normal((5, 40)), [3])
    W *= np.array([1e-9, 1e-5, 1.0])[:, None]
    theory = ld.theory_of(it)
    state = theory.project(W, B)
    begin = ld.start(it, state=state)
    again = theory.project(begin.weights, begin.teacher)
    lengths = np.sqrt(np.einsum("lii->li", state.gram))
    scale = lengths[:, :, None] * lengths[:, None]
    assert np.all(np.abs(again.gram - state.gram) <= 1e-13 * scale)


def test_orthonormal_rows_are_orthonormal():
    it = system(ld.PowerLaw(60, 4, 1.0), ld.Orthonormal(2.0), ld.Orthonormal(0.5))
    state = ld.start(it, key=0).state
    np.testing.assert_allclose(state.Q.sum(0), 4 * np.eye(3), atol=1e-13)
    np.testing.assert_allclose(state.T.sum(0), 0.25 * np.eye(2), atol=1e-13)


def test_typical_overlaps_are_the_expected_ones():
    it = system(ld.PowerLaw(60, 4, 1.0), ld.Typical(), ld.Typical())
    state = ld.start(it, key=0).state
    np.testing.assert_allclose(state.Q, np.eye(3)[None].repeat(4, 0) / 4, atol=1e-15)
    np.testing.assert_allclose(state.T, np.eye(2)[None].repeat(4, 0) / 4, atol=1e-15)
    assert not np.any(state.R)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((12,), marks=pytest.mark.slow),
        pytest.param((9, 3), marks=pytest.mark.slow),
        (4, 2),
    ],
)  # levels smaller than K + M too
@pytest.mark.parametrize("init", [ld.Normal(0.8), ld.Orthonormal(1.0)])
def test_law_of_the_state_is_that_of_sampled_weights(counts, init):
    spectrum = ld.Spectrum(np.arange(len(counts), 0, -1.0), counts)
    it = system(spectrum, init, ld.Normal(1.0))
    theory, draws = ld.theory_of(it), 3000
    rng = np.random.default_rng(0)
    flat = lambda s: np.concatenate([s.Q.ravel(), s.R.ravel(), s.T.ravel()])
    drawn = np.stack([flat(theory.sample(key)[0]) for key in range(draws)])
    sampled = np.stack(
        [
            flat(theory.project(init.sample(rng, 3, it.dim), rng.standard_normal((2, it.dim))))
            for _ in range(draws)
        ]
    )
    for moment in (1, 2):
        a, b = drawn**moment, sampled**moment
        error = np.sqrt((a.var(0) + b.var(0)) / draws) + 1e-12
        assert np.max(np.abs(a.mean(0) - b.mean(0)) / error) < 4.5


def test_weights_come_only_when_asked():
    begin = ld.start(system(ld.Isotropic(10**9)), key=0)  # weights would take 40 GB
    assert begin.state.Q.shape == (1, 3, 3)


@pytest.mark.parametrize(
    ("Q", "R", "T", "said"),
    [
        (np.eye(3), np.full((3, 2), 0.9), np.eye(2), "positive semidefinite"),
        (np.eye(3), np.full((3, 2), np.nan), np.eye(2), "R has entries that are not finite"),
        (np.eye(3) + np.eye(3, k=1), np.zeros((3, 2)), np.eye(2), "Q that is not symmetric"),
        (np.eye(2), np.zeros((2, 2)), np.eye(2), r"R of shape \(1, 2, 2\); allowed is \(1, 3, 2\)"),
    ],
)
def test_impossible_states_are_refused(Q, R, T, said):
    with pytest.raises(ValueError, match=said):
        ld.start(system(ld.Isotropic(50)), state=ld.Overlaps(Q, R, T))


def test_mismatched_overlaps_are_refused():
    with pytest.raises(ValueError, match="Q: got shape"):
        ld.Overlaps(np.eye(3), np.zeros((2, 2)), np.eye(2))
    with pytest.raises(ValueError, match="state: got a list"):
        ld.start(system(ld.Isotropic(50)), state=[1, 2])


def test_rank_above_the_dimension_is_refused():
    it = system(ld.Isotropic(4))
    state = ld.Overlaps(np.eye(3), np.zeros((3, 2)), np.eye(2))
    with pytest.raises(ValueError, match="rank 5; allowed is at most its dimension 4"):
        _ = ld.start(it, state=state).weights


def test_given_weights_are_taken_as_they_are():
    teacher = ld.Committee(2, "erf")
    it = ld.System(
        ld.TeacherStudent(ld.Isotropic(30), teacher), ld.Committee(3, "erf"), ld.SGD(0.1)
    )
    drawn = ld.start(it, key=1)
    given = ld.start(it, weights=drawn.weights, teacher=drawn.teacher)
    for name in ("Q", "R", "T"):
        a, b = getattr(given.state, name), getattr(drawn.state, name)
        np.testing.assert_allclose(a, b, atol=1e-13)
    np.testing.assert_array_equal(given.weights, drawn.weights)
    a, b = (ld.simulate(it, [0, 1], start=s, method="direct") for s in (given, drawn))
    np.testing.assert_array_equal(a.error, b.error)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"weights": np.ones((3, 30))},
            "teacher: got None; allowed here are the teacher's weights",
        ),
        (
            {"teacher": np.ones((2, 30))},
            "weights: got None; allowed here are the student's weights",
        ),
        (
            {"weights": np.ones((3, 29)), "teacher": np.ones((2, 30))},
            "weights: got shapes [(3, 29)]; allowed is [(3, 30)]",
        ),
        ({"weights": np.ones((3, 30)), "state": 1}, "state: got a state and weights"),
    ],
)
def test_given_weights_that_do_not_fit_are_one_line(options, said):
    teacher = ld.Committee(2, "erf")
    it = ld.System(
        ld.TeacherStudent(ld.Isotropic(30), teacher), ld.Committee(3, "erf"), ld.SGD(0.1)
    )
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        ld.start(it, **options)
    assert said in str(caught.value)


def test_a_fixed_teacher_need_not_be_given():
    data = ld.TeacherStudent(ld.Isotropic(3), ld.LinearTeacher(2, np.ones((2, 3))))
    it = ld.System(data, ld.DeepLinear([3, 2]), ld.GradientDescent(0.1))
    begin = ld.start(it, weights=(np.zeros((2, 3)),))
    np.testing.assert_array_equal(begin.teacher, np.ones((2, 3)))
