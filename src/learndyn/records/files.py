"""Records on disk: a file is either whole or not there."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import xarray as xr


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """A path to write to; it takes the place of `path` once the block ends without error."""
    path = pathlib.Path(path)
    folder = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
    part = pathlib.Path(folder) / path.name
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
        os.rmdir(folder)


def save(record: xr.Dataset, path: str | os.PathLike) -> None:
    """Writes a record as NetCDF; an interrupted write leaves nothing behind.

    Args:
        record: the record.
        path: the file, by custom ending in `.nc`.
    """
    with whole_file(path) as part:
        record.to_netcdf(part, engine="h5netcdf")


def load(path: str | os.PathLike) -> xr.Dataset:
    """Reads a record that `save` wrote.

    Args:
        path: the file.

    Returns:
        The record, in memory.
    """
    with xr.open_dataset(path, engine="h5netcdf") as record:
        return record.load()
