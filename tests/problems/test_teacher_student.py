"""Any network may label Gaussian inputs."""

import jax
import numpy as np
import pytest

import learndyn as ld
from learndyn.networks import AbstractNetwork

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


class Own(AbstractNetwork):
    """A network of one's own, with the methods that docs/architecture.md names and no more."""

    @property
    def input_shape(self):
        return None

    def output_shape(self, input_shape, dtype=None):
        return ()

    def sample(self, rng, input_shape, target=None):
        return rng.standard_normal(input_shape)

    def __call__(self, weights, x):
        return x @ weights


SILENT = {
    "function": ld.Network(lambda key: jax.random.normal(key, (6,)), lambda w, x: x @ w),
    "class": Own(),
}


@pytest.mark.parametrize("own", SILENT.values(), ids=SILENT)
def test_a_network_that_does_not_say_its_inputs_teaches_and_learns(own):
    problem = ld.TeacherStudent(ld.PowerLaw(6, 2, 1.0), own)
    record = ld.simulate(ld.System(problem, own, ld.SGD(0.1, batch=8)), [0, 400], key=1)
    assert record["error"][0, 1] < 1e-3 * record["error"][0, 0]


def test_weights_of_the_teacher_are_checked():
    system = ld.System(
        ld.TeacherStudent(ld.Isotropic(6), ld.Committee(2, "erf")),
        ld.Committee(3, "erf"),
        ld.SGD(0.1),
    )
    begin = ld.start(system)
    with pytest.raises(
        ValueError, match=r"\Ateacher: got shapes \[\(2, 5\)\]; allowed is \[\(2, 6\)"
    ):
        ld.start(system, weights=begin.weights, teacher=begin.teacher[:, :5])
    with pytest.raises(ValueError, match=r"\Aweights: entry \(0, 1\) is nan; allowed are finite"):
        ld.start(
            system, weights=begin.weights * np.array([1, np.nan, 1, 1, 1, 1]), teacher=begin.teacher
        )
    data = ld.System(ld.Dataset(np.eye(3), np.ones(3)), ld.MLP([3, 1], "relu"), ld.SGD(0.1))
    with pytest.raises(
        ValueError, match="teacher: got weights for a Dataset, which has no teacher"
    ):
        ld.start(data, weights=ld.start(data).weights, teacher=np.ones(3))
