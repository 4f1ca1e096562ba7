"""The data sets of zhu2024quadratic's test losses, and a tiny run of all three models."""

import dataclasses

import numpy as np
import pytest

import learndyn as ld
from learndyn.studies.zhu2024quadratic import (
    _generalisation,
    _model,
    _patches,
    _span,
    fig3_4,
    figB_2,
    figB_8,
    figB_10,
    phase_diagram,
)
from learndyn.studies.zhu2024quadratic._model import one_example, top_kernel, two_layers
from learndyn.studies.zhu2024quadratic._tasks import Panel, task
from learndyn.theory.quadratic_model.catapult import Regime


def test_panels_have_names():
    for study in (fig3_4, figB_8, figB_10):
        labels = [Panel.of(text).label for text in (*study.PANELS, *study.PRESETS["quick"].panels)]
        assert len(set(labels)) == len(labels)
        assert not any("svhn" in text for text in study.PRESETS["paper"].panels)
    assert Panel.of("svhn cnn tanh sgd").label == "svhn, 2-layer CNN, tanh, SGD"
    with pytest.raises(ValueError, match="panels: got 'digits fc2'; allowed is 'data network"):
        Panel.of("digits fc2")
    with pytest.raises(ValueError, match="panels: got 'elu'; allowed is one of 'relu'"):
        Panel.of("digits fc2 elu gd")


def test_examples_are_scaled_named_and_not_shared():
    data, name = task(Panel.of("digits fc2 relu gd"), 0, 100, 3)
    assert name == "scikit-learn digits, classes 3 and 5, 64 to train, 100 to test"
    assert data.x.shape == (64, 64) and set(data.y) == {0, 1}
    assert data.x.mean() == pytest.approx(0, abs=1e-5) and data.x.std() == pytest.approx(1)
    both = np.concatenate([data.x, data.test[0]])
    assert len(np.unique(both, axis=0)) == 164
    images, _ = task(Panel.of("digits cnn relu gd"), 10, 5, 3)
    np.testing.assert_allclose(images.x.reshape(10, -1).std(), 1, rtol=1e-5)
    assert images.x.shape == (10, 8, 8, 1)


def test_rates_are_of_the_kernel_and_the_linear_twin_knows_them():
    params = _generalisation.Params(
        ("digits fc2 relu gd",), width=16, examples=8, test=20, runs=2, rates=(0.5, 1.3, 2.5),
        steps=150, readings=5, key=4,
    )  # fmt: skip
    data = _generalisation.compute(params, lambda done: None)
    lost = data["diverged"].sel(model="f_lin").transpose("panel", "run", "rate").values
    np.testing.assert_array_equal(lost, [[[0, 1, 1], [0, 1, 1]]])
    assert dict(data.sizes) == {"panel": 1, "run": 2, "model": 3, "rate": 3}
    assert np.all(np.isfinite(data["loss"])) and np.all(data["critical"] > 0)


def test_phase_diagram_replaces_a_network_whose_units_are_all_off():
    """Seed 48 of the paper preset has one at width 10, whose kernel is 0."""
    params = dataclasses.replace(phase_diagram.PRESETS["paper"], steps=20)
    v = np.full(3 * params.trained, 1.5)
    assert top_kernel(two_layers(3, 10, 48), one_example(48, 3)) == 0
    ended = phase_diagram._network(params, 1.0, 10, v, 48)
    assert ended == (Regime.MONOTONE, Regime.MONOTONE, 1)
    other, alive = (phase_diagram.responding(3, 10, seed, len(v)) for seed in (48, 47))
    np.testing.assert_array_equal(other[0], one_example(48 + 90, 3))
    np.testing.assert_array_equal(alive[0], one_example(47, 3))
    assert (other[2], alive[2]) == (1, 0)


