"""Files that are written completely or not at all, and records stored in them."""

import contextlib
import errno
import glob
import hashlib
import math
import os
import pathlib
import platform
import secrets
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

import xarray as xr

from learndyn.records.netcdf import write
from learndyn.runtime.checks import flag

# Appended to the content of a record, with its SHA-256. Readers of NetCDF ignore it. It is checked
# first, because HDF5 may never return from reading a damaged file.
SEAL = b"\nlearndyn record, sha256 "
LONGEST = len(SEAL) + 32
BLOCK = 2**20  # bytes read at a time
ALLOWED = "a whole file, as `save` writes it (xarray.open_dataset reads other NetCDF)"
WRITABLE = "a file that can be written"
ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_PARTS: set[pathlib.Path] = set()  # temporary files that are being written


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """A temporary path to write to, which replaces `path` when the block ends without an error.

    By then its content has reached the disk. Temporary files that a killed process left for the
    same `path` are removed. A symbolic link stays, and the file that it points to is replaced. If
    the file existed, its mode and, if the system allows it, its owner are kept.

    Args:
        path: the file.

    Yields:
        The temporary path, in the folder of the file and with the suffix of `path`.

    Raises:
        ValueError: if the file cannot be written (disk full, no permission, no folder), is
            read-only (even for root), or is not a regular file (a folder, a pipe, a device).
    """
    path = pathlib.Path(path)
    with _one_line(path, WRITABLE):
        old, target = _old(path), pathlib.Path(os.path.realpath(path))
        part = _part(target, path.suffix)
        _sweep(target)
        _PARTS.add(part)
        try:
            if old is not None:
                _begin_like(old, part)
            yield part
            # On disk before the rename: after a power cut the new name could otherwise refer to
            # an empty file.
            with open(part, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(part, target)
        finally:
            _remove(part)
            _PARTS.discard(part)


def require_writable(path: str | os.PathLike) -> None:
    """Raises the error of `whole_file` now if a file cannot be written; changes nothing."""
    path = pathlib.Path(path)
    with _one_line(path, WRITABLE):
        _old(path)
        part = _part(pathlib.Path(os.path.realpath(path)), path.suffix)
        try:
            part.touch()
        finally:
            _remove(part)


def _old(path: pathlib.Path) -> os.stat_result | None:
    """The status of the file to replace, None for a new one; OSError if it cannot be replaced."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, "")
    if not stat.S_ISREG(old.st_mode):
        raise OSError("not a regular file")
    # Root can write to any file, so the mode is checked: it says what the owner wants.
    if not old.st_mode & ANY_WRITE or not os.access(path, os.W_OK):
        raise OSError("read-only")
    return old


def _part(target: pathlib.Path, suffix: str) -> pathlib.Path:
    return target.with_name(f"{_prefix(target)}{os.getpid()}.{secrets.token_hex(4)}{suffix}")


def _begin_like(old: os.stat_result, part: pathlib.Path) -> None:
    """Creates an empty part with the owner and mode of the old file, before it has content."""
    part.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    # Only root is allowed to change the owner, and Windows has no owners.
    with contextlib.suppress(OSError, AttributeError):
        os.chown(part, old.st_uid, old.st_gid)
    os.chmod(part, stat.S_IMODE(old.st_mode))


def discard() -> None:
    """Removes incomplete files, for a process that is about to end."""
    for part in tuple(_PARTS):
        _remove(part)


def _remove(part: pathlib.Path) -> None:
    # A part that could not be written may not be removable either: its folder may be a file.
    with contextlib.suppress(OSError):
        part.unlink(missing_ok=True)


def save(record: xr.Dataset, path: str | os.PathLike) -> None:
    """Writes a record as NetCDF, completely or not at all.

    Args:
        record: the record.
        path: the file, usually ending in `.nc`.

    Raises:
        ValueError: if the file cannot be written, see `whole_file`, and for an attribute or a
            variable that NetCDF cannot store.

    Example:
        >>> import os
        >>> import tempfile
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> system = ld.System(line, network, ld.GradientDescent(0.1))
        >>> path = os.path.join(tempfile.mkdtemp(), "run.nc")
        >>> record = ld.solve(system, [0, 50])
        >>> ld.save(record, path)
        >>> ld.load(path).equals(record)
        True
    """
    if not isinstance(record, xr.Dataset):
        came = type(record).__name__
        raise ValueError(f"record: got {came!r}; allowed is a record, an xarray.Dataset")
    path = _place(path)
    # Not buffered, so that a full disk is noticed where it happens.
    with whole_file(path) as part, open(part, "wb+", buffering=0) as file:
        write(record, file)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").digest()
        file.seek(0, os.SEEK_END)
        file.write(SEAL + digest)


def load(path: str | os.PathLike, *, lazy: bool = False) -> xr.Dataset:
    """Reads a record that `save` wrote.

    Args:
        path: the file.
        lazy: whether variables are read only where they are used, for records beyond the memory:
            `load(path, lazy=True)["error"][:1000]` reads a thousand times. The file stays open
            until `.close()`.

    Returns:
        The record, loaded into memory unless `lazy`.

    Raises:
        ValueError: if the file is missing, damaged, or was not written by `save`.

    Example:
        >>> import pathlib, tempfile
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "erf"))
        >>> system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "theory.nc"
        ...     ld.save(ld.solve(system, [0, 1]), path)
        ...     record = ld.load(path)
        >>> record["error"].dims, record.attrs["order"]
        (('time',), 'full')
    """
    path = _place(path)
    flag("lazy", lazy)
    with contextlib.ExitStack() as stack:
        with _one_line(path, ALLOWED):
            if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
                raise OSError("not a regular file")  # reading a pipe would wait forever
            file = stack.enter_context(open(path, "rb"))
            _check_seal(file)
            _check_contents(file)
        with _one_line(path, ALLOWED), _as_saved():
            if lazy:
                return xr.open_dataset(path, engine="h5netcdf")
            with xr.open_dataset(file, engine="h5netcdf") as record:
                return record.load()


def _place(path: str | os.PathLike) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not pathlib.PurePath(text).name or "\0" in text:
        came = type(path).__name__ if text is None else text
        raise ValueError(f"path: got {came!r}; allowed is the path of a file")
    return text


def _check_seal(file: BinaryIO) -> None:
    """Raises an OSError that says what is wrong with a file unless `save` wrote it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 2 * LONGEST, 0))
    _, seal, digest = file.read().rpartition(SEAL)
    if not seal:
        raise OSError("cut off, or not written by `save`")
    left = size - len(seal) - len(digest)
    file.seek(0)
    found = hashlib.sha256()
    while left:
        block = file.read(min(left, BLOCK))
        found.update(block)
        left -= len(block)
    if found.digest() != digest:
        raise OSError("damaged, or changed since it was written")
    file.seek(0)


