"""The recorder in loops of one's own."""

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
    record = recorder.record()
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


@pytest.mark.parametrize("how", ["weights", "loss", "growth"])
def test_it_survives_divergence(how):
    recorder = ld.Recorder({"size": size})
    for step in range(6):
        gone = step >= 3
        weights = {"weights": np.nan, "growth": 2e5}.get(how, 1.0) if gone else 1.0
        recorder(step, model(weights), loss=np.inf if gone and how == "loss" else 0.5)
    record = recorder.record()
    assert record["outcome"].values[0] == "diverged" and record["diverged_at"].values[0] == 3
    assert record["step"].values.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(record["size"][0], [1, 1, 1, np.nan])
    np.testing.assert_array_equal(record["loss"][0], [0.5, 0.5, 0.5, np.nan])


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
    monkeypatch.setattr("learndyn.probes.log.SAVED_EVERY", 0.0)
    recorder(1, model(1.0))
    assert ld.load(path).sizes["time"] == 2
    monkeypatch.setattr("learndyn.probes.log.SAVED_EVERY", 1e9)
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
