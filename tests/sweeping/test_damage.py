"""Stores of which something is missing or damaged: noticed, named in one line, and mended."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import learndyn as ld
from learndyn.sweeping import progress_of, resume
from learndyn.sweeping.lock import held, is_held
from learndyn.sweeping.store import COMPLETE, STATUS, Store


def blank(a):
    """Of points below 2 the data are all blank: of others they are not."""
    value = np.nan if a < 2 else float(a)
    coords = {"x": [0, 1, 2]}
    return xr.Dataset({"y": ("x", np.full(3, value)), "n": a, "text": "" if a < 2 else "t"}, coords)


@pytest.fixture(scope="module")
def made(client, tmp_path_factory):
    """A store of three chunks, to be copied."""
    store = tmp_path_factory.mktemp("made") / "s.zarr"
    ld.sweep(blank, {"a": range(6)}, store=store, client=client, progress=False, chunk=2)
    return store


@pytest.fixture
def store(made, tmp_path):
    return shutil.copytree(made, tmp_path / "s.zarr")


@pytest.fixture
def flat(store):
    """Where the store keeps its points."""
    return store / "point"


def again(client, store):
    return ld.sweep(blank, {"a": range(6)}, store=store, client=client, progress=False)


@pytest.mark.parametrize("part", ["y/c/0", "y/c/1", "n/c/2", "text/c/0"])
def test_a_missing_chunk_is_noticed_and_computed_again(client, store, flat, part):
    place = flat / part
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    first = 2 * int(part[-1])
    with pytest.warns(UserWarning, match=rf"lacks the data of 2 finished points \(a={first}, …\)"):
        data = ld.open_sweep(store)
    assert list(data["a"].values[data["point_status"].values == "lost"]) == [first, first + 1]
    assert np.isnan(data["n"].sel(a=[first, first + 1])).all()
    assert progress_of(store)[0] == {"pending": 0, "finished": 4, "lost": 2}
    with pytest.warns(UserWarning, match="they are computed again"):
        data = again(client, store)
    assert np.all(data["point_status"] == "finished") and np.array_equal(data["n"], np.arange(6))
    assert list(data["point_attempt"].values) == [1 + (a // 2 == first // 2) for a in range(6)]


def test_a_missing_status_is_a_point_that_waits(client, store, flat):
    (flat / STATUS / "c" / "1").unlink()
    assert progress_of(store)[0] == {"pending": 2, "finished": 4}
    assert np.all(again(client, store)["point_status"] == "finished")


def test_a_padded_record_needs_no_more_chunks_than_it_is_long(client, tmp_path):
    grows = lambda n: xr.Dataset({"y": ("time", np.full(n, np.nan))}, {"time": np.arange(n)})
    options = {"store": tmp_path / "s.zarr", "client": client, "progress": False}
    data = ld.sweep(grows, {"n": [2, 3, 7, 0, 1]}, pad=("time",), chunk=1, **options)
    assert np.all(data["point_status"] == "finished")
    (tmp_path / "s.zarr" / "point" / "y" / "c" / "2" / "3").unlink()
    with pytest.warns(UserWarning, match=r"lacks the data of 1 finished points \(n=7, …\)"):
        ld.open_sweep(tmp_path / "s.zarr")


def test_stores_of_format_1_are_read_and_continued(client, flat, tmp_path):
    """They were what is now their group of points, and left out blank chunks at first."""
    old = shutil.move(flat, tmp_path / "old.zarr")
    about = json.loads((old / "zarr.json").read_text())
    about["attributes"]["sweep"]["format"] = 1
    del about["attributes"][COMPLETE]
    (old / "zarr.json").write_text(json.dumps(about))
    shutil.rmtree(old / "y" / "c" / "0")
    assert np.all(ld.open_sweep(old)["point_status"] == "finished")
    (old / STATUS / "c" / "2").unlink()
    assert np.array_equal(again(client, old)["n"], np.arange(6))
    more = {"store": old, "client": client, "progress": False, "extend": True}
    assert np.array_equal(ld.sweep(blank, {"a": range(7)}, **more)["n"], np.arange(7))
    assert not (old / "point").exists() and not (old / "a").exists()


def test_missing_labels_are_one_line(store, flat):
    (flat / "x" / "c" / "0").unlink()
    with pytest.raises(
        ValueError, match=r"is damaged in point/x/c/0 \(it is missing, and all points"
    ):
        ld.open_sweep(store)


def flipped(content):
    return content[:-6] + bytes([content[-6] ^ 4]) + content[-5:]


@pytest.mark.parametrize("change", [flipped, lambda content: content[:-2], lambda content: b""])
def test_a_damaged_chunk_is_one_line_where_it_is_read(client, store, flat, change):
    place = flat / "y" / "c" / "1" / "0"
    place.write_bytes(change(place.read_bytes()))
    data = ld.open_sweep(store)
    assert np.array_equal(data["y"].sel(a=5), [5, 5, 5])
    with pytest.raises(
        ValueError, match=r"s.zarr' is damaged in point/y/c/1 \(RuntimeError: "
    ) as error:
        data["y"].sel(a=3).load()
    assert "\n" not in str(error.value) and "or one without point/y/c/1, whose" in str(error.value)
    place.unlink()  # as the line says
    with pytest.warns(UserWarning, match="computed again"):
        assert np.array_equal(again(client, store)["y"].sel(a=3), [3, 3, 3])


@pytest.mark.parametrize(("part", "place"), [(f"{STATUS}/c/2", f"{STATUS}/c/2"), ("x/c", "x/c/0")])
def test_damaged_statuses_and_labels_are_one_line(client, store, flat, part, place):
    (flat / place).write_bytes(b"no chunk")
    for call in (lambda: ld.open_sweep(store), lambda: again(client, store)):
        with pytest.raises(ValueError, match=rf"is damaged in point/{part} \(RuntimeError"):
            call()


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("zarr.json", lambda about: "{"),
        ("zarr.json", lambda about: ""),
        ("zarr.json", lambda about: {**about, "attributes": 3}),
        ("zarr.json", lambda about: inside(about, "sweep", 3)),
        ("zarr.json", lambda about: inside(about, "sweep", {})),
        ("zarr.json", lambda about: inside(about, "sweep", grid={})),
        ("zarr.json", lambda about: inside(about, "sweep", grid={"axes": {"a": [1]}})),
        ("zarr.json", lambda about: inside(about, "sweep", identity=[])),
        ("zarr.json", lambda about: inside(about, "schema", {"sizes": {}})),
        ("zarr.json", lambda about: inside(about, "chunk", "two")),
        ("y/zarr.json", lambda about: "{"),
        ("y/zarr.json", lambda about: {"zarr_format": 3, "node_type": "array"}),
        (f"{STATUS}/zarr.json", lambda about: ""),
        ("y/zarr.json", lambda about: None),
    ],
)
def test_damaged_json_is_one_line(client, store, flat, part, change):
    place = flat / part
    text = change(json.loads(place.read_text()))
    if text is None:
        place.unlink()
    else:
        place.write_text(text if isinstance(text, str) else json.dumps(text))
    before = place.read_bytes() if place.exists() else None
    calls = [lambda: ld.open_sweep(store), lambda: again(client, store)]
    calls += [lambda: resume(store, client=client, trusted=True, progress=False)]
    for call in calls:
        with pytest.raises(ValueError, match=f"s.zarr' is damaged in point/{part} ") as error:
            call()
        assert "\n" not in str(error.value)
    assert (place.read_bytes() if place.exists() else None) == before


def test_statuses_of_more_points_than_the_grid_has_are_not_read(store, flat):
    """A length that lies reserves no memory."""
    place = flat / STATUS / "zarr.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "shape": [10**13]}))
    assert np.array_equal(ld.open_sweep(store)["n"], np.arange(6))


def lengths(shape, chunks=(1,)):
    """Other lengths of an array, in its metadata."""
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    return lambda about: {**about, "shape": list(shape), "chunk_grid": grid}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("x/zarr.json", lengths((10**13,))),
        ("x/zarr.json", lengths((10**13,), (10**13,))),
        ("y/zarr.json", lengths((6, 10**13), (2, 3))),
        ("y/zarr.json", lengths((6, 10**13), (2, 10**13))),
        ("n/zarr.json", lengths((10**13,), (2,))),
        ("zarr.json", lambda about: inside(about, "schema", sizes={"x": 10**13})),
        ("zarr.json", lambda about: inside(about, "chunk", 0)),
    ],
)
def test_lengths_that_lie_reserve_no_memory(client, store, flat, part, change):
    """Nor do they keep anyone waiting who lists the chunks of an array."""
    place = flat / part
    place.write_text(json.dumps(change(json.loads(place.read_text()))))
    for call in (lambda: ld.open_sweep(store), lambda: again(client, store)):
        with pytest.raises(ValueError, match=r"\A[^\n]*s.zarr' is damaged in point/[^\n]*\Z"):
            call()


def test_axes_that_lie_reserve_no_memory(store, flat):
    """One point on three axes of ten thousand values each."""
    axes = {name: list(range(10**4)) for name in "abc"}
    about = json.loads((flat / "zarr.json").read_text())
    about = inside(about, "sweep", grid={"axes": axes, "zipped": [], "points": [[0, 0, 0]]})
    (flat / "zarr.json").write_text(json.dumps(about))
    for call in (ld.open_sweep, progress_of):
        with pytest.raises(ValueError, match=r"in point/zarr.json [^\n]* 1,000,000,000,000 points"):
            call(store)


def test_labels_beyond_the_memory_are_one_line(store, monkeypatch):
    monkeypatch.setattr("learndyn.sweeping.schema.free_memory", lambda _: 23)
    with pytest.raises(ValueError, match=r"in point/x/zarr.json [^\n]* than the memory holds"):
        ld.open_sweep(store)


def test_missing_chunks_are_not_listed(store, flat):
    """A description and its array may agree on any number of them; the first one ends it."""
    for part, change in {
        "zarr.json": lambda about: inside(about, "schema", sizes={"x": 10**6}),
        "x/zarr.json": lengths((10**6,)),
        "y/zarr.json": lengths((6, 10**6), (2, 1)),
    }.items():
        (flat / part).write_text(json.dumps(change(json.loads((flat / part).read_text()))))
    with pytest.raises(ValueError, match="is damaged in point/x/c/1 "):
        ld.open_sweep(store)


def inside(about, name, value=None, **parts):
    """What describes the store, with something else in one place."""
    attributes = about["attributes"]
    value = {**attributes[name], **parts} if parts else value
    return {**about, "attributes": {**attributes, name: value}}


HOLDER = """
import sys, time
from learndyn.sweeping.lock import held
with held(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_killed_client_leaves_points_interrupted(client, store):
    writing = Store(str(store), "r+")
    statuses = writing.statuses()
    statuses[4] = type(statuses[4])("running", 1, worker="gone:1")
    writing.write_statuses(0, statuses)
    words = [sys.executable, "-c", HOLDER, str(store)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert is_held(writing) and progress_of(store)[0]["running"] == 1
        with pytest.raises(ValueError, match=f"is being written by process {holder.pid} on "):
            again(client, store)
        holder.kill()
    assert not is_held(writing)
    assert progress_of(store)[0] == {"pending": 0, "finished": 5, "interrupted": 1}
    assert str(ld.open_sweep(store)["point_status"].values[4]) == "interrupted"
    assert np.all(again(client, store)["point_status"] == "finished")
    assert os.listdir(store.parent) == ["s.zarr"]


def test_asking_whether_a_store_is_held_keeps_nobody_out(store):
    with held(str(store)):
        assert is_held(Store(str(store)))
    assert not is_held(Store(str(store))) and os.listdir(store.parent) == ["s.zarr"]


def test_a_group_of_format_2_is_refused(tmp_path):
    """Its arrays could name a filter that unpickles their chunks; ours have format 3."""
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / ".zattrs").write_text('{"sweep": {}}')
    with pytest.raises(ValueError, match=r"\Astore: [^\n]* holds something else; allowed is "):
        ld.open_sweep(tmp_path)
