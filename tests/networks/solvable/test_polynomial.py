"""Polynomials as functions and as teachers."""

import jax
import numpy as np
import pytest

import learndyn as ld

F = ld.Polynomial([(2.0, {0: 1, 3: 2}), (-1.5, {1: 3}), (0.5, {})], dim=5)
X = np.random.default_rng(0).normal(size=(7, 5))


def by_hand(x):
    return 2 * x[..., 0] * x[..., 3] ** 2 - 1.5 * x[..., 1] ** 3 + 0.5


def test_it_is_the_function():
    with jax.enable_x64(True):
        np.testing.assert_allclose(F(X), by_hand(X), rtol=1e-13)
        np.testing.assert_allclose(F(X[0]), by_hand(X[0]), rtol=1e-13)
    assert float(F([1, 2, 0, 3, 0])) == 2 * 9 - 1.5 * 8 + 0.5
    assert F.degree == 3 and F.coordinates == [0, 1, 3]


def test_derivatives_at_zero_are_finite():
    """A power written as exp(m log x) would have none."""
    slope = ld.probes.agop(F, np.zeros((1, 5)))
    np.testing.assert_array_equal(slope, np.zeros((5, 5)))


def test_exponents_of_one_coordinate_add_up():
    assert ld.Polynomial([(1.0, [(0, 1), (0, 1)])], 2) == ld.Polynomial([(1.0, {0: 2})], 2)


def test_a_student_learns_it():
    teacher = ld.Polynomial([(1.0, {0: 1, 1: 1}), (0.5, {2: 1})], dim=4)
    problem = ld.TeacherStudent(ld.Isotropic(4), teacher)
    system = ld.System(problem, ld.MLP([4, 64, 1], "relu", bias=True), ld.SGD(0.2, batch=16))
    record = ld.simulate(system, [0, 2000], key=1)
    assert record["error"][0, 1] < 0.2 * record["error"][0, 0]
    assert ld.System.from_json(system.to_json()) == system
    np.testing.assert_array_equal(ld.start(system, key=0).teacher, [1.0, 0.5])


REFUSED = {
    "no terms": lambda: ld.Polynomial([], 3),
    "no list": lambda: ld.Polynomial(3, 3),
    "no pair": lambda: ld.Polynomial([1.0], 3),
    "a coordinate beyond": lambda: ld.Polynomial([(1.0, {3: 1})], 3),
    "a name": lambda: ld.Polynomial([(1.0, {"x": 1})], 3),
    "a negative exponent": lambda: ld.Polynomial([(1.0, {0: -1})], 3),
    "a fraction": lambda: ld.Polynomial([(1.0, {0: 0.5})], 3),
    "NaN": lambda: ld.Polynomial([(float("nan"), {0: 1})], 3),
    "no dimension": lambda: ld.Polynomial([(1.0, {0: 1})], 0),
    "inputs of others": lambda: F(np.ones(4)),
    "another dimension": lambda: ld.TeacherStudent(ld.Isotropic(4), F),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line(make):
    with pytest.raises(ValueError, match=r"\A[a-z]+: [^\n]*allowed[^\n]*\Z"):
        make()
