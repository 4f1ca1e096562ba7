"""Disks that are full or read-only: real ones, which root may mount, of a megabyte or so."""

import os
import subprocess

import numpy as np
import pytest
import xarray as xr

import learndyn as ld


@pytest.fixture
def disk(tmp_path):
    """A disk of its own, and what mounts it again with other options."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options):
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        return subprocess.run(words, capture_output=True).returncode

    if os.geteuid() or mount("size=1m"):
        pytest.skip("only root may mount a disk, and not everywhere")
    yield place, lambda options: mount(f"remount,{options}")
    subprocess.run(["umount", str(place)], check=True)


def drawn(a):
    return xr.Dataset({"y": ("x", np.random.default_rng(a).normal(size=5000))})


def sweep(client, count, store, **options):
    given = {"client": client, "progress": False, "chunk": 2, **options}
    return ld.sweep(drawn, {"a": range(count)}, store=store, **given)


@pytest.mark.parametrize("fault", ["No space left on device", "read-only"])
def test_a_record_on_a_full_or_read_only_disk_is_one_line_and_the_old_file_stays(disk, fault):
    place, mount = disk
    ld.save(drawn(0), place / "x.nc")
    if fault == "read-only":
        assert mount("ro") == 0
    larger = drawn(0).isel(x=np.arange(200_000) % 5000)  # 1.6 MB
    with pytest.raises(ValueError, match=rf"x.nc' \({fault}\); allowed is a file") as error:
        ld.save(larger, place / "x.nc")
    assert "\n" not in str(error.value)
    assert [each.name for each in place.iterdir()] == ["x.nc"]
    assert ld.load(place / "x.nc").identical(drawn(0))
    assert mount("rw,size=8m") == 0
    ld.save(larger, place / "x.nc")
    assert ld.load(place / "x.nc").identical(larger)


def check_whole(data, count):
    assert np.all(data["point_status"] == "finished")
    assert all(np.array_equal(data["y"].sel(a=a), drawn(a)["y"]) for a in range(count))


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_loses_nothing(client, disk):
    place, mount = disk
    with pytest.raises(ValueError, match=r"No space left on device\); allowed is") as error:
        sweep(client, 40, place / "s.zarr")  # of 40 kB each
    assert "\n" not in str(error.value)
    kept = ld.open_sweep(place / "s.zarr")
    there = kept["a"].values[kept["point_status"].values == "finished"]
    assert 5 < len(there) < 40
    assert all(np.array_equal(kept["y"].sel(a=a), drawn(a)["y"]) for a in there)
    assert mount("size=8m") == 0
    data = sweep(client, 40, place / "s.zarr")
    check_whole(data, 40)
    assert np.all(data["point_attempt"].sel(a=there) == 1)


@pytest.mark.parametrize("inside", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_read_only_store_is_one_line_and_loses_nothing(client, disk, inside):
    """The lock stands beside the store: on that disk too where the store is inside of it."""
    place, mount = disk
    store = place / "s.zarr" if inside else place
    sweep(client, 4, store)
    assert mount("ro") == 0
    with pytest.raises(ValueError, match=r"Read-only file system\); allowed is one that") as error:
        sweep(client, 6, store, extend=True)
    assert "\n" not in str(error.value)
    check_whole(ld.open_sweep(store), 4)
    assert mount("rw") == 0
    data = sweep(client, 6, store, extend=True)
    check_whole(data, 6)
    assert np.all(data["point_attempt"] == 1)