def _check_contents(file: BinaryIO) -> None:
    """Raises an OSError if variables are larger than the file, or in other files.

    `save` packs none of them; HDF5 would read any file that a variable names.
    """
    import h5netcdf
    import h5py

    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with _as_saved():
        with h5py.File(file, "r") as content:
            elsewhere = content.visititems(lambda name, node: is_elsewhere(node) and name)
        file.seek(0)
        with h5netcdf.File(file, "r") as content:
            claimed = sum(math.prod(v.shape) * v.dtype.itemsize for v in content.variables.values())
    if elsewhere:
        raise OSError(f"{elsewhere!r} is in another file")
    if claimed > size:
        raise OSError(f"its variables would take {claimed} bytes, and the file has {size}")
    file.seek(0)


@contextlib.contextmanager
def _as_saved() -> Iterator[None]:
    """Raises an OSError for types and attributes that `save` never writes."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise OSError("not written by `save`") from None


def is_elsewhere(node: Any) -> bool:
    """Whether the numbers of something in an HDF5 file are in other files."""
    return bool(getattr(node, "external", None) or getattr(node, "is_virtual", False))


@contextlib.contextmanager
def _one_line(path: str | os.PathLike, allowed: str) -> Iterator[None]:
    """Turns an OSError about a file into a ValueError of one line."""
    try:
        yield
    except OSError as error:
        # Libraries may replace the system's message by their own, of several lines.
        why = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        raise ValueError(f"path: got {os.fspath(path)!r} ({why}); allowed is {allowed}") from None


def _prefix(path: pathlib.Path) -> str:
    # With the computer's name: process numbers are local to it, but folders may be shared.
    return f".{path.name}.{platform.node()}."


def _sweep(path: pathlib.Path) -> None:
    """Removes incomplete files of processes that no longer exist."""
    for left in path.parent.glob(glob.escape(_prefix(path)) + "*"):
        number = left.name.removeprefix(_prefix(path)).partition(".")[0]
        if number.isdecimal() and _is_gone(int(number)):
            left.unlink(missing_ok=True)


def _is_gone(process: int) -> bool:
    if os.name != "posix":  # on Windows, signal 0 would end the process
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process, or no process number
        return False
    return False
