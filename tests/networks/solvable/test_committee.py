"""Committees with output weights and biases: the formula, their weights, their text, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import learndyn as ld

V, B = [0.7, -0.4], [0.3, -0.2]
OLD = (
    '{"kind": "System", "problem": {"kind": "TeacherStudent", "inputs": {"kind": "Gaussian", '
    '"spectrum": {"kind": "Spectrum", "values": [1.0], "counts": [9]}, "frame": null}, "teacher": '
    '{"kind": "Committee", "units": 1, "activation": "erf", "scale": 1.0, "init": {"kind": '
    '"Normal", "std": 1.0}, "trainable": null}, "label_noise": 0.1, "loss": {"kind": '
    '"SquaredLoss", "scale": 0.5}}, "network": {"kind": "Committee", "units": 2, "activation": '
    '"erf", "scale": 0.7, "init": {"kind": "Normal", "std": 0.5}, "trainable": null}, "rule": '
    '{"kind": "SGD", "learning_rate": 0.3, "batch": 1, "sampling": "replacement"}}'
)


def system(network, rule=None, teacher=None, N=9):
    data = ld.TeacherStudent(ld.Isotropic(N), teacher or ld.Committee(1, "erf"), label_noise=0.1)
    return ld.System(data, network, rule or ld.SGD(0.3))


@pytest.mark.parametrize("train", [("inputs",), ("inputs", "outputs"), ("biases",)])
def test_the_output_is_the_formula(train):
    network = ld.Committee(2, "erf", scale=1.3, outputs=V, biases=B, train=train)
    weights = network.sample(np.random.default_rng(0), (9,))
    x = np.random.default_rng(1).standard_normal((5, 9))
    rows = weights if train == ("inputs",) else weights.inputs
    expected = 1.3 * erf((x @ rows.T / 3 + B) / 2**0.5) @ V
    with jax.enable_x64(True):
        np.testing.assert_allclose(network(weights, jnp.asarray(x)), expected, rtol=1e-13)


def test_weights_are_an_array_unless_more_is_drawn_or_learns():
    rng = np.random.default_rng
    assert ld.Committee(2, "erf", outputs=V, biases=B).sample(rng(0), (9,)).shape == (2, 9)
    weights = ld.Committee(2, "erf", outputs=V, biases=ld.Normal(0.3)).sample(rng(0), (9,))
    assert isinstance(weights, ld.CommitteeWeights)
    assert weights.outputs is None and weights.biases.shape == (2,)
    both = ld.Committee(2, "erf", train=["biases", "outputs"])
    assert both.train == ("outputs", "biases")
    weights = both.sample(rng(0), (9,))
    np.testing.assert_array_equal(weights.outputs, [1, 1])
    np.testing.assert_array_equal(weights.biases, [0, 0])


def test_drawn_outputs_have_their_distribution():
    drawn = ld.Committee(4000, "erf", outputs=ld.Normal(0.5)).sample(np.random.default_rng(0), (2,))
    assert np.std(drawn.outputs) == pytest.approx(0.5, rel=4 / np.sqrt(2 * 4000))
    sphere = ld.Committee(5, "erf", outputs=ld.Orthonormal(0.5)).sample(
        np.random.default_rng(0), (9,)
    )
    assert np.sum(sphere.outputs**2) == pytest.approx(5 * 0.25)


def test_only_what_is_trained_moves():
    for train in (("inputs",), ("outputs",), ("inputs", "biases")):
        network = ld.Committee(
            2, "erf", outputs=ld.Normal(1.0), biases=ld.Normal(1.0), train=train, trainable=4
        )
        given = system(network, ld.SGD(0.3, decay=0.5))
        begin = ld.start(given, key=1)
        after = ld.update(given, begin.weights, teacher=begin.teacher)
        moved = {
            part
            for part in after._fields
            if np.any(getattr(after, part) != getattr(begin.weights, part))
        }
        assert moved == set(train)
        np.testing.assert_array_equal(after.inputs[:, 4:], begin.weights.inputs[:, 4:])


def test_text_of_plain_committees_is_as_it_was():
    old = ld.System.from_json(OLD)
    assert old.to_json() == OLD
    assert repr(old.network) == (
        "Committee(units=2, activation='erf', scale=0.7, init=Normal(std=0.5), trainable=None)"
    )
    assert repr(old.rule) == "SGD(learning_rate=0.3, batch=1, sampling='replacement')"
    assert old.network.outputs is None and old.network.train == ("inputs",)


def test_text_of_others_is_complete():
    network = ld.Committee(2, "erf", outputs=V, biases=ld.Normal(0.2), train=("inputs", "outputs"))
    rule = ld.SGD(0.3, output_rate=0.2, decay=0.0, output_decay=0.1)
    given = system(network, rule, ld.Committee(1, "erf", outputs=[-2.0]))
    again = ld.System.from_json(given.to_json())
    assert again.to_json() == given.to_json() and repr(again) == repr(given)
    np.testing.assert_array_equal(again.network.outputs, V)
    assert again.rule.decay == 0.0 and again.rule.bias_rate is None


@pytest.mark.parametrize(
    "g", [jnp.tanh, ld.Activation(jax.nn.relu, kinks=(0.0,))], ids=["function", "activation"]
)
def test_text_of_functions_names_them(g):
    given = system(ld.Committee(2, g), teacher=ld.Committee(1, g))
    again = ld.System.from_json(given.to_json())
    assert again.to_json() == given.to_json() and not given.not_in_json()


def test_a_teachers_drawn_outputs_belong_to_the_start():
    teacher = ld.Committee(2, "erf", outputs=ld.Normal(1.0))
    given = system(ld.Committee(2, "erf"), teacher=teacher)
    one, other = ld.start(given, key=1), ld.start(given, key=2)
    np.testing.assert_array_equal(one.teacher.outputs, one.state.teacher_outputs)
    assert np.all(one.state.teacher_outputs != other.state.teacher_outputs)
    # The overlaps are those of a teacher whose outputs are not drawn.
    plain = ld.start(system(ld.Committee(2, "erf"), teacher=ld.Committee(2, "erf")), key=1)
    np.testing.assert_array_equal(plain.state.gram, one.state.gram)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.Committee(2, "erf", outputs=[1.0]), "outputs: got shape (1,); allowed are 2"),
        (lambda: ld.Committee(2, "erf", biases="a"), "biases: got 'a'"),
        (lambda: ld.Committee(2, "erf", outputs=[1.0, np.nan]), "outputs: entry (1,) is nan"),
        (lambda: ld.Committee(2, "erf", train=("gates",)), "train: got 'gates'; allowed is one of"),
        (lambda: ld.Committee(2, "erf", train=()), "train: got ()"),
        (
            lambda: system(ld.Committee(2, "erf"), teacher=ld.Committee(1, "erf", train="outputs")),
            "teacher: got a Committee with train=('outputs',), but teachers do not learn",
        ),
        (
            lambda: system(ld.Committee(2, "erf"), ld.SGD(0.1, output_rate=0.1)),
            "output_rate: got 0.1, but the network trains no outputs; allowed is None",
        ),
        (
            lambda: system(ld.Committee(2, "erf", train=("outputs",)), ld.SGD(1.0)),
            "output_rate: got 1 for N = 9; rates of outputs are per N",
        ),
        (lambda: ld.SGD(0.1, decay=-1.0), "decay: got -1.0"),
        (
            lambda: ld.start(
                system(ld.Committee(1, "erf", outputs=ld.Normal(1.0))),
                state=ld.Overlaps(np.eye(1), np.zeros((1, 1)), np.eye(1)),
            ),
            "state: got no outputs, which are drawn; allowed are 1 numbers",
        ),
        (
            lambda: ld.start(
                system(ld.Committee(1, "erf")),
                state=ld.Overlaps(np.eye(1), np.zeros((1, 1)), np.eye(1), outputs=[1.0]),
            ),
            "state: got outputs, but the network states them itself; allowed here is None",
        ),
        (
            lambda: ld.Overlaps(np.eye(1), np.zeros((1, 1)), np.eye(1), outputs=[1.0, 2.0]),
            "outputs: got shape (2,); allowed beside R (1, 1, 1) is (1,)",
        ),
        (
            lambda: ld.start(
                system(ld.Committee(1, "erf", train="outputs")),
                weights=(np.ones((1, 9)), np.ones(1)),
                teacher=np.ones((1, 9)),
            ),
            "weights: got a tuple; allowed is CommitteeWeights(inputs, outputs, biases)",
        ),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
