"""Files are whole or not there, whatever happens to the disk or to the process."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

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


def test_what_a_killed_process_left_is_swept(tmp_path):
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


def test_what_is_no_whole_record_is_one_line(tmp_path):
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
