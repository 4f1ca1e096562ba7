"""The recorder in loops of your own."""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

NETWORK = ld.Committee(1, "linear")


def model(size):
    return ld.Model(NETWORK, np.full((1, 3), float(size)))


def size(model):
    return np.abs(model.weights).max()


def test_it_records_what_simulate_does(tmp_path):
    """The same probes on the same training, by our loop and by one's own; plot and save take it."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=6)
    network = ld.MLP([3, 4, 1], "tanh")
    system = ld.System(ld.Dataset(x, y), network, ld.GradientDescent(0.1))
    start = ld.start(system, key=0)
    probes = {
        "spectrum": lambda model: ld.probes.ntk_spectrum(model, x, 2),
        "rate": lambda model: ld.probes.critical_learning_rate(model, x),
    }
    expected = ld.simulate(system, [0, 2, 4], start=start, dtype="float64", probes=probes)
    recorder, weights = ld.Recorder(probes, every=2, attributes={"size": 3}), start.weights
    for step in range(5):
        here = ld.Model(network, weights)
        recorder(step, here, error=np.mean((here.outputs(x) - y) ** 2) / 2)
        weights = ld.update(system, weights)
    assert recorder.record()["error"].notnull().all() and recorder.record().sizes["time"] == 5
    assert recorder.record()["rate"].isnull().values.tolist() == [[False, True, False, True, False]]
    record = recorder.record().sel(time=[0, 2, 4])
    for name in ("spectrum", "rate", "error", "step", "time"):
        assert record[name].dims == expected[name].dims
        np.testing.assert_allclose(record[name], expected[name], rtol=1e-9)
    assert record["time"].attrs == expected["time"].attrs
    assert record["outcome"].values.tolist() == ["finished"]
    assert 0 < record.attrs["probe_seconds"] < record.attrs["wall_seconds"]
    share = record.attrs["probe_seconds"] / record.attrs["wall_seconds"]
    assert record.attrs["probe_share"] == pytest.approx(share)
    ld.save(record, tmp_path / "run.nc")
    assert ld.load(tmp_path / "run.nc").equals(record)
    assert len(ld.plot(record).axes) == 3
    found = ld.compare(expected.isel(run=0, drop=True), record, same_system=False)
    assert np.all(np.abs(found["spectrum_deviation"]) < 1e-9)
    assert found.attrs["verdict"] == "undecided"  # of one run, without a word on its rule


def test_values_are_kept_at_every_call_and_probes_where_they_are_read():
    recorder = ld.Recorder({"size": size, "count": lambda model: 3}, every=3)
    for step in range(5):
        recorder(
            step, model(step + 1.0), loss=float(step), **({"late": [1, 2]} if step > 3 else {})
        )
    recorder(5, model(1.0))  # nothing to keep, nothing to read
    recorder(6, model(7.0))
    record, gap = recorder.record(), np.nan
    assert record["step"].values.tolist() == [0, 1, 2, 3, 4, 6]
    np.testing.assert_array_equal(record["loss"][0], [0, 1, 2, 3, 4, gap])
    np.testing.assert_array_equal(record["size"][0], [1, gap, gap, 4, gap, 7])
    np.testing.assert_array_equal(record["count"][0], [3, gap, gap, 3, gap, 3])
    np.testing.assert_array_equal(record["late"][0, :, 1], [gap, gap, gap, gap, 2, gap])
    assert record["outcome"].values.tolist() == ["finished"]


def test_missing_and_infinite_values_are_no_divergence(tmp_path):
    recorder = ld.Recorder({"limit": lambda model: np.inf})
    for step, loss in enumerate([1.0, np.nan, None, np.inf, -np.inf, 2]):
        recorder(step, model(1.0), loss=loss, other=jnp.float32(step))
    ld.save(recorder.record(), tmp_path / "x.nc")
    for record in (recorder.record(), ld.load(tmp_path / "x.nc")):
        missing = [1.0, np.nan, np.nan, np.inf, -np.inf, 2.0]
        np.testing.assert_array_equal(record["loss"][0], missing)
        assert np.all(record["limit"] == np.inf) and record["other"].dtype == np.float64
        assert record["outcome"].values[0] == "finished" and np.isnan(record["diverged_at"][0])


@pytest.mark.parametrize("gone", [np.nan, np.inf, 2e5])
def test_it_survives_divergence_of_the_weights(gone):
    recorder = ld.Recorder({"size": size})
    for step in range(6):
        recorder(step, model(gone if step >= 3 else 1.0), loss=step)
    record = recorder.record()
    assert record["outcome"].values[0] == "diverged" and record["diverged_at"].values[0] == 3
    assert record["step"].values.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(record["size"][0], [1, 1, 1, np.nan])
    np.testing.assert_array_equal(record["loss"][0], [0, 1, 2, 3])


def test_many_calls_are_all_kept():
    recorder, here = ld.Recorder({}, every=10**6), model(1.0)
    for step in range(2000):
        recorder(step, here, loss=step, gradient=[0.0, step])
    record = recorder.record()
    recorder(2000, here, loss=0)  # goes on after a record was taken
    np.testing.assert_array_equal(record["loss"][0], np.arange(2000))
    np.testing.assert_array_equal(record["gradient"][0, :, 1], np.arange(2000))
    assert recorder.record().sizes["time"] == 2001


def filled(path, steps, **options):
    with ld.Recorder({"size": size}, path=path, **options) as recorder:
        for step in steps:
            recorder(step, model(step + 1.0), loss=[0.5, step])
    return recorder


def test_a_log_that_is_there_is_not_overwritten(tmp_path):
    path = tmp_path / "run.nc"
    filled(path, range(3))
    before = path.read_bytes()
    with pytest.raises(
        ValueError, match=r"\Apath: got .*run.nc', which exists; .*mode='a' to [^\n]*"
    ):
        ld.Recorder({"size": size}, path=path)
    assert path.read_bytes() == before
    filled(path, range(2), mode="w")
    assert ld.load(path).sizes["time"] == 2


def test_a_log_that_is_not_saved_yet_is_not_overwritten(tmp_path):
    recorder = ld.Recorder({"size": size}, path=tmp_path / "run.nc")
    recorder(0, model(1.0))
    with pytest.raises(ValueError, match="which exists"):
        recorder = ld.Recorder({"size": size}, path=tmp_path / "run.nc")
    assert ld.load(tmp_path / "run.nc").sizes["time"] == 1


@pytest.mark.parametrize("again", [3, 2])  # where the log ends, and from an earlier checkpoint
def test_a_resumed_loop_continues_its_log(tmp_path, again):
    path = tmp_path / "run.nc"
    filled(path, range(2), mode="a", attributes={"size": 3})  # there is none to continue
    with pytest.raises(KeyboardInterrupt), ld.Recorder({"size": size}, path=path, mode="a") as log:
        log(2, model(3.0), loss=[0.5, 2])
        raise KeyboardInterrupt
    assert ld.load(path)["outcome"].values[0] == "interrupted"
    filled(path, range(again, 6), mode="a")
    record, whole = ld.load(path), filled(None, range(6)).record()
    assert record.equals(whole) and record.attrs["size"] == 3
    assert record.attrs["wall_seconds"] >= record.attrs["probe_seconds"] > 0


def test_a_log_is_continued_before_it_diverged_and_by_a_recorder_alone(tmp_path):
    path, record = tmp_path / "run.nc", ld.Recorder({"size": size})
    with ld.Recorder({"size": size}, path=path) as recorder:
        for step in range(3):
            recorder(step, model(np.nan if step == 2 else 1.0))
    assert ld.load(path)["outcome"].values[0] == "diverged"
    with pytest.raises(ValueError, match=r"step: got 0 with mode='a'; allowed is a step above 0"):
        filled(path, [0], mode="a")
    assert ld.load(path).sizes["time"] == 3
    filled(path, [2], mode="a")
    assert ld.load(path)["outcome"].values[0] == "finished"
    record(0, model(1.0))
    ld.save(record.record().assign_attrs(engine="simulate"), path)
    with pytest.raises(ValueError, match=r"\Apath: got [^\n]*which no Recorder wrote"):
        ld.Recorder({}, path=path, mode="a")


def test_a_path_that_cannot_be_written_fails_at_construction(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "kept.nc").touch(mode=0o444)
    os.mkfifo(tmp_path / "pipe")
    for place in ("none/run.nc", "file/run.nc", ".", "kept.nc", "pipe"):
        with pytest.raises(ValueError, match=r"\Apath: got [^\n]*; allowed is a file that can"):
            ld.Recorder({"size": size}, path=tmp_path / place, mode="w")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "kept.nc", "pipe"]


def test_attributes_are_kept_or_named(tmp_path):
    about = {"size": np.int64(3), "widths": [3, 4], "note": "é"}
    recorder = ld.Recorder({}, attributes=about)
    recorder(0, model(1.0), loss=1.0)
    ld.save(recorder.record(), tmp_path / "x.nc")
    attrs = ld.load(tmp_path / "x.nc").attrs
    assert attrs["size"] == 3 and list(attrs["widths"]) == [3, 4] and attrs["note"] == "é"
    for value in (None, True, {"a": 1}, object(), [[1], [2, 3]]):
        with pytest.raises(ValueError, match=r"\Aattributes: got 'note', which is [^\n]*; allowed"):
            ld.Recorder({}, attributes={"note": value})


def test_an_interrupted_loop_is_saved(tmp_path):
    path = tmp_path / "run.nc"
    with pytest.raises(KeyboardInterrupt), ld.Recorder({"size": size}, path=path) as recorder:
        for step in range(5):
            if step == 3:
                raise KeyboardInterrupt
            recorder(step, model(1.0), loss=0.5)
    record = ld.load(path)
    assert record["outcome"].values[0] == "interrupted"
    assert record["step"].values.tolist() == [0, 1, 2] and record.equals(recorder.record())


def test_it_is_saved_while_the_loop_runs_and_when_it_is_gone(tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    recorder = ld.Recorder({"size": size}, path=path)
    recorder(0, model(1.0))
    assert not path.exists()
    monkeypatch.setattr("learndyn.records.log.SAVED_EVERY", 0.0)
    recorder(1, model(1.0))
    assert ld.load(path).sizes["time"] == 2
    monkeypatch.setattr("learndyn.records.log.SAVED_EVERY", 1e9)
    recorder(2, model(1.0))
    assert ld.load(path).sizes["time"] == 2
    del recorder
    assert ld.load(path).sizes["time"] == 3


def test_a_probe_that_fails_later_leaves_a_gap():
    def fails(model):
        if size(model) == 2:
            raise ValueError("no convergence")
        return size(model)

    recorder = ld.Recorder({"fails": fails})
    for step, value in enumerate([1.0, 2.0, 3.0]):
        recorder(step, model(value))
    record = recorder.record()
    np.testing.assert_array_equal(record["fails"][0], [1, np.nan, 3])
    assert record.attrs["failed"] == "fails (step 1: no convergence)"
    with pytest.raises(ValueError, match="no convergence"):
        ld.Recorder({"fails": fails})(0, model(2.0))


def test_modules_of_equinox():
    module = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    recorder = ld.Recorder(
        {"rate": lambda m: ld.probes.critical_learning_rate(m, jnp.ones((2, 3)))}
    )
    recorder(0, module, loss=jnp.asarray(0.5))
    assert recorder.record()["rate"].shape == (1, 1)


def test_modules_of_equinox_are_read_in_inference_mode():
    drop = eqx.nn.Dropout(0.5)
    module = eqx.nn.Sequential([eqx.nn.Linear(3, 2, key=jax.random.key(0)), drop])
    recorder = ld.Recorder({"output": lambda m: ld.as_model(m).outputs(np.ones((1, 3)))[0]})
    recorder(0, module)
    np.testing.assert_allclose(recorder.record()["output"][0, 0], module[0](jnp.ones(3)), rtol=1e-6)
    assert module[1].inference is False


def called(*steps, probes=None, values=()):
    recorder = ld.Recorder({"size": size} if probes is None else probes)
    for step in steps:
        recorder(step, model(1.0), **dict(values))
    return recorder


REFUSED = {
    "steps out of order": lambda: called(0, 2, 1),
    "a step twice": lambda: called(0, 0),
    "half a step": lambda: called(0.5),
    "a negative step": lambda: called(-1),
    "no probe": lambda: ld.Recorder({"size": 3}),
    "a name that is taken": lambda: ld.Recorder({"time": size}),
    "never": lambda: ld.Recorder({"size": size}, every=0),
    "no array": lambda: called(0, probes={"words": lambda model: "words"}),
    "None": lambda: called(0, probes={"nothing": lambda model: None}),
    "a probe that fails": lambda: called(0, probes={"ratio": lambda model: 1 / 0}),
    "a dict": lambda: called(0, probes={"several": lambda model: {"a": 1.0}}),
    "a number as text": lambda: called(0, values={"loss": "0.5"}),
    "a complex number": lambda: called(0, values={"loss": 1j}),
    "a value named as a coordinate": lambda: called(0, values={"time": 1.0}),
    "a value named as a run": lambda: called(0, values={"run": 1.0}),
    "a value named as an outcome": lambda: called(0, values={"outcome": 1.0}),
    "a value named as a probe": lambda: called(0, values={"size": 1.0}),
    "a value named as a dimension": lambda: called(
        0, 1, probes={"size": lambda model: [1.0]}, values={"size_0": 1.0}
    ),
    "a value named as a path": lambda: called(0, values={"loss/train": 1.0}),
    "a probe named as a path": lambda: called(probes={"loss/train": size}),
    "another mode": lambda: ld.Recorder({}, mode="r"),
    "nothing recorded": lambda: called().record(),
    "another shape": lambda: [
        recorder := ld.Recorder({}),
        recorder(0, model(1.0), loss=np.ones(2)),
        recorder(1, model(1.0), loss=np.ones(3)),
    ],
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line(call):
    with pytest.raises(ValueError, match=r"\A[a-z_'\[\]]+: [^\n]*allowed[^\n]*\Z"):
        call()


def test_probes_of_optimisers_get_the_one_of_the_call():
    probes = {"given": lambda model, optimiser: optimiser, "own": lambda model, optimiser=2: 2}
    recorder = ld.Recorder(probes)
    recorder(0, model(1.0), optimiser=3)
    assert recorder.record()["given"].values.item() == 3
    with pytest.raises(ValueError, match=r"optimiser: got None, but probes\['given'\] takes it"):
        recorder(1, model(1.0))
