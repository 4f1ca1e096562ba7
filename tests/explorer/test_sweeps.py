"""Sweeps: stores that are found, maps of what they hold, and the record of a cell."""

import numpy as np
import pytest
import xarray as xr
from distributed import Client

import learndyn as ld
from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES

SWEEPS = PAGES["sweeps"]
TIME = np.arange(3.0)


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


def test_the_code_of_the_view_gives_the_same_numbers(folder, monkeypatch):
    monkeypatch.chdir(folder)
    view, names = shown(folder, value="error", cell="1, 0"), {}
    exec(view.code, names)
    np.testing.assert_allclose(names["shown"], view.heats[0].values)
    np.testing.assert_allclose(names["record"]["error"][:, 0], view.charts[0].series[0].y)


def test_records_and_figures_are_saved(folder, tmp_path):
    folders = {"sweeps": str(folder)}
    for cell, kind in (("", "sweep"), ("1, 0", "record")):
        values = {**starts(SWEEPS.controls), "store": "deep/store.zarr", "cell": cell}
        records = SWEEPS.records(values, folders)
        ld.save(records[kind], tmp_path / f"{kind}.nc")
        SWEEPS.figure(values, records).savefig(tmp_path / f"{kind}.png")
