"""Files that are either whole or not there, and records kept in them."""

import contextlib
import glob
import hashlib
import io
import os
import pathlib
import platform
import secrets
from collections.abc import Iterator

import xarray as xr

# After the content of a record, with its SHA-256. Readers of NetCDF end before it; HDF5 itself may
# never come back from a damaged file.
SEAL = b"\nlearndyn record, sha256 "
ALLOWED = "a whole file, as `save` writes it (xarray.open_dataset reads other NetCDF)"


_PARTS: set[pathlib.Path] = set()  # that are being written


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """A path to write to; it takes the place of `path` once the block ends without error.

    What was written has reached the disk by then. What a killed process left half written for
    the same `path` is removed.

    Args:
        path: the file.

    Yields:
        The path to write to, in the same folder and with the same ending.

    Raises:
        ValueError: where the file cannot be written (disk full, no permission, no folder).
    """
    path = pathlib.Path(path)
    part = path.with_name(f"{_prefix(path)}{os.getpid()}.{secrets.token_hex(4)}{path.suffix}")
    with _one_line(path, "a file that can be written"):
        _sweep(path)
        _PARTS.add(part)
        try:
            yield part
            _flush(part)
            os.replace(part, path)
        finally:
            _remove(part)
            _PARTS.discard(part)


def discard() -> None:
    """Removes what is half written, for a process that is about to end."""
    for part in tuple(_PARTS):
        _remove(part)


def _remove(part: pathlib.Path) -> None:
    # Where it could not be written it need not be removable: its folder may be a file.
    with contextlib.suppress(OSError):
        part.unlink(missing_ok=True)


def save(record: xr.Dataset, path: str | os.PathLike) -> None:
    """Writes a record as NetCDF, whole or not at all.

    Args:
        record: the record.
        path: the file, by custom ending in `.nc`.

    Raises:
        ValueError: where the file cannot be written.
    """
    if not isinstance(record, xr.Dataset):
        came = type(record).__name__
        raise ValueError(f"record: got {came!r}; allowed is a record, an xarray.Dataset")
    path = _place(path)
    # Made in memory: HDF5 does not survive a disk that is full. Without the encoding of a file that
    # a part of it was read from, which would cut names that are longer than those in there.
    content = bytes(record.drop_encoding().to_netcdf(None, engine="h5netcdf"))
    with whole_file(path) as part:
        part.write_bytes(content + SEAL + hashlib.sha256(content).digest())


def load(path: str | os.PathLike) -> xr.Dataset:
    """Reads a record that `save` wrote.

    Args:
        path: the file.

    Returns:
        The record, in memory.

    Raises:
        ValueError: where the file is missing, damaged or of another kind.
    """
    path = _place(path)
    with _one_line(path, ALLOWED):
        content = _unsealed(pathlib.Path(path).read_bytes())
    with xr.open_dataset(io.BytesIO(content), engine="h5netcdf") as record:
        return record.load()


def _place(path: str | os.PathLike) -> str:
    found = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(found, str) or not pathlib.PurePath(found).name or "\0" in found:
        came = type(path).__name__ if found is None else found
        raise ValueError(f"path: got {came!r}; allowed is the path of a file")
    return found


def _unsealed(sealed: bytes) -> bytes:
    """The content of a file of `save`, or an OSError that says what is wrong with it."""
    content, seal, digest = sealed.rpartition(SEAL)
    if not seal:
        raise OSError("cut off, or not written by `save`")
    if hashlib.sha256(content).digest() != digest:
        raise OSError("damaged, or changed since it was written")
    return content


@contextlib.contextmanager
def _one_line(path: str | os.PathLike, allowed: str) -> Iterator[None]:
    """Turns what is said about a file into one line."""
    try:
        yield
    except OSError as error:
        # A writer may put its own words, over several lines, in the place of the system's.
        why = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        raise ValueError(f"path: got {os.fspath(path)!r} ({why}); allowed is {allowed}") from None


def _prefix(path: pathlib.Path) -> str:
    # Process numbers mean something on one computer only, and folders may be shared.
    return f".{path.name}.{platform.node()}."


def _flush(part: pathlib.Path) -> None:
    with open(part, "rb+") as file:
        os.fsync(file.fileno())


def _sweep(path: pathlib.Path) -> None:
    """Removes what processes that are gone left half written."""
    for left in path.parent.glob(glob.escape(_prefix(path)) + "*"):
        number = left.name.removeprefix(_prefix(path)).partition(".")[0]
        if number.isdecimal() and _is_gone(int(number)):
            left.unlink(missing_ok=True)


def _is_gone(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is not a question
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process, or no process number
        return False
    return False
