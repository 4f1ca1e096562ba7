"""A record as the bytes of a NetCDF file."""

import io
import reprlib
from collections.abc import Mapping
from typing import Any

import xarray as xr

STORABLE = "text, a number, or a list or array of numbers or of texts"


def encoded(record: xr.Dataset) -> bytes:
    """The content of a NetCDF file with the record.

    It is made in memory, because HDF5 does not survive a full disk, and from loaded values, so
    that only this thread calls HDF5. Encodings that parts of the record have from the files they
    were read from are dropped: they would truncate longer strings.

    Args:
        record: the record; lazy variables are loaded, in a copy.

    Returns:
        The bytes.

    Raises:
        ValueError: for an attribute or a variable that NetCDF cannot store.
    """
    loaded = record.drop_encoding().compute()
    try:
        return _written(loaded)
    except Exception as error:  # of xarray, h5netcdf or h5py; most do not name the attribute
        _name_culprit(loaded)
        why = str(error).partition("\n")[0]
        raise ValueError(f"record: got one that cannot be written ({why})") from None


def check_attributes(attributes: Mapping[str, Any], owner: str = "") -> None:
    """Raises a ValueError that names the first attribute that NetCDF cannot store.

    Args:
        attributes: name → value.
        owner: the variable whose attributes they are; empty for those of a record.
    """
    for name, value in attributes.items():
        try:
            _written(xr.Dataset(attrs={name: value}))
        except Exception:
            of = f" of {owner!r}" if owner else ""
            came = " ".join(f"got {name!r}{of}, which is {reprlib.repr(value)}".split())
            raise ValueError(f"attributes: {came}; allowed is {STORABLE}") from None


def _written(record: xr.Dataset) -> bytes:
    # Imported here because it takes long, and most programs never write a record.
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    buffer = io.BytesIO()
    # Not `to_netcdf`: if a Dask client is connected, that asks the scheduler for a lock named after
    # the buffer. This store takes the lock of HDF5 in this process.
    with h5netcdf.File(buffer, "w") as file:
        record.dump_to_store(H5NetCDFStore(file))
    return buffer.getvalue()


def _name_culprit(record: xr.Dataset) -> None:
    check_attributes(record.attrs)
    for name, variable in record.variables.items():
        check_attributes(variable.attrs, str(name))
        try:
            _written(xr.Dataset({name: (variable.dims, variable.data)}))
        except Exception as error:
            why = str(error).partition("\n")[0]
            raise ValueError(
                f"record: got the variable {name!r}, which NetCDF cannot hold ({why}); allowed "
                "are numbers, truth values and texts, under a name without '/'"
            ) from None
