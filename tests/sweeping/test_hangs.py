"""A point that takes for ever holds its own worker, and no other."""

import numpy as np
import pytest
import xarray as xr
from distributed import Client

import learndyn as ld
from learndyn.sweeping import engine, progress_of

POINTS = 20
HUNG = 600  # seconds


@pytest.fixture(scope="module")
def two():
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as own:
        yield own


@pytest.mark.parametrize(("bad", "chunk"), [(0, None), (1, None), (7, None), (7, 1)])
def test_all_others_finish_before_one_that_hangs(two, tmp_path, monkeypatch, bad, chunk):
    monkeypatch.setattr(engine, "PATIENCE", 0.1)
    monkeypatch.setattr(engine, "SECONDS", 0.1)
    store, go = tmp_path / "s.zarr", tmp_path / "go"
    seen = []

    def hangs(a):
        import time

        began = time.monotonic()
        while a == bad and not go.exists():
            if time.monotonic() > began + HUNG:
                raise TimeoutError("the others were never done")
            time.sleep(0.01)
        time.sleep(0.05)  # so that chunks are short
        return xr.Dataset({"y": float(a)})

    def told(fraction):
        if round(fraction * POINTS) >= POINTS - 2 and not go.exists():
            seen.append(progress_of(store)[0])
            go.touch()

    axes = {"a": range(POINTS)}
    data = ld.sweep(hangs, axes, store=store, client=two, chunk=chunk, retries=0, progress=told)
    assert set(data["point_message"].values) == {""}
    assert np.array_equal(data["y"], np.arange(POINTS)) and np.all(data["point_attempt"] == 1)
    assert seen[0]["finished"] >= POINTS - 2


def test_the_lowest_of_points_that_have_finished_fixes_the_schema(two, tmp_path, monkeypatch):
    """And one that was passed over fails or finishes like any other."""
    monkeypatch.setattr(engine, "PATIENCE", 0.1)
    go = tmp_path / "go"

    def differs(a):
        import time

        while a == 0 and not go.exists():
            time.sleep(0.01)
        return xr.Dataset({"y": ("x", np.ones(2 if a == 0 else 3))})

    def told(fraction):
        if fraction > 0:
            go.touch()

    options = {"store": tmp_path / "s.zarr", "client": two, "chunk": 1, "retries": 0}
    data = ld.sweep(differs, {"a": range(5)}, progress=told, **options)
    assert list(data["point_status"].values) == ["failed", *["finished"] * 4]
    assert str(data["point_message"].values[0]).startswith("y has dimensions x 2; that of the")
