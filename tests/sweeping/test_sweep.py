"""`sweep` in one process: what is kept, what is refused, what fails alone."""

import errno
import json
import shutil
import time

import numpy as np
import pytest
import xarray as xr
import zarr

import learndyn as ld
from learndyn.sweeping import cluster, progress_of, resume
from learndyn.sweeping import store as storing
from learndyn.sweeping.function import packed
from learndyn.sweeping.lock import held
from learndyn.sweeping.task import Job, run_chunk

T = np.linspace(0.0, 1.0, 4)


def line(a, b):
    said = {"long_name": "a line"}
    coords = {"time": T, "step": ("time", np.arange(4) * a)}
    data = {"y": ("time", a * T + b, said), "n": a, "outcome": "long " * a}
    return xr.Dataset(data, coords, {"system": "{}", "a": a})


@pytest.fixture
def run(client, tmp_path):
    def call(function, axes, **options):
        given = {"store": tmp_path / "s.zarr", "client": client, "progress": False, **options}
        return ld.sweep(function, axes, **given)

    return call


def test_axes_come_first_and_the_record_keeps_its_names(run, tmp_path):
    data = run(line, {"a": [1, 2, 3], "b": [0.0, 0.5]})
    assert data["y"].dims == ("a", "b", "time") and data["step"].dims == ("a", "b", "time")
    for a in (1, 2, 3):
        for b in (0.0, 0.5):
            alone, one = line(a, b), data.sel(a=a, b=b).load()
            for name in alone.variables:
                assert np.array_equal(one[name].values, alone[name].values), name
    assert data["n"].dtype == int and data["y"].attrs == {"long_name": "a line"}
    assert data.attrs["system"] == "{}" and "a" not in data.attrs
    assert {"version_jax", "host", "git", "date", "wall_seconds"} <= set(data.attrs)
    assert np.all(data["point_status"] == "finished") and np.all(data["point_attempt"] == 1)
    ld.save(data.load(), tmp_path / "data.nc")
    assert ld.load(tmp_path / "data.nc")["y"].equals(data["y"])


def test_a_store_made_anew_is_not_taken_for_the_one_before(run, tmp_path):
    short = lambda a: xr.Dataset({"y": ("x", np.full(2, float(a)))}, {"x": [0, 1]})
    long = lambda a: xr.Dataset({"y": ("x", np.full(5, float(-a)))}, {"x": np.arange(5) + 7})
    run(short, {"a": [1, 2, 3, 4]}, chunk=2)
    shutil.rmtree(tmp_path / "s.zarr")
    data = run(long, {"a": [1, 2, 3, 4]}, chunk=1)
    assert np.array_equal(data["y"].values[:, -1], [-1, -2, -3, -4]) and data["x"][0] == 7


def test_zipped_and_left_out_points(run):
    axes = {"a": [1, 2, 3], "b": [10.0, 20.0, 30.0]}
    data = run(line, axes, zipped=("a", "b"), where=lambda a, b: a != 2)
    assert data["y"].dims == ("a", "time") and data["b"].dims == ("a",)
    assert list(data["point_status"].values) == ["finished", "left out", "finished"]
    assert np.isnan(data["y"].sel(a=2)).all() and data["outcome"].sel(a=2) == ""
    assert float(data["y"].sel(a=3)[-1]) == 33.0


def test_a_second_call_computes_nothing_and_another_sweep_is_refused(run, tmp_path):
    run(line, {"a": [1, 2], "b": [0.0]})
    again = run(line, {"a": [1, 2], "b": [0.0]}, client="tcp://nowhere:1")
    assert np.all(again["point_attempt"] == 1)
    refused = [
        (line, {"a": [1, 3], "b": [0.0]}, {}, r"axes.a\[1\] \(2 against 3\)"),
        (lambda a, b: line(a, b), {"a": [1, 2], "b": [0.0]}, {}, "function"),
        (line, {"a": [1, 2], "b": [0.0]}, {"pad": ("time",)}, "pad"),
        (line, {"a": [1, 2], "b": [0.0]}, {"where": lambda a, b: True}, "where"),
        (
            line,
            {"a": [1, 2], "b": [0.0]},
            {"chunk": 7},
            "chunk: got 7; allowed is 1, as in the store",
        ),
    ]
    for function, axes, options, said in refused:
        with pytest.raises(ValueError, match=said):
            run(function, axes, **options)


