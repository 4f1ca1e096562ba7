"""The classification error: its closed form, its points, and real networks."""

import numpy as np
import pytest
from scipy.special import erf

import learndyn as ld


def system(student, teacher):
    data = ld.TeacherStudent(ld.Spectrum([1.5, 0.5], [100, 100]), teacher)
    return ld.System(data, student, ld.SGD(0.5))


def outputs(given, begin, count):
    x = np.random.default_rng(0).standard_normal((count, 200))
    x[:, :100], x[:, 100:] = x[:, :100] * 1.5**0.5, x[:, 100:] * 0.5**0.5
    return x @ begin.weights.T / 200**0.5, x @ begin.teacher.T / 200**0.5


def test_the_perceptron_has_the_angle_between_the_two():
    given = system(ld.Committee(2, "linear", outputs=[0.5, -0.3]), ld.Committee(1, "sign"))
    begin = ld.start(given, key=1)
    found = ld.theory_of(given).observe(begin.state)["classification_error"]
    lam = np.repeat([1.5, 0.5], 100)
    w, t = np.array([0.5, -0.3]) @ begin.weights, begin.teacher[0]
    cosine = (w * lam) @ t / np.sqrt((w * lam) @ w * ((t * lam) @ t))
    assert found == pytest.approx(np.arccos(cosine) / np.pi, rel=1e-12)


def test_points_count_what_examples_show():
    """200000 examples know it to 1.1e-3, and the points to about as much."""
    given = system(
        ld.Committee(2, "erf", outputs=[1.0, -0.4], biases=[0.3, 0.0]), ld.Committee(2, "sign")
    )
    begin = ld.start(given, key=2)
    x, y = outputs(given, begin, 200_000)
    student = erf((x + np.array([0.3, 0.0])) / 2**0.5) @ [1.0, -0.4]
    expected = np.mean(np.sign(student) != np.sign(np.sign(y).sum(1)))
    found = ld.theory_of(given).observe(begin.state)["classification_error"]
    assert abs(found - expected) < 5e-3 and 0.1 < expected < 0.9


def test_records_have_it_and_learning_lowers_it():
    given = system(ld.Committee(1, "erf"), ld.Committee(1, "sign"))
    begin = ld.start(given, key=3)
    theory = ld.solve(given, [0, 10.0], start=begin)
    runs = ld.simulate(given, [0, 10.0], start=begin, runs=8, key=1)
    for record in (theory, runs):
        values = record.classification_error.values
        assert np.all(values[..., 1] < 0.7 * values[..., 0])
    assert ld.compare(theory, runs).verdict != "deviates"
    plain = ld.solve(system(ld.Committee(1, "erf"), ld.Committee(1, "erf")), [0, 1.0])
    assert "classification_error" not in plain
    with pytest.raises(ValueError, match="the classification error has no derivative"):
        ld.solve(given, [0, 1.0], fluctuations=True)


def test_signs_do_not_learn():
    with pytest.raises(ValueError, match=r"\Aactivation: got 'sign'[^\n]*teachers only[^\n]*\Z"):
        system(ld.Committee(2, "sign"), ld.Committee(1, "sign"))
