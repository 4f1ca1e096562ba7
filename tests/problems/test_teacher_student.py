"""Any network may label Gaussian inputs."""

import jax
import numpy as np
import pytest

import learndyn as ld

TEACHERS = {
    "mlp": ld.MLP([6, 4, 1], "tanh"),
    "function": ld.Network(
        lambda key: jax.random.normal(key, (6,)), lambda w, x: x @ w, shape=(6,)
    ),
    "linear": ld.LinearTeacher(1),
}


@pytest.mark.parametrize("teacher", TEACHERS.values(), ids=TEACHERS)
def test_a_student_learns_from_any_teacher(teacher):
    problem = ld.TeacherStudent(ld.PowerLaw(6, 2, 1.0), teacher, label_noise=0.1)
    system = ld.System(problem, ld.MLP([6, 16, 1], "tanh"), ld.SGD(0.1, batch=8))
    record = ld.simulate(system, [0, 400], key=1)
    assert record["error"][0, 1] < 0.3 * record["error"][0, 0]
    assert "held-out examples without label noise" in record.attrs["error_from"]


def test_measured_examples_are_those_of_the_teacher():
    problem = ld.TeacherStudent(ld.Isotropic(6), TEACHERS["mlp"], label_noise=5.0)
    weights = problem.draw_teacher(np.random.default_rng(0))
    with jax.enable_x64(True):
        (examples,) = problem.measured_on(weights, np.float64).values()
        np.testing.assert_array_equal(examples.y, TEACHERS["mlp"](weights, examples.x))


def test_what_a_teacher_must_say():
    silent = ld.Network(lambda key: jax.random.normal(key, (6,)), lambda w, x: x @ w)
    problem = ld.TeacherStudent(ld.Isotropic(6), silent)
    with pytest.raises(ValueError, match="input_shape: got None of a Network; allowed is a shape"):
        ld.simulate(ld.System(problem, ld.MLP([6, 1], "tanh"), ld.SGD(0.1)), [1])