def test_extended_axes_keep_what_is_there(run):
    run(line, {"a": [1, 3], "b": [0.0]})
    axes = {"a": [0, 1, 2, 3], "b": [0.0, 1.0]}
    with pytest.raises(ValueError, match=r"axes.a .*extend=True"):
        run(line, axes)
    data = run(line, axes, extend=True)
    assert np.array_equal(data["y"].sel(a=2, b=1.0), 2 * T + 1)
    assert np.all(data["point_attempt"] == 1) and list(data["a"].values) == [0, 1, 2, 3]


def test_a_point_that_raises_or_differs_fails_alone(run):
    def odd(a):
        if a == 2:
            raise RuntimeError("two is\nodd")
        if a == 3:
            return [3.0]
        if a == 5:
            return xr.Dataset({"z": 1.0})
        return xr.Dataset({"y": ("x", np.ones(4 if a == 4 else 2))})

    data = run(odd, {"a": [2, 0, 1, 3, 4, 5]}, retries=1)
    said = dict(zip(data["a"].values, data["point_message"].values, strict=True))
    assert said[2] == "RuntimeError: two is" and "returned a list" in said[3]
    assert said[4] == "y has dimensions x 4; that of the first point has x 2"
    assert "lacks 'y'" in said[5] and said[0] == said[1] == ""
    assert list(data["point_attempt"].values) == [2, 1, 1, 1, 1, 1]
    assert np.isnan(data["y"].sel(a=[2, 3, 4, 5])).all()
    assert (data["y"].sel(a=[0, 1]) == 1).all()


class Unsaid(BaseException):
    def __str__(self):
        raise RuntimeError


class Refused:
    def __array__(self, *_, **__):
        raise BufferError("no array")


ERRORS = [Unsaid(), KeyboardInterrupt(), ValueError("\n\n two\nlines"), ValueError("\ud800" * 9999)]
SAID = ["Unsaid", "KeyboardInterrupt", "ValueError: two", f"ValueError: {'?' * 988}"]


def test_errors_of_any_kind_fail_their_point_alone(run):
    def odd(a):
        if a < len(ERRORS):
            raise ERRORS[a]
        return Refused() if a == 4 else 1.0

    data = run(odd, {"a": range(6)}, retries=0)
    assert data["point_message"].values.tolist() == [*SAID, "BufferError: no array", ""]
    assert data["point_status"].values.tolist() == ["failed"] * 5 + ["finished"]


def test_texts_that_cannot_be_stored_fail_their_point_alone(run):
    said = "value has a text that UTF-8 cannot hold; allowed is one that it can"
    with pytest.raises(ValueError, match=f"function: {said}"):
        run(lambda a: "\ud800", {"a": [1]})
    data = run(lambda a: "\ud800" if a == 2 else str(a), {"a": [1, 2, 3]})
    assert data["point_message"].values.tolist() == ["", said, ""]
    assert data["value"].values.tolist() == ["1", "", "3"]


def test_a_masked_number_is_missing(run):
    assert np.isnan(run(lambda a: np.ma.masked, {"a": [1]})["value"]).all()


def test_functions_may_return_numbers_or_dicts(run):
    assert np.array_equal(run(lambda a: 2 * a, {"a": [1, 2]})["value"], [2, 4])


