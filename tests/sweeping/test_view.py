"""Stores opened by xarray alone, which knows nothing of sweeps."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr

import learndyn as ld

pytestmark = pytest.mark.filterwarnings("error")


def record(a, b):
    """One variable of each kind; the point a = 2, b = 1.5 fails."""
    if (a, b) == (2, 1.5):
        raise ValueError("no such point")
    values = {"y": ("time", a * b * np.arange(3.0)), "n": a, "ok": a > 1, "name": f"é{a}"}
    return xr.Dataset(values, {"time": [0, 1, 5], "two words": 2.0}, {"sweep": "of mine"})


def product(a, b):
    return xr.Dataset({"value": a * b})  # integers stay integers in a dataset


@pytest.fixture
def run(client, tmp_path):
    def call(function, axes, **options):
        given = {"store": tmp_path / "s.zarr", "client": client, "progress": False, **options}
        return ld.sweep(function, axes, **given)

    return call


def agree(ours, store):
    """Whether xarray reads, with consolidated metadata, what `open_sweep` shows."""
    theirs = xr.open_zarr(store, consolidated=True)
    assert dict(theirs.sizes) == dict(ours.sizes) and theirs.attrs == ours.attrs
    assert set(theirs.variables) == set(ours.variables)
    for name, variable in ours.variables.items():
        found = theirs[name].variable
        assert found.dims == variable.dims and found.attrs == variable.attrs
        kinds = (found.dtype.kind, variable.dtype.kind)
        assert kinds[0] == kinds[1] or (kinds[0] == "T" and kinds[1] in "UO"), name
        np.testing.assert_array_equal(found.values.astype(variable.dtype), variable.values)
    return theirs


@pytest.mark.parametrize("location", ["s.zarr", "memory://view.zarr"])
def test_axes_are_dimensions_and_metadata_are_consolidated(run, tmp_path, location):
    store = location if "://" in location else tmp_path / location
    data = run(record, {"a": [1, 2], "b": [0.5, 1.5]}, store=store, retries=0)
    theirs = agree(data, store)
    assert theirs["y"].dims == ("a", "b", "time") and list(theirs["b"]) == [0.5, 1.5]
    assert {"point_status", "point_message"} <= set(theirs.coords)
    assert np.array_equal(theirs["y"].sel(a=2, b=0.5), np.arange(3.0))
    assert np.isnan(theirs["y"].sel(a=2, b=1.5)).all()
    assert agree(ld.open_sweep(store), store).identical(theirs)


@pytest.mark.parametrize("options", [{"where": lambda a, b: a != b}, {"zipped": ("a", "b")}])
def test_points_left_out_and_axes_that_vary_together(run, tmp_path, options):
    data = run(product, {"a": [1, 2, 3], "b": [1, 5, 7]}, chunk=2, **options)
    agree(data, tmp_path / "s.zarr")


def test_more_values_of_axes_and_points_that_finish_later(run, tmp_path):
    agree(run(product, {"a": [1, 3], "b": [2]}), tmp_path / "s.zarr")
    data = run(product, {"a": [1, 2, 3], "b": [1, 2]}, extend=True)
    theirs = agree(data, tmp_path / "s.zarr")
    assert theirs["value"].dtype.kind == "i" and np.array_equal(theirs["value"][1], [2, 4])


def test_labels_that_differ_by_point(run, tmp_path):
    grows = lambda n: xr.Dataset({"y": ("time", np.arange(n) / 2)}, {"time": n * np.arange(n)})
    data = run(grows, {"n": [1, 4, 2]}, pad=("time",))
    assert "point_time" in agree(data, tmp_path / "s.zarr").coords


def test_labels_that_are_texts(run, tmp_path):
    named = lambda n: xr.Dataset({"y": ("kind", [n, -n])}, {"kind": ["twin", "né"]})
    theirs = agree(run(named, {"n": [1, 4]}), tmp_path / "s.zarr")
    assert list(theirs["kind"].values) == ["twin", "né"] and theirs["y"].sel(n=4, kind="né") == -4


def test_arrays_that_are_larger_than_a_chunk(run, tmp_path, monkeypatch):
    monkeypatch.setattr("learndyn.sweeping.view.BYTES", 200)
    axes = {"a": range(7), "b": range(5), "c": range(9)}
    data = run(lambda a, b, c: 100 * a + 10 * b + c, axes, chunk=50)
    theirs = agree(data, tmp_path / "s.zarr")
    assert theirs["value"].encoding["chunks"] == (1, 2, 9)


def test_a_copy_that_was_not_finished_is_written_by_the_next_call(run, tmp_path, monkeypatch):
    """As if the process had been killed before the last write; and where it fails, a warning."""
    axes, about = {"a": [1, 2], "b": [0.5]}, tmp_path / "s.zarr" / "zarr.json"
    data = run(product, axes)
    text = json.loads(about.read_text())
    del text["consolidated_metadata"]
    about.write_text(json.dumps(text))
    shutil.rmtree(tmp_path / "s.zarr" / "value")
    assert ld.open_sweep(tmp_path / "s.zarr").identical(data)
    run(product, axes)
    agree(data, tmp_path / "s.zarr")

    def full(*_):
        raise OSError(28, "disk full")

    monkeypatch.setattr("learndyn.sweeping.view._copy", full)
    with pytest.warns(UserWarning, match=r"No space left on device.*open_zarr does not show"):
        more = run(product, {"a": [1, 2, 3], "b": [0.5]}, extend=True)
    assert list(more["value"].values.ravel()) == [0.5, 1, 1.5]
