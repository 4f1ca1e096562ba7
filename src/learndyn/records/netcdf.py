"""Writes a record as NetCDF into an open file."""

import contextlib
import io
import reprlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import xarray as xr

STORABLE = "text, a number, or a list or array of numbers or of texts"


def write(record: xr.Dataset, file: BinaryIO) -> None:
    """Writes the content of a NetCDF file with the record.

    Variables are written from where they are; of lazy ones, a chunk is in memory at a time.
    Encodings that parts of the record have from the files they were read from are dropped: they
    would truncate longer strings.

    Args:
        record: the record.
        file: an empty file that can be read and written.

    Raises:
        OSError: if the disk is full.
        ValueError: for an attribute or a variable that NetCDF cannot store.
    """
    plain = record.drop_encoding()
    # The type of texts is only known once they are loaded.
    texts = [name for name, variable in plain.variables.items() if variable.dtype == object]
    plain = plain.assign({name: plain[name].compute() for name in texts})
    disk = _Disk(file)
    try:
        _write(plain, disk)
    except Exception as error:  # of xarray, h5netcdf or h5py; most do not name the attribute
        if disk.error is None:
            _name_culprit(plain)
            why = str(error).partition("\n")[0]
            raise ValueError(f"record: got one that cannot be written ({why})") from None
    if disk.error is not None:
        raise disk.error


class _Disk(io.RawIOBase):
    """A file that keeps the error of a full disk for later, because HDF5 does not survive one."""

    def __init__(self, file: BinaryIO):
        self._file, self.error = file, None

    def write(self, content: Any) -> int:
        if self.error is None:
            try:
                self._file.write(content)
                return len(content)
            except OSError as error:
                self.error = error
        self._file.seek(len(content), io.SEEK_CUR)
        return len(content)

    def readinto(self, buffer: Any) -> int:
        found = self._file.readinto(buffer)  # pyright: ignore[reportAttributeAccessIssue]
        if self.error is not None:  # what was not written reads as zeros
            buffer[found:] = bytes(len(buffer) - found)
            return len(buffer)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int | None = None) -> int:
        if self.error is None:
            try:
                return self._file.truncate(size)
            except OSError as error:
                self.error = error
        return size or 0

    def flush(self) -> None:
        pass  # the file is not buffered


def check_attributes(attributes: Mapping[str, Any], owner: str = "") -> None:
    """Raises a ValueError that names the first attribute that NetCDF cannot store.

    Args:
        attributes: name → value.
        owner: the variable whose attributes they are; empty for those of a record.
    """
    for name, value in attributes.items():
        try:
            _write(xr.Dataset(attrs={name: value}), io.BytesIO())
        except Exception:
            of = f" of {owner!r}" if owner else ""
            came = " ".join(f"got {name!r}{of}, which is {reprlib.repr(value)}".split())
            raise ValueError(f"attributes: {came}; allowed is {STORABLE}") from None


def _write(record: xr.Dataset, file: Any) -> None:
    # Imported here because it takes long, and most programs never write a record.
    import h5netcdf
    from xarray.backends import H5NetCDFStore
    from xarray.backends.common import ArrayWriter

    # Not `to_netcdf`: if a Dask client is connected, that asks the scheduler for a lock named after
    # the file. This store takes the lock of HDF5 in this process.
    with _in_this_thread(record), h5netcdf.File(file, "w") as content:
        writer = ArrayWriter()
        record.dump_to_store(H5NetCDFStore(content), writer=writer)
        writer.sync()  # lazy variables, chunk by chunk


def _in_this_thread(record: xr.Dataset) -> contextlib.AbstractContextManager:
    """Has Dask compute here, if it is there: only this thread may call HDF5."""
    if not record.chunks:
        return contextlib.nullcontext()
    import dask.config

    return dask.config.set(scheduler="synchronous")


def _name_culprit(record: xr.Dataset) -> None:
    check_attributes(record.attrs)
    for name, variable in record.variables.items():
        check_attributes(variable.attrs, str(name))
        try:
            _write(xr.Dataset({name: (variable.dims, variable.data)}), io.BytesIO())
        except Exception as error:
            why = str(error).partition("\n")[0]
            raise ValueError(
                f"record: got the variable {name!r}, which NetCDF cannot hold ({why}); allowed "
                "are numbers, truth values and texts, under a name without '/'"
            ) from None
