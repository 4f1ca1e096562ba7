"""Sweeps: stores that are found, maps of what they hold, and the record of a cell."""

import contextlib
import threading
import time

import dask
import numpy as np
import pytest
import xarray as xr
from distributed import Client

import learndyn as ld
from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES
from learndyn.explorer.pages.sweeps import _labels
from learndyn.explorer.pages.thinning import MOST_PIECES

SWEEPS = PAGES["sweeps"]
TIME, LONG = np.arange(3.0), np.arange(50_000.0)
SECONDS = 60.0  # a sweep that hangs is found by this


def point(rate, units, key):
    if units == 3:
        raise ValueError("three is one too many")
    curve = rate * units + key + np.outer(TIME, [1.0, 2.0])
    return xr.Dataset({"error": (("time", "unit"), curve), "last": rate * units}, {"time": TIME})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("sweeps")
    axes = {"rate": [0.1, 0.2], "units": [1, 2, 3], "key": [0, 5]}
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        store = root / "deep" / "store.zarr"
        ld.sweep(point, axes, store=store, client=client, retries=0, progress=False)
    (root / "deep" / "link").symlink_to("/")
    (root / "zarr.json").mkdir()
    return root


def shown(folder, **values):
    values = {**starts(SWEEPS.controls), "store": "deep/store.zarr", **values}
    return SWEEPS.show(values, {"sweeps": str(folder)})


def test_stores_are_found_without_following_links(folder):
    view = shown(folder, store="")
    assert view.offers["store"] == ["", "deep/store.zarr"] and len(view.tables[0].rows) == 1


def test_a_map_of_what_is_finished(folder):
    view = shown(folder, value="last")
    (heat,) = view.heats
    assert (heat.x, heat.y) == ("rate", "units") and heat.title == "last at key 0"
    np.testing.assert_allclose(heat.values[:2], np.outer([1, 2], [0.1, 0.2]))
    assert np.isnan(heat.values[2]).all() and heat.status[2] == ["failed", "failed"]
    assert heat.leads[1][0] == {"cell": "1, 0"}
    assert [view.offers[name][0] for name in ("x", "y", "value")] == ["rate", "units", "last"]


def test_curves_are_shown_at_their_end(folder):
    view = shown(folder, value="error", x="key", y="rate")
    assert view.heats[0].title == "error at units 1, time 2.0, unit 1"
    np.testing.assert_allclose(view.heats[0].values, [[4.1, 9.1], [4.2, 9.2]])
    one = shown(folder, value="last", x="rate", y="rate").heats[0]
    np.testing.assert_allclose(one.values, [[0.1], [0.2]])


def test_a_cell_leads_to_its_record(folder):
    view = shown(folder, cell="1, 0")
    (chart,) = view.charts
    assert view.heats[0].chosen == view.heats[0].leads[1][0]["cell"]
    assert [s.name for s in chart.series] == ["error[0]", "error[1]"]
    np.testing.assert_allclose(chart.series[1].y, 0.2 + 2 * TIME)
    assert ("units", "2") in view.tables[0].rows
    failed = shown(folder, cell="2, 1")
    assert not failed.charts
    assert any("one too many" in text for _, text in failed.tables[0].rows)


@pytest.mark.parametrize("cell", ["9, 9", "-1, 0", "a", "1", "1, 2, 3"])
def test_other_cells_are_refused(folder, cell):
    with pytest.raises(ValueError, match=r"\Acell: got [^\n]*; allowed is one of the map\Z"):
        shown(folder, cell=cell)


@pytest.mark.parametrize("store", ["..", "/etc", "deep", "deep/link", "deep/../deep/store.zarr"])
def test_other_folders_are_refused(folder, store):
    with pytest.raises(ValueError, match=r"\Astore: got [^\n]*; allowed is one of those offered\Z"):
        shown(folder, store=store)


def test_the_code_of_the_view_gives_the_same_numbers_anywhere(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    view, names = shown(folder, value="error", cell="1, 0"), {}
    exec(view.code, names)
    np.testing.assert_allclose(names["shown"], view.heats[0].values)
    np.testing.assert_allclose(names["record"]["error"][:, 0], view.charts[0].series[0].y)


def test_values_of_an_axis_are_short_unless_they_would_be_the_same():
    assert _labels(np.array([0.1 + 0.2, 1e-9])) == ["0.3", "1e-09"]
    assert _labels(np.array([1, 1 + 1e-9])) == ["1.0", "1.000000001"]
    assert _labels(np.array(["a", "b"])) == ["a", "b"] and _labels(np.array([7])) == ["7"]


def refused(rate, units):
    raise ValueError("none of them")


go_on = threading.Event()


def waiting(rate, units):
    if units == 1:
        go_on.wait(SECONDS)
    return xr.Dataset({"long": ("time", np.sin(LONG))}, {"time": LONG})


def swept(function, store):
    inside = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with Client(**inside, dashboard_address=":0") as client:
        ld.sweep(function, AXES, store=store, client=client, retries=0, progress=False)


AXES = {"rate": [0.1], "units": [0, 1, 2]}


def test_a_sweep_of_which_nothing_has_finished_has_a_map_of_statuses(tmp_path):
    swept(refused, tmp_path / "none.zarr")
    view = shown(tmp_path, store="none.zarr", cell="1, 0")
    assert view.heats[0].title == "status" and np.isnan(view.heats[0].values).all()
    assert view.heats[0].status == [["failed"]] * 3 and view.status.endswith("; 3 failed")
    assert "Look again" not in view.links and not view.charts
    assert any("none of them" in text for _, text in view.tables[0].rows)
    names = {}
    exec(view.code, names)
    assert names["shown"].values.tolist() == [["failed"]] * 3


def test_a_sweep_that_is_being_written_can_be_looked_at_again(tmp_path):
    """Curves are long, too: on their way to the browser they have fewer points."""
    sweeping = threading.Thread(target=swept, args=(waiting, tmp_path / "now.zarr"))
    sweeping.start()
    try:
        show = lambda: shown(tmp_path, store="now.zarr", cell="0, 0")
        view = until(show, "; 1 finished, 1 running, 1 pending")
        assert view.links["Look again"] == {}
        assert view.heats[0].status[1] == ["running"]
        assert len(view.charts[0].at) <= 2 * MOST_PIECES + 2 < len(LONG)
        np.testing.assert_allclose(view.charts[0].series[0].y, np.sin(view.charts[0].at))
    finally:
        go_on.set()
        sweeping.join()
    done = shown(tmp_path, store="now.zarr")
    assert "Look again" not in done.links and done.status.endswith("; 3 finished")


def until(show, words):
    """The first view whose status has the words."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        # The store may not be there yet. What looks at it must not wait for the sweep's worker.
        with contextlib.suppress(ValueError), dask.config.set(scheduler="sync"):
            if words in (view := show()).status:
                return view
        time.sleep(0.05)
    raise AssertionError(words)


def test_records_and_figures_are_saved(folder, tmp_path):
    folders = {"sweeps": str(folder)}
    for cell, kind in (("", "sweep"), ("1, 0", "record")):
        values = {**starts(SWEEPS.controls), "store": "deep/store.zarr", "cell": cell}
        records = SWEEPS.records(values, folders)
        ld.save(records[kind], tmp_path / f"{kind}.nc")
        SWEEPS.figure(values, records).savefig(tmp_path / f"{kind}.png")
