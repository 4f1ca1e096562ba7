"""Files are whole or not there, whatever happens to the disk or to the process."""

import hashlib
import os
import pathlib
import platform
import socket
import stat
import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import learndyn as ld
from learndyn.records import files, whole_file

RECORD = xr.Dataset({"error": ("time", np.linspace(1, 0, 500))}, {"time": np.arange(500.0)})
# A largest file size stands for the disk: beyond it a write fails.
SAVE = """
import numpy as np, resource, sys, xarray as xr
from learndyn.records import save
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    save(xr.Dataset({"error": ("time", np.arange(500.0))}), sys.argv[1])
except ValueError as error:
    print(error)
"""


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("size", [0, pytest.param(100, marks=pytest.mark.slow), 4000])
def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path, size):
    path = tmp_path / "kept.nc"
    ld.save(RECORD, path)
    command = [sys.executable, "-c", SAVE, path, str(size)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0 and not found.stderr
    said = f"path: got '{path}' (File too large); allowed is a file that can be written\n"
    assert found.stdout == said
    assert names(tmp_path) == ["kept.nc"] and ld.load(path).identical(RECORD)


def test_a_path_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for place, why in [
        ("none/x.nc", "No such file or directory"),
        ("file/x.nc", "Not a directory"),
        ("folder", "Is a directory"),
    ]:
        with pytest.raises(ValueError) as found:
            ld.save(RECORD, tmp_path / place)
        said = f"path: got '{tmp_path / place}' ({why}); allowed is a file that can be written"
        assert str(found.value) == said
    assert names(tmp_path) == ["file", "folder"] and names(tmp_path / "folder") == []


def test_a_path_that_cannot_be_written_leaves_nothing_to_discard(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "record.nc", tmp_path / ("a" * 300)):
        with pytest.raises(ValueError, match="a file that can be written"):
            files.save(xr.Dataset(), path)
    assert not files._PARTS


def test_a_writer_that_fails_is_one_line(tmp_path):
    with (
        pytest.raises(ValueError, match=r"path: got '.*x\.txt' \(No space left on device\); allow"),
        whole_file(tmp_path / "x.txt") as part,
    ):
        part.write_text("half")
        raise OSError(28, "any words")
    assert names(tmp_path) == []


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    writer = "import sys, os, time; from learndyn.records import whole_file as w\n"
    writer += "with w(sys.argv[1]) as part: part.write_text('half'); os.kill(os.getpid(), 9)"
    for name in ("x.txt", "y.txt"):
        subprocess.run([sys.executable, "-c", writer, tmp_path / name], capture_output=True)
    mine = f".x.txt.{platform.node()}.{os.getppid()}.0.txt"  # of a process that lives
    (tmp_path / mine).write_text("half")
    (tmp_path / ".x.txt.elsewhere.999999999.0.txt").write_text("half")  # of another computer
    assert len(names(tmp_path)) == 4
    with whole_file(tmp_path / "x.txt") as part:
        part.write_text("whole")
    left = names(tmp_path)
    assert len(left) == 4 and left[-1] == "x.txt" and left[-2].startswith(".y.txt.")
    assert mine in left and ".x.txt.elsewhere.999999999.0.txt" in left


def test_a_part_has_the_ending_and_the_rights_of_the_file(tmp_path):
    with whole_file(tmp_path / "figure.png") as part:
        assert part.suffix == ".png" and part.parent == tmp_path
        part.write_bytes(b"")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "figure.png").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_links_stay_and_the_file_behind_them_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "target.nc").write_text("old")
    (tmp_path / "second.nc").symlink_to("there/target.nc")  # relative, in a chain
    (tmp_path / "first.nc").symlink_to(tmp_path / "second.nc")
    (tmp_path / "dangling.nc").symlink_to("there/new.nc")
    for link, target in (("first.nc", "target.nc"), ("dangling.nc", "new.nc")):
        ld.save(RECORD, tmp_path / link)
        assert (tmp_path / link).is_symlink() and ld.load(tmp_path / link).identical(RECORD)
        assert not (tmp_path / "there" / target).is_symlink()
    assert (tmp_path / "second.nc").is_symlink()
    assert names(tmp_path / "there") == ["new.nc", "target.nc"] and len(names(tmp_path)) == 4
    with whole_file(tmp_path / "second.nc") as part:
        assert part.parent == (tmp_path / "there").resolve()
        part.write_bytes(b"")


