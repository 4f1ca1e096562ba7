"""Tasks, starts and readings of curves that the studies of hiratani2022perturbation share."""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy import io

import learndyn as ld
from learndyn.studies.claims import claim
from learndyn.studies.hiratani2022perturbation import (
    _curves,
    _decay,
    _intervals,
    _readings,
    _tasks,
    _times,
)


def test_without_the_training_file_the_test_file_is_split_and_named(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((20, 28))
    io.savemat(tmp_path / "sarcos_inv_test.mat", {"sarcos_inv_test": rows})
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    task = _tasks.motor("sarcos")
    assert task.name == "SARCOS, the test file alone, split, 18 rows to train, 2 to test"
    np.testing.assert_array_equal(task.problem.test[0], rows[[0, 10], :21])
    assert not set(map(tuple, task.problem.x)) & set(map(tuple, task.problem.test[0]))
    io.savemat(tmp_path / "sarcos_inv.mat", {"sarcos_inv": rows[:7]})
    assert _tasks.motor("sarcos", 5).name == "SARCOS, 5 rows to train, 20 to test"


def test_tasks_without_files_say_what_they_are():
    task = _tasks.motor("teacher", 100)
    assert "not SARCOS" in task.name and task.problem.x.shape == (100, 21)
    digits = _tasks.images("digits", 50, flat=False)
    assert digits.name == "scikit-learn digits, 50 images to train, 297 to test"
    x = digits.problem.x
    assert x.shape == (50, 8, 8, 1)  # 50 of the images over which it is standard
    assert abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1
    with pytest.raises(ValueError, match="data: got 'arm'; allowed"):
        _tasks.motor("arm")


def test_starts_are_xavier_in_every_layer_of_dense_and_convolutional_networks():
    task = _tasks.images("digits", 50, flat=False)
    cnn = ld.CNN([40, 60], 3, 10, "relu", parameterisation="standard", bias=True)
    system = ld.System(task.problem, cnn, ld.SGD(0.1))
    one, other = (start.weights for start in _tasks.drawn_starts(system, 3, 2, first=10.0))
    expected = [10 * np.sqrt(2 / (9 * 41)), np.sqrt(2 / (9 * 100)), np.sqrt(2 / (64 * 60 + 10))]
    for layer, std in zip(one, expected, strict=True):
        size = layer.weight.size
        np.testing.assert_allclose(layer.weight.std(), std, rtol=4 / np.sqrt(2 * size))
    assert not np.array_equal(one[0].weight, other[0].weight)
    again = _tasks.drawn_starts(system, 4, 1, first=10.0)[0].weights
    np.testing.assert_array_equal(again[1].weight, other[1].weight)


def test_first_step_is_interpolated_and_missing_where_never():
    step = np.array([0.0, 1.0, 3.0, 7.0])
    curves = xr.DataArray(
        [[8.0, 4.0, 2.0, 1.0], [8.0, 7.0, 6.0, np.inf]],
        dims=("seed", "step"),
        coords={"step": step},
    )
    found = _curves.first_step(curves, 3.0)
    np.testing.assert_allclose(found[0], np.sqrt(2 * 4) - 1)  # between log 2 and log 4
    assert np.isnan(found[1]) and float(_curves.first_step(-curves, -8.0, above=True)[0]) == 0


def test_turns_of_a_curve_that_comes_back_and_of_one_that_does_not():
    test = xr.DataArray(
        [[4.0, 1.0, 2.0, 5.0], [4.0, 3.0, 2.0, 1.0], [4.0, 1.0, np.inf, np.inf]],
        dims=("seed", "step"),
        coords={"step": [0.0, 10.0, 20.0, 30.0]},
    )
    found = _readings.turns(xr.Dataset({"test": test}))
    np.testing.assert_array_equal(found["turn"], [10, 30, 10])
    np.testing.assert_array_equal(found["back"], [30, np.nan, 20])
    np.testing.assert_allclose(found["least"], 0.25)


def test_shortest_time_best_and_largest_rate():
    times = xr.DataArray(
        [[[8.0, 9.0], [4.0, 3.0], [6.0, np.nan]]],
        dims=("case", "np_rate", "seed"),
        coords={"case": [5], "np_rate": [0.1, 0.2, 0.4]},
    )
    np.testing.assert_array_equal(_times.least(times)[0], [4, 3])
    np.testing.assert_array_equal(_times.best_rate(times)[0], [0.2, 0.2])
    np.testing.assert_array_equal(_times.stable_rate(times)[0], [0.4, 0.2])


def test_weights_decay_and_biases_do_not():
    rules = _decay.regularised(0.1, 10, [0.01])
    assert list(rules) == ["neither", "normalised", "decay 0.01"]
    step = rules["decay 0.01"].transformation
    weights = {"w": np.ones((2, 3)), "b": np.ones(3)}
    zero = jax.tree.map(np.zeros_like, weights)
    change, _ = step.update(zero, step.init(weights), weights)
    np.testing.assert_allclose(change["w"], -0.01)
    np.testing.assert_allclose(change["b"], 0.0)


def test_gaps_of_decays_count_diverged_runs():
    ends = {"neither": [2.0, 2.0], "decay 0.1": [1.0, np.inf], "decay 0.2": [4.0, 1.0]}
    test = xr.DataArray(
        [[[1.0, end] for end in each] for each in ends.values()],
        {"cure": list(ends), "step": [0.0, 1.0]},
        ("cure", "seed", "step"),
    )
    gaps = _readings.decay_gaps(test).transpose("decay", "seed")
    wanted = np.log([[0.5, _readings.LARGEST / 2], [2.0, 0.5]])
    np.testing.assert_allclose(gaps, wanted, rtol=1e-12)


def test_the_best_of_several_decays_is_not_better_by_chance():
    rng, sentence = np.random.default_rng(0), claim("the best decay is better", "ours")
    drawn = [xr.DataArray(rng.standard_normal((10, 6)), dims=("decay", "seed")) for _ in range(300)]
    least = [_intervals.least_below(sentence, each, 0.0).holds for each in drawn]
    chosen = [each[np.argmin(each.mean("seed").values)] for each in drawn]
    alone = [_intervals.surely_below(sentence, each, 0.0).holds for each in chosen]
    assert sum(least) <= 10 < sum(alone)  # 1 % of 300 and four standard errors, which choice passes