def test_numbers_of_any_type_may_follow_each_other(run):
    some = [2, 0.5, np.float32(0.25), np.nan, np.int8(-3), 2**60, 7]
    data = run(lambda a: some[a], {"a": range(len(some))})["value"]
    assert data.dtype == np.float64
    assert np.array_equal(data, np.array(some, float), equal_nan=True)


def test_a_dict_is_a_record_of_numbers(run):
    data = run(lambda a: {"double": 2.0 * a, "even": a % 2 == 0}, {"a": [1, 2]})
    assert np.array_equal(data["double"], [2, 4]) and np.array_equal(data["even"], [0, 1])


def test_a_sweep_of_failures_alone_keeps_its_messages_and_may_get_better(run, tmp_path):
    flag = tmp_path / "repaired"

    def broken(a):
        if not flag.exists():
            raise RuntimeError("not yet")
        return xr.Dataset({"y": a})

    data = run(broken, {"a": [1, 2, 3]})
    assert np.all(data["point_status"] == "failed") and not data.data_vars
    tally, failures = progress_of(tmp_path / "s.zarr")
    assert tally == {"failed": 3, "pending": 0}
    assert failures[2].point == "a=3" and failures[2].message == "RuntimeError: not yet"
    flag.touch()
    data = run(broken, {"a": [1, 2, 3]})
    assert list(data["y"].values) == [1, 2, 3] and np.all(data["point_attempt"] == 4)


def test_lengths_differ_where_they_are_padded(run, tmp_path):
    def grows(n):
        t = np.arange(float(n))
        return xr.Dataset({"y": ("time", t**2), "k": ("time", np.arange(n))}, {"time": t})

    data = run(grows, {"n": [3, 2, 5, 4]}, pad=("time",), chunk=2)
    assert list(data["time"].values) == [0, 1, 2, 3, 4]
    assert np.array_equal(data["y"].sel(n=4), [0, 1, 4, 9, np.nan], equal_nan=True)
    assert np.array_equal(data["k"].sel(n=2), [0, 1, *[np.nan] * 3], equal_nan=True)
    many = run(grows, {"n": [*range(1, 12)]}, pad=("time",), chunk=1, store=tmp_path / "many.zarr")
    assert list(many["y"].count("time").values) == [*range(1, 12)]


def test_labels_that_differ_are_refused_or_each_points_own(run, tmp_path):
    def other(eta):
        return xr.Dataset({"y": ("time", T)}, {"time": T / eta})

    data = run(other, {"eta": [1.0, 2.0]})
    assert "time differs from that of the first point" in str(data["point_message"].values[1])
    own = run(other, {"eta": [1.0, 2.0]}, pad=("time",), store=tmp_path / "own.zarr")
    assert np.array_equal(own["point_time"].sel(eta=2.0), T / 2)


def test_names_of_axes_and_of_records_do_not_meet(run):
    with pytest.raises(ValueError, match="axes: got 'y', which the record has"):
        run(lambda y: xr.Dataset({"y": 1.0}), {"y": [1]})
    with pytest.raises(ValueError, match="pad: got 'x'; the record's dimensions are none"):
        run(lambda a: xr.Dataset({"y": 1.0}), {"a": [1]}, pad=("x",))


@pytest.mark.parametrize("name", ["point_status", "point_own", "late", "a/b", "zarr.json", ""])
def test_names_that_the_store_has_itself_are_refused(run, name):
    with pytest.raises(ValueError, match=f"function: its record has '{name}', which the store"):
        run(lambda a: xr.Dataset({name: 1.0}), {"a": [1]})


def test_records_that_hold_nothing_of_their_point_are_refused(run):
    with pytest.raises(ValueError, match="its record has 'point', which the store cannot keep"):
        run(lambda a: xr.Dataset({"y": ("point", T)}), {"a": [1]})
    with pytest.raises(ValueError, match="function: its record has no variables"):
        run(lambda a: xr.Dataset(coords={"x": T}), {"a": [1]})


