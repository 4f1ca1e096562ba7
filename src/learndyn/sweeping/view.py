"""The data of a sweep as arrays on its axes, for readers that know nothing of sweeps.

They are a copy, at the location itself, of what `open_sweep` shows when a call ends. The metadata
of the location are written last, with those of all arrays: where they are, the copy is whole.
"""

import itertools
import json
import warnings
from collections.abc import Iterator
from typing import Any

import dask.config
import numpy as np
import xarray as xr
import zarr
from zarr.codecs import ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from learndyn.sweeping.errors import StoreError, one_line
from learndyn.sweeping.opening import open_sweep
from learndyn.sweeping.schema import TEXT, fill
from learndyn.sweeping.store import Store

BYTES = 2**24  # largest size of a chunk, unless a record alone is larger
META = "consolidated_metadata"


def show_axes(store: Store, anew: bool) -> None:
    """Writes the copy; only for the client that holds the lock.

    Args:
        store: the store of a sweep.
        anew: whether a copy that is there is older than the store.

    Warns:
        UserWarning: if it cannot be written; the data of the sweep are whole.
    """
    if not store.prefix or store.schema is None:  # of format 1, or no point has finished
        return
    try:
        with one_line(store.location, "one that can be written"):
            if anew or META not in _read(_root(store), "zarr.json"):
                _write(store)
    except StoreError as error:
        warnings.warn(f"{error}; xarray.open_zarr does not show this sweep", stacklevel=4)


def _root(store: Store) -> Any:
    return zarr.open_group(store=store.location, mode="r+", use_consolidated=False)


def _write(store: Store) -> None:
    root = _root(store)
    root.update_attributes({})  # removes the consolidated metadata
    for name in list(root.array_keys()):
        del root[name]
    data = open_sweep(store.location)
    for name, variable in data.variables.items():
        _copy(root, str(name), variable)
    about = _read(root, "zarr.json")
    listed = [name for name in map(str, data.coords) if len(name.split()) == 1]  # by CF's rules
    about["attributes"] = {**data.attrs, "coordinates": " ".join(listed)}
    arrays = {str(name): _read(root, f"{name}/zarr.json") for name in data.variables}
    about[META] = {"kind": "inline", "must_understand": False, "metadata": arrays}
    content = default_buffer_prototype().buffer.from_bytes(json.dumps(about).encode())
    sync(root.store.set("zarr.json", content))


def _read(root: Any, key: str) -> dict[str, Any]:
    return json.loads(sync(root.store.get(key, default_buffer_prototype())).to_bytes())


def _copy(root: Any, name: str, variable: xr.Variable) -> None:
    with dask.config.set(scheduler="synchronous"):  # not on the workers of a client
        dtype = _dtype(variable)
        array = root.create_array(
            name,
            shape=variable.shape,
            chunks=_chunks(variable.shape),
            dtype=dtype,
            fill_value=fill(dtype),
            dimension_names=variable.dims,
            compressors=ZstdCodec(checksum=True),
            attributes=dict(variable.attrs),
        )
        for block in _blocks(array.shape, array.chunks):
            values = np.asarray(variable[block].values)
            array[block] = _texts(values) if dtype == TEXT else values


def _texts(values: np.ndarray) -> np.ndarray:
    """As objects: NumPy does not cast its texts of any length to those of one length."""
    return values.astype(object).astype(str).astype(object)


def _dtype(variable: xr.Variable) -> str:
    """The type of the copy; texts and whatever else Zarr does not know are texts."""
    return TEXT if variable.dtype.kind in "UOT" else str(variable.dtype)


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Whole arrays, as far as they are not too large, divided along their first dimensions."""
    chunks = [max(size, 1) for size in shape]
    for place, size in enumerate(chunks):
        rest = 8 * int(np.prod(chunks[place + 1 :], dtype=float))
        chunks[place] = max(1, min(size, BYTES // max(rest, 1)))
    return tuple(chunks)


def _blocks(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    starts = [range(0, size, chunk) for size, chunk in zip(shape, chunks, strict=True)]
    for place in itertools.product(*starts):
        yield tuple(slice(at, at + chunk) for at, chunk in zip(place, chunks, strict=True))
