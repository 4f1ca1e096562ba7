"""The classical rules as updates of weights."""

import numpy as np
import pytest

import learndyn as ld

X = np.array([[1.0, 2.0], [-1.0, 0.5]])
W = np.array([[0.3, -0.4]])


def moved(rule, x, label):
    data = ld.Dataset(x[None], np.array([float(label)]))
    return ld.update(ld.System(data, ld.Committee(1, "linear"), rule), W) - W


@pytest.mark.parametrize("label", [-1, 1])
@pytest.mark.parametrize("x", X)
def test_steps_are_those_of_the_rules(x, label):
    h = (W @ x).item() / np.sqrt(2)
    wrong, step = h * label <= 0, label * x / np.sqrt(2)
    np.testing.assert_allclose(moved(ld.Hebb(0.3), x, label), [0.3 * step])
    np.testing.assert_allclose(moved(ld.Perceptron(0.3), x, label), [0.3 * wrong * step])
    np.testing.assert_allclose(moved(ld.AdaTron(0.3), x, label), [0.3 * wrong * abs(h) * step])


def test_integer_labels_are_signs():
    both = [ld.Dataset(X, y) for y in (np.array([0, 1]), np.array([-1.0, 1.0]))]
    steps = [ld.update(ld.System(d, ld.Committee(1, "linear"), ld.Hebb(0.3, batch=2)), W)
             for d in both]  # fmt: skip
    np.testing.assert_array_equal(*steps)


def test_the_perceptron_learns_what_can_be_separated():
    """It makes finitely many errors, after which weights rest."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5))
    x += 0.3 * np.sign(x[:, :1]) * np.eye(5)[0]  # a gap between the classes
    data = ld.Dataset(x, np.sign(x[:, 0]))
    rule = ld.Perceptron(1.0, sampling="epochs")
    record = ld.simulate(ld.System(data, ld.Committee(1, "linear"), rule), [0, 4000, 8000],
                         probes={"w": lambda model: model.weights})  # fmt: skip
    w = record.w.values[0]
    assert np.all(np.sign(x @ w[1, 0]) == np.sign(x[:, 0]))
    np.testing.assert_array_equal(w[1], w[2])


def test_a_schedule_multiplies_the_step():
    rule = ld.Hebb(lambda step: 0.3 / (1 + step))
    np.testing.assert_allclose(moved(rule, X[0], 1), moved(ld.Hebb(0.3), X[0], 1))


def test_several_outputs_are_refused():
    data = ld.Dataset(X, np.eye(2))
    with pytest.raises(ValueError, match="rule: got Hebb for 2 outputs; allowed is a network wit"):
        ld.System(data, ld.DeepLinear([2, 2]), ld.Hebb(0.1))


def test_text_gives_the_rule_back():
    data = ld.TeacherStudent(ld.Isotropic(4), ld.Committee(1, "sign"), loss=ld.Hinge(0.5))
    system = ld.System(data, ld.Committee(1, "linear"), ld.AdaTron(0.5, batch=3))
    again = ld.System.from_json(system.to_json())
    assert repr(again) == repr(system) and again.rule.batch == 3