def test_a_folder_that_is_used_is_left_alone(run, tmp_path):
    (tmp_path / "used").mkdir()
    for name in ("mine.txt", "mine.partial"):
        (tmp_path / "used" / name).touch()
    with pytest.raises(ValueError, match="used' holds something else; allowed is a new"):
        run(line, {"a": [1], "b": [0.0]}, store=tmp_path / "used")
    found = sorted(entry.name for entry in (tmp_path / "used").iterdir())
    assert found == ["mine.partial", "mine.txt"]
    with pytest.raises(ValueError, match=r"store: got 'foo://x' \(Protocol not known: foo\)"):
        run(line, {"a": [1], "b": [0.0]}, store="foo://x")


def test_keys_are_the_points_own(run, tmp_path):
    def drawn(a, key):
        return xr.Dataset({"y": np.random.default_rng(key).normal()})

    one = run(drawn, {"a": [1, 2, 3]}, chunk=1)
    other = run(drawn, {"a": [3, 1]}, store=tmp_path / "other.zarr", chunk=2)
    assert np.array_equal(one["y"].sel(a=[3, 1]), other["y"])
    assert len(np.unique(one["y"])) == 3


def test_a_store_is_read_while_it_is_written(run, tmp_path):
    store = tmp_path / "s.zarr"

    def look(a):
        if a < 3:  # the first two are tried before there is a schema
            return xr.Dataset({"y": float(a), "seen": "", "known": 0})
        data = ld.open_sweep(store)
        seen, known = ",".join(data["point_status"].values), int(data["y"].notnull().sum())
        return xr.Dataset({"y": float(a), "seen": seen, "known": known})

    data = run(look, {"a": [1, 2, 3, 4]}, chunk=1)
    assert data["seen"].values[2] == "finished,finished,running,pending"
    assert int(data["known"][2]) == 2


def test_a_named_function_goes_on_by_its_store_alone(client, tmp_path, monkeypatch):
    axes = {"system": {"one": ld.SGD(0.1)}, "a": [1, 2]}
    store = tmp_path / "s.zarr"
    ld.sweep(_rate, axes, store=store, client=client, progress=False)
    group = zarr.open_group(str(store / "point"))
    group[storing.STATUS][:] = np.array(["", ""], dtype=object)  # as if nothing had finished
    with pytest.raises(ValueError, match=r"function: got '.*:_rate'; allowed are .*trusted=True"):
        resume(store, client=client)
    data = resume(store, client=client, trusted=True, progress=False)
    assert np.all(data["point_status"] == "finished") and float(data["y"][0, 1]) == 0.2
    monkeypatch.setitem(_rate.__globals__, "FACTOR", 2.0)
    with pytest.raises(ValueError, match="its function has changed"):
        resume(store, client=client, trusted=True)


FACTOR = 1.0


def _rate(system, a):
    return xr.Dataset({"y": FACTOR * a * float(system.learning_rate)})


def test_other_stores_are_refused_and_left_alone(run, tmp_path):
    store = tmp_path / "s.zarr"
    zarr.open_group(str(store)).create_array("mine", shape=(3,), dtype="f8")[:] = 7
    with pytest.raises(ValueError, match=r"s.zarr' holds something else; allowed is a new"):
        run(line, {"a": [1], "b": [0.0]})
    assert np.all(zarr.open_group(str(store))["mine"][:] == 7)
    with pytest.raises(ValueError, match="No such file or directory"):
        ld.open_sweep(tmp_path / "nothing")


def test_a_newer_format_is_refused_and_kept(run, tmp_path):
    run(line, {"a": [1], "b": [0.0]})
    path = tmp_path / "s.zarr" / "point" / "zarr.json"
    about = json.loads(path.read_text())
    about["attributes"]["sweep"]["format"] = 3
    path.write_text(json.dumps(about))
    with pytest.raises(ValueError, match="written in format 3, by a newer version"):
        run(line, {"a": [1], "b": [0.0]})
    assert json.loads(path.read_text()) == about


