"""How the feature-learning studies of zhu2024catapults report runs: on runs made by hand."""

import numpy as np
import pytest
import xarray as xr

import learndyn as ld
from learndyn.studies.claims import claim
from learndyn.studies.statistics import slopes
from learndyn.studies.zhu2024catapults import alignment_scatter, fig4_8, figC_14
from learndyn.studies.zhu2024catapults._cases import full_rank_task, polynomial_task
from learndyn.studies.zhu2024catapults._descent import descent, descents
from learndyn.studies.zhu2024catapults._features import STOP, best, flat, fully_connected
from learndyn.studies.zhu2024catapults._ordering import growing_as_batches_shrink, rising
from learndyn.studies.zhu2024catapults._reference import Pool, image_task


def run(train, validation, above):
    names = {"train": train, "validation": validation, "above": above}
    names |= {"step": 10.0 * np.arange(len(train)), "test": 100 + np.arange(len(train))}
    return xr.Dataset({name: ("reading", np.asarray(v, float)) for name, v in names.items()})


def test_reported_is_the_least_validation_loss_before_the_end():
    kept = best(run([1, 0.1, STOP / 2, 0.1], [3, 1, 2, 0], [0.5, 0.2, 1, 1]))
    assert kept["test"] == 101 and kept["step"] == 10 and not kept["diverged"]
    assert kept["catapults"] == 0.5 * 10  # of the steps before that reading alone


def test_a_run_that_diverges_is_told_and_keeps_what_it_had():
    kept = best(run([1, 2, np.nan], [3, 2, np.nan], [0, 1, np.nan]))
    assert kept["diverged"] and kept["test"] == 101


@pytest.mark.slow
def test_nothing_follows_a_stage_in_which_descent_diverges():
    task = polynomial_task("rank2", 8, 20, 10, 0)
    model = fully_connected(task, 2, 16, 0)
    found = descents(task, model, (0.5, 100.0), (40, 40))
    assert found["diverged"].values.tolist() == [False, True]
    assert np.isfinite(found["test"]).all() and np.isfinite(found["train_curve"][0]).all()
    alone = descent(task, model, 100 * float(found["rate"][0]) / 0.5, (40, 40))
    assert alone["diverged"] and np.isnan(alone["train_curve"][-1])


def test_each_task_is_raised_at_its_own_steps():
    quick, paper = fig4_8.PRESETS["quick"], fig4_8.PRESETS["paper"]
    assert {fig4_8.lengths_of(quick, name) for name in quick.tasks} == {(40, 60, 60, 240)}
    assert fig4_8.lengths_of(paper, "rank2") == (50, 100, 70, 380)
    assert fig4_8.lengths_of(paper, "fashion") == (6, 14, 10, 570)
    assert {sum(fig4_8.lengths_of(paper, name)) for name in paper.tasks} == {600}


@pytest.mark.slow
def test_short_stages_are_read_as_often_as_long_ones():
    task = polynomial_task("rank2", 8, 20, 10, 0)
    model = fully_connected(task, 2, 16, 0)
    found = descents(task, model, (0.5, 0.25), (6, 30))
    steps, loss = found["steps"].values, found["train_curve"].values
    assert steps.shape == (2, 61) and steps.max() == 36
    np.testing.assert_array_equal(steps[:, :31].max(axis=1), 6)
    np.testing.assert_array_equal(loss[0, :31], loss[1, :31])  # until the rate changes at step 6
    assert np.all(loss[0, 31:] != loss[1, 31:])
    # The same descent, step by step.
    slow, fast = (ld.GradientDescent(float(rate)) for rate in found["rate"].values[::-1])
    now = model.weights
    for number in range(1, 9):
        system = ld.System(task.data, model.network, fast if number <= 6 else slow)
        now = ld.update(system, now)
    at = np.flatnonzero(steps[1] == 8)
    residual = model.network(now, task.data.x) - task.data.y
    np.testing.assert_allclose(loss[1, at], np.mean(np.square(residual)), rtol=1e-4)


def test_smaller_weights_of_four_layers_take_the_inverse_square_as_many_steps():
    task = polynomial_task("rank3", 10, 40, 10, 0)
    moved = {}
    for gain in (0.1, 0.01):  # of both the output is small against the target
        model = fully_connected(task, figC_14.LAYERS, 16, 0, gain=gain)
        system = ld.System(task.data, model.network, ld.GradientDescent(1.0))
        after = flat(ld.Model(model.network, ld.update(system, model.weights)))
        moved[gain] = np.linalg.norm(after - flat(model)) / np.linalg.norm(flat(model))
    np.testing.assert_allclose(moved[0.1] / moved[0.01], figC_14.SLOWER, rtol=0.01)


def test_slopes_and_orders():
    noise = 0.01 * np.random.default_rng(0).standard_normal((5, 3))
    values = xr.DataArray(
        noise + np.arange(3), dims=("seed", "batch"), coords={"batch": [100, 10, 1]}
    )
    exact = xr.DataArray([[0.0, 1, 2]], dims=("seed", "batch"))
    np.testing.assert_allclose(slopes(exact, "batch", [0, 2, 4]), [0.5])
    said = claim("a", "b")
    assert rising(said, values, "batch").holds and not rising(said, -values, "batch").holds
    assert growing_as_batches_shrink(said, values).holds
    assert not growing_as_batches_shrink(said, -values).holds


def test_targets_have_the_variance_one_and_their_own_directions():
    for name in ("rank2", "rank3", "rank4"):
        task = polynomial_task(name, 20, 20_000, 10, 0)
        assert abs(task.data.y.var() - 1) < 0.15  # four errors of the least smooth of them
        assert np.linalg.matrix_rank(task.reference) == int(name[-1])
    assert np.array_equal(full_rank_task(20, 5, 5, 0).reference, np.eye(20))


def test_label_noise_is_a_share_of_wrong_labels():
    x, y = np.arange(40.0, dtype=np.float32).reshape(40, 1, 1, 1), np.arange(40) % 2
    pool = Pool("made up", (x, y), (x, y), (x, y), 2, np.eye(1), 1.0)
    task = image_task(pool, 40, 0, label_noise=0.1)
    true = y[task.data.x[:, 0].astype(int)]
    assert np.sum(true != task.data.y) == 4 and task.outputs == 1


def test_all_runs_in_a_row_with_their_groups():
    shape, coords = (2, 2, 2, 2), {"task": ["rank2", "digits"], "optimiser": ["SGD", "Adam"]}
    dims = ("task", "optimiser", "factor", "seed")
    rng = np.random.default_rng(0)
    made = {name: (dims, rng.random(shape)) for name in ("alignment", "test", "rate")}
    gone = np.zeros(shape, bool)
    gone[0, 0, 0, 0] = True
    data = xr.Dataset({**made, "batch": 320, "diverged": (dims, gone)}, coords)
    rows = alignment_scatter._rows(data, "fig4_9")
    assert rows.sizes["run"] == 16 and set(rows["batch_size"].values) == {320}
    np.testing.assert_array_equal(rows["diverged"].values, gone.ravel())
    names = set(rows["group"].values)
    assert "rank2, 0" in names and "rank2, 1, Adam" in names and "digits, noisy, 0" in names
    assert set(rows["which"].values) == {"rank2", "digits, noisy"}
    np.testing.assert_array_equal(rows["test"].values, made["test"][1].ravel())
    twice = xr.concat([rows, rows.assign(test=rows["test"] + 1)], "run")
    assert alignment_scatter._once(twice).identical(rows)
    without = rows.isel(run=slice(1, None))
    assert alignment_scatter.partial(rows) == alignment_scatter.partial(without)