def test_a_part_has_the_ending_of_a_link(tmp_path):
    """By its ending a writer of figures chooses the format."""
    (tmp_path / "figure.png").symlink_to("latest")
    with whole_file(tmp_path / "figure.png") as part:
        assert part.suffix == ".png"
        part.write_bytes(b"")
    assert (tmp_path / "latest").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_keeps_its_mode_also_while_it_is_written(tmp_path, mode):
    path = tmp_path / "x.txt"
    path.touch()
    path.chmod(mode)
    with whole_file(path) as part:
        part.write_text("new")
        assert stat.S_IMODE(part.stat().st_mode) == mode
    assert stat.S_IMODE(path.stat().st_mode) == mode and path.read_text() == "new"


def test_a_new_file_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "x.txt") as part:
            part.write_text("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.txt").stat().st_mode) == 0o640


def test_a_file_keeps_its_owner_where_that_is_allowed(tmp_path):
    if os.geteuid():
        pytest.skip("only root may give files away")
    path = tmp_path / "x.txt"
    path.touch()
    os.chown(path, 12345, 12346)
    with whole_file(path) as part:
        part.write_text("new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_read_only_and_special_files_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    os.symlink("pipe", "link")
    os.symlink("loop", "loop")
    pathlib.Path("kept.nc").write_text("kept")
    pathlib.Path("kept.nc").chmod(0o444)
    before = {name: os.lstat(name) for name in names(tmp_path)}
    for name, why in [
        ("pipe", "not a regular file"),
        ("socket", "not a regular file"),
        ("link", "not a regular file"),
        ("loop", "Too many levels of symbolic links"),
        ("kept.nc", "read-only"),
    ]:
        for write in (lambda path: ld.save(RECORD, path), files.require_writable):
            with pytest.raises(ValueError) as raised:
                write(name)
            said = f"path: got '{name}' ({why}); allowed is a file that can be written"
            assert str(raised.value) == said
    assert {name: os.lstat(name)[:4] for name in names(tmp_path)} == {
        name: old[:4] for name, old in before.items()
    }
    assert pathlib.Path("kept.nc").read_text() == "kept"


def test_a_device_is_left_alone(tmp_path, monkeypatch):
    """One that is only said to be a device: a test writes to none."""
    path = tmp_path / "device"
    path.write_text("kept")
    true = os.stat(path)
    device = os.stat_result((stat.S_IFCHR | 0o666, *true[1:]))
    monkeypatch.setattr(os, "stat", lambda path, **_: device)
    with pytest.raises(ValueError, match="not a regular file"), whole_file(path) as part:
        part.write_text("new")
    monkeypatch.undo()
    assert path.read_text() == "kept"


def test_lazy_records_are_saved_beside_a_dask_client(tmp_path):
    RECORD.chunk(time=100).to_zarr(tmp_path / "store", consolidated=False)
    with xr.open_zarr(tmp_path / "store", consolidated=False) as lazy:
        ld.save(lazy, tmp_path / "alone.nc")
        # Its scheduler gets messages as from another process.
        options = {"protocol": "tcp", "processes": False, "dashboard_address": ""}
        with LocalCluster(n_workers=1, threads_per_worker=2, **options) as own, Client(own):
            ld.save(RECORD, tmp_path / "eager.nc")
            ld.save(lazy, tmp_path / "lazy.nc")
            assert ld.load(tmp_path / "eager.nc").identical(RECORD)
            assert ld.load(tmp_path / "lazy.nc").identical(RECORD)
        assert lazy.chunks  # the caller's stays lazy
    assert ld.load(tmp_path / "alone.nc").identical(RECORD)


UNHELD = {
    "None": None,
    "a truth value": True,
    "a dict": {"a": 1},
    "rows of two lengths": [[1, 2], [3]],
    "an object": object(),
    "numbers and texts": ["a", 1],
    "a long integer": 2**70,
    "truth values": [True, False],
    "a date": np.datetime64("2020-01-01"),
    "text with a zero": "a\0b",
    "an array of objects": np.array([[None]] * 50),
}


@pytest.mark.parametrize("value", UNHELD.values(), ids=UNHELD)
def test_an_attribute_that_netcdf_cannot_hold_is_named(tmp_path, value):
    own = RECORD.assign_attrs(fine=1.0, note=value)
    its = RECORD.assign(error=RECORD["error"].assign_attrs(units="1", note=value))
    for record, owner in ((own, ""), (its, " of 'error'")):
        with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as raised:
            ld.save(record, tmp_path / "x.nc")
        assert str(raised.value).startswith(f"attributes: got 'note'{owner}, which is ")
        assert "; allowed is text, a number, or a list or array of" in str(raised.value)
    assert names(tmp_path) == []


def test_attributes_that_netcdf_holds_come_back(tmp_path):
    held = {"text": "é", "whole": 3, "real": np.float32(0.5), "texts": ["a", "b"], "list": [1, 2]}
    ld.save(RECORD.assign_attrs(held), tmp_path / "x.nc")
    assert ld.load(tmp_path / "x.nc").identical(RECORD.assign_attrs(held))


@pytest.mark.parametrize("name, values", [("a/b", [1.0]), ("mixed", ["a", 1]), (3, [1.0])])
def test_a_variable_that_netcdf_cannot_hold_is_named(tmp_path, name, values):
    record = RECORD.assign({name: ("x", np.array(values, object))})
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as raised:
        ld.save(record, tmp_path / "x.nc")
    assert str(raised.value).startswith(f"record: got the variable {name!r}, which NetCDF cannot")


def test_an_incomplete_record_raises_a_one_line_error(tmp_path):
    ld.save(RECORD, tmp_path / "whole.nc")
    content = (tmp_path / "whole.nc").read_bytes()
    broken = {
        "cut": (content[:-100], "cut off, or not written by `save`"),
        "shorter": (content[:-1], "damaged, or changed since it was written"),
        "empty": (b"", "cut off, or not written by `save`"),
        "text": (b"time,error\n", "cut off, or not written by `save`"),
    }
    RECORD.to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    said = (tmp_path / "foreign.nc").read_bytes(), "cut off, or not written by `save`"
    for name, (found, why) in {**broken, "foreign": said}.items():
        (tmp_path / f"{name}.nc").write_bytes(found)
        with pytest.raises(ValueError) as raised:
            ld.load(tmp_path / f"{name}.nc")
        assert str(raised.value).startswith(f"path: got '{tmp_path / name}.nc' ({why}); allowed")
    for name, why in (("missing.nc", "No such file or directory"), ("", "Is a directory")):
        with pytest.raises(ValueError, match=rf"\({why}\); allowed is a whole file"):
            ld.load(tmp_path / name)


def test_bytes_that_were_zeroed_anywhere_are_found(tmp_path):
    """HDF5 by itself runs on for ever in some of these files."""
    path = tmp_path / "x.nc"
    ld.save(RECORD, path)
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        zeroed = content[:at] + bytes(len(content[at : at + 200])) + content[at + 200 :]
        path.write_bytes(zeroed)
        if zeroed == content:  # there were zeros already
            assert ld.load(path).identical(RECORD)
        else:
            with pytest.raises(ValueError, match=r"^path: got .* \((damaged|cut off), or"):
                ld.load(path)


@pytest.mark.parametrize("packing", [{}, {"compression": "gzip"}])
def test_variables_that_are_larger_than_their_file_reserve_no_memory(tmp_path, packing):
    """A file of 6 kB that promises 16 TB, with the seal of a whole one."""
    path = tmp_path / "x.nc"
    with h5py.File(path, "w") as file:
        for name in ("time", "error"):
            file.create_dataset(name, (10**12,), float, chunks=(10**6,), **packing)
        file["time"].make_scale("time")
        file["error"].dims[0].attach_scale(file["time"])
    sealed(path)
    for lazy in (False, True):
        with pytest.raises(ValueError, match=r"variables would take 16000000000000 bytes, and the"):
            ld.load(path, lazy=lazy)


def sealed(path):
    """The file as if `save` had written it."""
    content = path.read_bytes()
    path.write_bytes(content + files.SEAL + hashlib.sha256(content).digest())


@pytest.mark.parametrize("attribute", [{"units": "days since 1e99-01-01"}, {"scale_factor": "a"}])
def test_attributes_that_mean_nothing_are_one_line(tmp_path, attribute):
    path = tmp_path / "x.nc"
    with h5py.File(path, "w") as file:
        file["time"] = np.arange(3.0)
        file["time"].make_scale("time")
        file["time"].attrs.update(attribute)
    sealed(path)
    with pytest.raises(ValueError, match=r"\Apath: got [^\n]* \(not written by `save`\); allowed"):
        ld.load(path)


def test_links_to_variables_in_other_files_are_not_followed(tmp_path):
    ld.save(RECORD, tmp_path / "other.nc")
    with h5py.File(tmp_path / "x.nc", "w") as file:
        for name in ("time", "error"):
            file[name] = h5py.ExternalLink(str(tmp_path / "other.nc"), f"/{name}")
    sealed(tmp_path / "x.nc")
    for lazy in (False, True):
        with pytest.raises(ValueError, match=r"\Apath: got [^\n]*x.nc' \(not written by `save`\)"):
            ld.load(tmp_path / "x.nc", lazy=lazy)


@pytest.mark.parametrize("kind", ["external", "virtual"])
def test_variables_in_other_files_are_not_read(tmp_path, kind):
    """HDF5 would read any file of this computer that a record names."""
    path, other = tmp_path / "x.nc", tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["secret"] = np.arange(3.0)
    layout = h5py.VirtualLayout((3,), float)
    layout[:] = h5py.VirtualSource(other, "secret", (3,))
    with h5py.File(path, "w") as file:
        if kind == "external":
            file.create_dataset("time", (3,), float, external=[(str(other), 0, 24)])
        else:
            file.create_virtual_dataset("time", layout)
        file["time"].make_scale("time")
    sealed(path)
    for lazy in (False, True):
        with pytest.raises(
            ValueError, match=r"path: got .* \('time' is in another file\); allowed"
        ):
            ld.load(path, lazy=lazy)


def test_other_readers_of_netcdf_read_a_record(tmp_path):
    ld.save(RECORD, tmp_path / "x.nc")
    with xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as read:
        assert read.identical(RECORD)


def test_names_are_kept_beside_shorter_ones_that_were_loaded(tmp_path):
    short, long = (
        xr.Dataset({"y": ("task", [1.0])}, {"task": [name]}) for name in ("ab", "abcdef")
    )
    ld.save(short, tmp_path / "short.nc")
    ld.save(xr.concat([ld.load(tmp_path / "short.nc"), long], "task"), tmp_path / "both.nc")
    assert list(ld.load(tmp_path / "both.nc")["task"].values) == ["ab", "abcdef"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.nc")
    with pytest.raises(ValueError, match=r"path: got .* \(not a regular file\); allowed is"):
        ld.load(tmp_path / "pipe.nc")


def test_large_records_are_written_and_read_without_being_held_twice(tmp_path, peak_memory):
    values = np.random.default_rng(0).random((8, 2**19))
    record = xr.Dataset({"error": (("run", "time"), values)})
    size, path = record.nbytes / 2**20, tmp_path / "large.nc"  # 32 MB
    ld.save(record.isel(time=slice(9)), path)
    ld.load(path)  # what reading and writing import is imported
    assert peak_memory(lambda: ld.save(record, path)) < size / 4
    assert peak_memory(lambda: ld.load(path)) < 1.25 * size
    with ld.load(path, lazy=True) as lazy:
        part = slice(1000, 2000)
        assert peak_memory(lambda: lazy["error"].isel(time=part).load()) < size / 4
        assert np.array_equal(lazy["error"].isel(time=part), values[:, part])
        chunked = lazy.chunk(run=1)
        assert peak_memory(lambda: ld.save(chunked, tmp_path / "again.nc")) < size / 2
    assert ld.load(tmp_path / "again.nc").identical(record)