def test_a_disk_that_fills_up_is_one_line_and_loses_nothing(run, tmp_path, monkeypatch):
    whole, left = storing.Store.write_statuses, [2]

    def full(self, first, statuses):
        left[0] -= 1
        with storing.one_line(self.location, "one that can be written"):
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "disk full")
        whole(self, first, statuses)

    with monkeypatch.context() as patch:
        patch.setattr(storing.Store, "write_statuses", full)
        with pytest.raises(ValueError, match=r"s.zarr' \(No space left on device\)") as error:
            run(line, {"a": [1, 2, 3, 4], "b": [0.0]}, chunk=1)
        assert "\n" not in str(error.value)
    kept = ld.open_sweep(tmp_path / "s.zarr")
    finished = kept["point_status"].values.ravel() == "finished"
    assert finished.any() and not finished.all()
    data = run(line, {"a": [1, 2, 3, 4], "b": [0.0]})
    assert np.array_equal(data["y"].squeeze("b"), np.outer([1, 2, 3, 4], T))


def test_a_second_client_is_refused(run, tmp_path):
    store = str(tmp_path / "s.zarr")
    with held(store), pytest.raises(ValueError, match=r"is being written by process .* on "):
        run(line, {"a": [1], "b": [0.0]})
    assert run(line, {"a": [1], "b": [0.0]})["y"].sizes["a"] == 1


def test_a_store_that_is_not_on_disk(run):
    store = "memory://learndyn.zarr"
    data = run(line, {"a": [1, 2], "b": [0.0]}, store=store)
    assert np.array_equal(data["y"].sel(a=2, b=0.0), 2 * T)
    found = storing.Store(store, "a")
    found.describe(owner={"who": json.dumps({"process": 1, "host": "other"}), "when": time.time()})
    with pytest.raises(ValueError, match="written by process 1 on other"):
        run(line, {"a": [1, 2], "b": [0.0]}, store=store)


def test_a_worker_that_does_not_see_the_store_makes_no_other(tmp_path):
    for location in (str(tmp_path / "elsewhere.zarr"), "memory://elsewhere.zarr"):
        job = Job(location, packed(line), 0, None)
        with pytest.raises(ValueError, match="does not find; allowed is a location that all"):
            run_chunk(job, 0, {0: {"a": 1, "b": 0.0}}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"client": 3}, "client: got an int; allowed is None, a distributed.Client"),
        ({"workers": 0}, "workers: got 0; allowed is a positive"),
        ({"workers": 2, "client": "tcp://127.0.0.1:1"}, "workers: got 2 and a client"),
        ({"retries": -1}, "retries: got -1; allowed is a non-negative"),
        ({"seconds": 0}, "seconds: got 0; allowed is a positive"),
        ({"chunk": 0}, "chunk: got 0; allowed is a positive integer"),
        ({"seconds": 5}, "seconds: a worker runs in this process"),
        pytest.param(
            {"client": "tcp://127.0.0.1:1"},
            "client: got 'tcp://127.0.0.1:1'",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_bad_options_are_one_line(run, options, said):
    with pytest.raises(ValueError) as error:
        run(line, {"a": [1], "b": [0.0]}, **options)
    assert str(error.value).startswith(said)


def test_progress_is_reported(run):
    seen = []
    run(line, {"a": [1, 2, 3], "b": [0.0]}, progress=seen.append)
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] == 1


@pytest.mark.parametrize("there", [False, True])
def test_the_dashboard_is_linked_where_bokeh_draws_it(run, capsys, monkeypatch, there):
    monkeypatch.setattr(cluster, "find_spec", lambda name: there)
    run(line, {"a": [1], "b": [0.0]}, progress=True)
    assert ("sweep: Dask's dashboard is at http://" in capsys.readouterr().out) == there