@pytest.mark.parametrize("name", ["f", "f_lin", "f_quad"])
@pytest.mark.parametrize("network", [ld.CNN([12], 3, 1, "relu"), ld.MLP([72, 12, 1], "relu")])
def test_networks_in_blocks_train_like_whole_ones(network, name):
    x, y = np.random.default_rng(0).standard_normal((5, 6, 6, 2)), [1.0, -1, 1, 1, -1]
    x = x if isinstance(network, ld.CNN) else x.reshape(5, -1)
    model = ld.Model(network, network.sample(np.random.default_rng(1), x.shape[1:]))
    blocks, u = _patches.blocks_of(model, x, numbers=5 * 36 * 8)
    blocks = dataclasses.replace(blocks, name=name)
    assert len(blocks.V) > 1
    rate, times = 1.3 * 5 / top_kernel(model, x), np.arange(7.0)
    whole = _model.train(
        _model.mean_square(x, y), _model.twin(model, name), model.weights, rate, times,
        {"gram": lambda now: _model.gram(now, x)},
    )  # fmt: skip
    parts = _model.train(
        _model.mean_square(u, y), blocks, (blocks.V, blocks.a), rate, times,
        {"gram": lambda now: blocks.gram(now.weights, u)},
    )  # fmt: skip
    np.testing.assert_allclose(parts["error"], whole["error"], rtol=1e-11)
    np.testing.assert_allclose(parts["gram"], whole["gram"], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["f", "f_quad"])
def test_coordinates_of_the_span_train_like_inputs(name):
    x, y = np.random.default_rng(0).standard_normal((4, 30)), [1.0, -1, 1, -1]
    wide, few = two_layers(30, 16, 1), two_layers(4, 16, 1)
    weights = wide.weights[0].weight @ _span.basis_of(x)
    few = ld.Model(few.network, (few.weights[0]._replace(weight=weights), wide.weights[1]))
    rate = 1.3 * 4 / top_kernel(wide, x)
    errors = [
        _model.train(
            _model.mean_square(inputs, y), _model.twin(model, name), model.weights, rate, range(9)
        )["error"]
        for model, inputs in ((wide, x), (few, _span.coordinates(x)))
    ]
    np.testing.assert_allclose(*errors, rtol=1e-11)
    assert _span.coordinates(x.T).shape == (30, 4)


def test_figB_2_has_the_panels_of_the_thesis():
    assert [Panel.of(text).data for text in figB_2.SOURCES] == ["cifar10"] * 2 + ["svhn"] * 2
    params = figB_2.Params(("digits cnn relu gd",), n=6, channels=4, steps=3, seeds=1, first_seed=2)
    data = figB_2.compute(params, lambda done: None)
    assert dict(data.sizes) == {"panel": 1, "seed": 1, "model": 2, "time": 3}
    np.testing.assert_allclose(*(data["loss"].isel(time=0).values.T), rtol=1e-12)
    assert [row.status for row in figB_2.check(data)][-4:] == ["open"] * 4


@pytest.mark.parametrize("sizes", [(30, 16, 1), (30, 16, 8, 1)])
@pytest.mark.parametrize("name", ["f", "f_lin", "f_quad"])
def test_losses_on_test_inputs_are_those_of_the_whole_network(name, sizes):
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((14, 30)), np.arange(14) % 2
    data = ld.Dataset(x[:6], y[:6], loss_scale=1.0, test=(x[6:], y[6:]))
    network = ld.MLP(sizes, "tanh")
    model = ld.Model(network, network.sample(rng, (30,)))
    rate = 1.3 * 6 / top_kernel(model, x[:6])
    both = []
    for problem, one in ((data, model), _span.in_span(data, model)):
        system = ld.System(problem, _model.twin(one, name), ld.SGD(rate, batch=2))
        start = ld.start(system, weights=one.weights)
        both.append(ld.simulate(system, range(9), start=start, method="direct", dtype="float64"))
    for what in ("error", "test_error"):  # inputs in coordinates are stored in float32
        np.testing.assert_allclose(both[0][what], both[1][what], rtol=1e-4)
