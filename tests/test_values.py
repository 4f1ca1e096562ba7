"""Values go to other processes, and into sets and dictionaries."""

import pickle

import jax
import numpy as np
import optax
import pytest

import learndyn as ld

LINEAR = ld.TeacherStudent(ld.Isotropic(5), ld.LinearTeacher(2, np.ones((2, 5))))
COMMITTEES = ld.TeacherStudent(ld.PowerLaw(20, 2, 1.0), ld.Committee(2, "erf"))
DATA = ld.Dataset(np.eye(3), np.ones(3), test=(np.eye(3), np.zeros(3)))
TWIN = ld.MLP([3, 4, 1], "tanh")
MODEL = ld.Model(TWIN, TWIN.sample(np.random.default_rng(0), (3,)))
SYSTEMS = {
    "committee": ld.System(COMMITTEES, ld.Committee(3, "erf"), ld.SGD(0.1)),
    "deep linear": ld.System(LINEAR, ld.DeepLinear([5, 4, 2], init=ld.Aligned(0.1)),
                             ld.NaturalGradient(0.1)),
    "perturbation": ld.System(LINEAR, ld.DeepLinear([5, 4, 2]), ld.NodePerturbation(0.01)),
    "quadratic model": ld.System(DATA, ld.quadratic(MODEL), ld.GradientDescent(0.1)),
    "none": ld.System(DATA, TWIN, ld.SGD(0.1)),
}  # fmt: skip


def sent(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_systems_and_starts_can_be_sent(system):
    begin = ld.start(system, key=3)
    there = sent((system, begin))
    assert there[0] == system and repr(there[0]) == repr(system)
    jax.tree.map(np.testing.assert_array_equal, there[1].state, begin.state)
    for a, b in ((there[1].weights, begin.weights), (there[1].teacher, begin.teacher)):
        jax.tree.map(np.testing.assert_array_equal, a, b)
    given = ld.start(system, weights=begin.weights, teacher=begin.teacher)
    jax.tree.map(np.testing.assert_array_equal, sent(given).weights, begin.weights)


def test_a_start_from_a_state_can_be_sent_before_its_weights_are_made():
    system = SYSTEMS["committee"]
    begin = ld.start(system, state=ld.start(system).state, key=1)
    np.testing.assert_array_equal(sent(begin).weights, begin.weights)


def test_other_public_values_can_be_pickled():
    system = SYSTEMS["committee"]
    theory, begin = ld.theory_of(system), ld.start(system)
    record = ld.solve(system, [0, 1], start=begin)
    runs = ld.simulate(system, [0, 1], start=begin, runs=2, method="reduced")
    assert sent(theory).landmarks() == theory.landmarks()
    assert sent(record).identical(record)
    assert sent(ld.compare(record, runs)).identical(ld.compare(record, runs))
    assert sent(ld.NoTheory("why")).args == ("why",)
    np.testing.assert_array_equal(sent(MODEL)(np.eye(3)), MODEL(np.eye(3)))
    found = ld.probes.critical_learning_rate(MODEL, np.eye(3))
    assert float(sent(found)) == float(found)
    for value in (
        ld.Gaussian(ld.Isotropic(2)),
        ld.CrossEntropy(),
        ld.Polynomial([(1.0, {0: 1})], 2),
    ):
        assert sent(value) == value


def test_equal_systems_are_one_key():
    make = lambda eta: ld.System(COMMITTEES, ld.Committee(3, "erf"), ld.SGD(eta))
    assert hash(make(0.1)) == hash(make(0.1)) and make(0.1) == make(0.1)
    assert {make(0.1): "a", make(0.2): "b"}[make(0.2)] == "b"
    assert len({make(0.1), make(0.1), make(0.3)}) == 2
    assert len({ld.Optax(optax.sgd(0.1)), ld.SGD(0.1), ld.theory_of(make(0.1))}) == 3
    assert hash(ld.Dataset([[0.0]], [1.0])) == hash(ld.Dataset([[-0.0]], [1.0]))
