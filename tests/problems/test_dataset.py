"""Data sets: shapes, types, labels, sets to measure on, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import learndyn as ld

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, size=(40, 4, 4, 1), dtype=np.uint8)
LABELS = RNG.integers(0, 3, size=40)


def trained(problem, network, rule=None, steps=3, **options):
    system = ld.System(problem, network, rule or ld.SGD(0.1, batch=8))
    return ld.simulate(system, [0, steps], key=1, **options)


def test_bytes_are_fractions_of_255():
    """The same training as on floats that were divided before."""
    network = ld.CNN([3], 3, 3, "relu")
    a, b = (
        trained(ld.Dataset(x, LABELS, loss=ld.CrossEntropy()), network)
        for x in (BYTES, (BYTES / np.float32(255)).astype(np.float32))
    )
    np.testing.assert_allclose(a["error"], b["error"], rtol=1e-6)
    assert ld.Dataset(BYTES, LABELS).x.dtype == np.uint8


def test_the_record_has_an_error_and_an_accuracy_for_every_set():
    x = BYTES.reshape(40, -1)
    data = ld.Dataset(
        x[:20], LABELS[:20], loss=ld.CrossEntropy(),
        test=(x[20:33], LABELS[20:33]), validation=(x[33:], LABELS[33:]),
    )  # fmt: skip
    network = ld.MLP([16, 5, 3], "tanh", bias=True)
    start = ld.start(ld.System(data, network, ld.SGD(0.1)), key=4)
    record = trained(data, network, start=start, runs=2)
    sets = {"": slice(0, 20), "test_": slice(20, 33), "validation_": slice(33, 40)}
    for prefix, part in sets.items():
        outputs = np.asarray(network(start.weights, (x[part] / 255).astype(np.float32)))
        logs = outputs - np.log(np.sum(np.exp(outputs), axis=1, keepdims=True))
        loss = -np.mean(logs[np.arange(len(outputs)), LABELS[part]])
        assert record[f"{prefix}error"].dims == ("run", "time")
        np.testing.assert_allclose(record[f"{prefix}error"][:, 0], loss, rtol=1e-5)
        right = np.mean(np.argmax(outputs, axis=1) == LABELS[part])
        np.testing.assert_allclose(record[f"{prefix}accuracy"][:, 0], right, rtol=1e-6)
    assert record.attrs["test_error_from"] == "all 13 examples of the test set"
    assert not np.array_equal(record["error"][0, 1], record["error"][1, 1])


def test_large_sets_are_measured_in_blocks(monkeypatch):
    from learndyn.simulation import example_sets as examples

    x, y = RNG.normal(size=(50, 6)), RNG.normal(size=50)
    data = ld.Dataset(x, y, test=(x[:7], y[:7]))
    whole = trained(data, ld.MLP([6, 4, 1], "erf"), dtype="float64")
    monkeypatch.setattr(examples, "BLOCK", 6 * 8)  # eight examples, so that 50 leave two
    parts = trained(data, ld.MLP([6, 4, 1], "erf"), dtype="float64")
    for name in ("error", "test_error"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-12)


def test_a_theory_and_a_test_set_both_speak():
    x, _ = np.linalg.qr(RNG.normal(size=(12, 3)))
    x, matrix = x * np.sqrt(12), RNG.normal(size=(2, 3))
    data = ld.Dataset(x, x @ matrix.T, test=(x[:5], x[:5] @ matrix.T + 1))
    network = ld.DeepLinear([3, 2], init=ld.Aligned(0.1))
    record = trained(data, network, ld.GradientDescent(0.1), dtype="float64")
    assert {"error", "sigma", "test_error"} <= set(record.data_vars)
    assert record["test_error"][0, 1] > record["error"][0, 1]


def test_labels_with_one_output_are_signs():
    x, labels = RNG.normal(size=(30, 5)), RNG.integers(0, 2, size=30)
    network = ld.MLP([5, 4, 1], "tanh")
    targets = (labels, 2.0 * labels - 1)
    one, other = (trained(ld.Dataset(x, y), network, dtype="float64") for y in targets)
    np.testing.assert_allclose(one["error"], other["error"], rtol=1e-12)
    assert "accuracy" in one and "accuracy" not in other


def test_squared_loss_of_labels_is_one_hot():
    x, labels = RNG.normal(size=(30, 5)), RNG.integers(0, 3, size=30)
    network = ld.MLP([5, 3], "tanh")
    one, other = (
        trained(ld.Dataset(x, y), network, dtype="float64") for y in (labels, np.eye(3)[labels])
    )
    np.testing.assert_allclose(one["error"], other["error"], rtol=1e-12)


def test_a_scalar_and_an_axis_of_length_one_are_the_same_target():
    x, y = RNG.normal(size=(30, 5)), RNG.normal(size=30)
    for network in (ld.MLP([5, 1], "tanh"), ld.DeepLinear([5, 1])):
        a, b = (
            trained(ld.Dataset(x, t), network, ld.GradientDescent(0.01), dtype="float64")
            for t in (y, y[:, None])
        )
        np.testing.assert_allclose(
            a["error"][0], b["error"][0] + a["error"][0, 0] - b["error"][0, 0]
        )


def test_integers_reach_the_network_as_they_are():
    """Tokens that a network looks up in a table: full-batch descent lowers the loss."""
    x = np.random.default_rng(1).integers(0, 7, size=(30, 4))
    draw = lambda key: jax.random.normal(key, (7, 2))
    network = ld.Network(draw, lambda table, x: jnp.sum(table[x], axis=1))
    data = ld.Dataset(x, x[:, 0] % 2, loss=ld.CrossEntropy())
    record = trained(data, network, ld.GradientDescent(0.1), steps=50)
    assert record["error"][0, 1] < 0.9 * record["error"][0, 0]


def test_passes_see_every_example_once():
    """With the identity as features, w counts how often each example was drawn."""
    data = ld.Dataset(np.eye(10), np.ones(10), loss_scale=0.5)
    network = ld.Network(lambda key: np.zeros(10), lambda w, x: x @ w)
    system = ld.System(data, network, ld.SGD(0.3, batch=3, sampling="epochs"))
    probe = {"w": lambda model: model.weights}
    start = ld.start(system, weights=np.zeros(10))
    seen = ld.simulate(
        system, [1, 2, 3, 6, 9], start=start, key=5, dtype="float64", probes=probe, runs=2
    )["w"].values
    # A step on three examples moves w by 0.1 (1 − w) in each; the tenth is left out of a pass.
    counts = np.rint(np.log(1 - seen) / np.log(0.9)).astype(int)
    assert [c.sum() for c in counts[0]] == [3, 6, 9, 18, 27]
    assert counts[0, 2].max() == 1 and counts[0, 3].max() <= 2 and counts[0, 4].max() <= 3
    assert np.any(counts[0] != counts[1])  # runs have orders of their own


def test_shuffles_are_uniform():
    """Over 4000 permutations of four, each of the 24 orders as often as chance allows."""
    from learndyn.numerics.random import Source, key_of_run

    with jax.enable_x64(True):
        words = key_of_run(3, 0)
        draw = jax.jit(jax.vmap(lambda i: Source(words, i).permutation(4)))
        found = np.asarray(draw(jnp.arange(4000)))
    _, counts = np.unique(found @ [64, 16, 4, 1], return_counts=True)
    assert len(counts) == 24
    chi = np.sum((counts - 4000 / 24) ** 2 / (4000 / 24))
    assert chi < 23 + 4.5 * np.sqrt(2 * 23)  # χ² with 23 degrees of freedom


def test_ignored_labels_are_as_if_left_out():
    """Descent, losses and accuracies are those of the other examples."""
    x, kept = RNG.normal(size=(20, 5)), np.arange(20) % 3 > 0
    labels = RNG.integers(0, 3, size=20)
    marked, network = np.where(kept, labels, -100), ld.MLP([5, 3], "tanh")
    ignoring = ld.Dataset(
        x, marked, loss=ld.CrossEntropy(ignore_index=-100), test=(x[:10], marked[:10])
    )
    few = kept[:10]
    others = ld.Dataset(
        x[kept], labels[kept], loss=ld.CrossEntropy(), test=(x[:10][few], labels[:10][few])
    )
    start = ld.start(ld.System(others, network, ld.SGD(0.1)))
    run = lambda data: trained(data, network, ld.GradientDescent(0.5), dtype="float64", start=start)
    a, b = run(ignoring), run(others)
    for name in ("error", "test_error", "accuracy", "test_accuracy"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-12, err_msg=name)


def test_batches_of_ignored_labels_alone_change_nothing():
    loss = ld.CrossEntropy(ignore_index=-100)
    data = ld.Dataset(RNG.normal(size=(20, 5)), np.r_[np.full(19, -100), 1], loss=loss)
    record = trained(data, ld.MLP([5, 3], "tanh"), ld.SGD(0.1), steps=20)
    assert np.all(np.isfinite(record["error"])) and record["outcome"] == "finished"


@pytest.mark.parametrize("rule", [ld.NaturalGradient(0.1), ld.NodePerturbation(0.1)])
def test_rules_that_average_over_all_refuse_ignored_labels(rule):
    loss = ld.CrossEntropy(ignore_index=-100)
    data = ld.Dataset(np.ones((3, 2)), [0, -100, 1], loss=loss)
    for each in (rule, ld.Optax(optax.sgd(0.1), estimator=rule)):
        with pytest.raises(ValueError, match=r"loss: got CrossEntropy\(ignore_index=-100\) for N"):
            ld.System(data, ld.MLP([2, 2], "tanh"), each)


def test_it_does_not_change_with_the_callers_arrays():
    x, y = RNG.normal(size=(3, 8, 2)), RNG.normal(size=(3, 8))
    data = ld.Dataset(x[0], y[0], test=(x[1], y[1]), validation=[x[2], y[2]])
    system = ld.System(data, ld.MLP([2, 1], "tanh"), ld.GradientDescent(0.1))
    names = ["error", "test_error", "validation_error"]
    before = ld.simulate(system, [0, 2])[names].load().copy(deep=True)
    x *= 3
    y -= 1
    assert ld.simulate(system, [0, 2])[names].equals(before)


def test_arrays_that_cannot_change_are_shared():
    x, y = RNG.normal(size=(8, 2)), RNG.normal(size=8)
    first = ld.Dataset(x, y)
    assert not np.shares_memory(first.x, x)
    assert np.shares_memory(ld.Dataset(first.x, first.y, test=(first.x, first.y)).test[0], first.x)
    with pytest.raises(ValueError, match="read-only"):
        first.x[0] = 0
    view = x[:4]
    view.flags.writeable = False  # it still changes with what it is a view of
    assert not np.shares_memory(ld.Dataset(view, y[:4]).x, x)


GOOD = (np.ones((4, 3)), np.ones(4))


def fits(problem, network, rule=None):
    return lambda: ld.System(problem(), network, rule or ld.SGD(0.1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.Dataset(*GOOD, loss=ld.CrossEntropy(), loss_scale=1.0), "loss_scale: got a"),
        (lambda: ld.Dataset([], []), "x: got (0,) beside y (0,)"),
        (lambda: ld.Dataset(np.ones((0, 3)), np.ones(0)), "x: got (0, 3) beside"),
        (lambda: ld.Dataset([[1, 2], [3]], [1, 2]), "x: got rows of unequal length"),
        (lambda: ld.Dataset([["a"]], [1.0]), "x: got <U1; allowed are real numbers"),
        (lambda: ld.Dataset([[1j]], [1.0]), "x: got complex128; allowed are real numbers"),
        (lambda: ld.Dataset(np.ones((2, 3)), [0, -1]), "y: got the label -1; allowed are integer"),
        (lambda: ld.Dataset(*GOOD, test=3), "test: got an int; allowed is a pair (x, y)"),
        (
            lambda: ld.Dataset(*GOOD, test=(np.ones((2, 4)), np.ones(2))),
            "test x: got float64 of shape (2, 4); allowed is that of the data set",
        ),
        (
            lambda: ld.Dataset(*GOOD, validation=(np.ones((2, 3)), [0, 1])),
            "validation y: got int32 of shape (2,)",
        ),
        (
            fits(lambda: ld.Dataset(np.ones((4, 3)), [0, 1, 2, 4]), ld.MLP([3, 4], "relu")),
            "y: got the label 4 for 4 outputs; allowed are the labels 0 to 3",
        ),
        (
            fits(lambda: ld.Dataset(np.ones((3, 3)), [0, 1, 2]), ld.MLP([3, 1], "relu")),
            "y: got the label 2 for one output; allowed are the labels 0 and 1",
        ),
        (
            fits(
                lambda: ld.Dataset(np.ones((2, 3)), [0, 1], loss=ld.CrossEntropy()),
                ld.MLP([3, 2], "relu", output="softmax"),
            ),
            "loss: got CrossEntropy, which applies a softmax itself",
        ),
        (
            fits(lambda: ld.Dataset(*GOOD), ld.MLP([3, 2], "relu")),
            "network: got 2 outputs; allowed here is one scalar",
        ),
        (
            fits(lambda: ld.Dataset(*GOOD), ld.CNN([2], 3, 1, "relu")),
            "network: got inputs of shape (3,); allowed is ('any', 'any', 'any')",
        ),
        (
            fits(
                lambda: ld.Dataset(*GOOD), ld.MLP([3, 1], "relu"),
                ld.SGD(0.1, batch=5, sampling="epochs"),
            ),
            "batch: got 5 for epochs of 4 examples",
        ),
        (
            fits(
                lambda: ld.TeacherStudent(ld.Isotropic(3), ld.Committee(1, "erf")),
                ld.Committee(1, "erf"), ld.SGD(0.1, sampling="epochs"),
            ),
            "sampling: got 'epochs' for a TeacherStudent, which draws fresh examples",
        ),
        (
            lambda: ld.Optax(optax.sgd(0.1), sampling="epochs"),
            "sampling: got 'epochs' without a batch",
        ),
        (lambda: ld.SGD(0.1, sampling="shuffle"), "sampling: got 'shuffle'; allowed is one of"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
