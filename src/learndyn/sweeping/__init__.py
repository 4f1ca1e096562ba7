"""`sweep`: any function over any grid, resumable, on a laptop or a cluster."""

import importlib.util

for _name in ("dask", "distributed", "zarr"):
    if importlib.util.find_spec(_name) is None:
        raise ImportError(f"{_name} is not installed; sweeps need pip install 'learndyn[sweep]'")

if not __debug__:
    from zarr.core.group import GroupMetadata as _Group

    try:
        _Group.from_dict({"zarr_format": 3, "node_type": "group", "attributes": {}})
    except TypeError:  # Zarr 3.1 takes a part of each description out by an assertion
        raise ImportError(
            "zarr reads nothing under `python -O`; sweeps need Python without -O"
        ) from None

from learndyn.sweeping.cluster import local as local  # noqa: E402
from learndyn.sweeping.opening import open_sweep as open_sweep  # noqa: E402
from learndyn.sweeping.opening import progress_of as progress_of  # noqa: E402
from learndyn.sweeping.sweep import resume as resume  # noqa: E402
from learndyn.sweeping.sweep import sweep as sweep  # noqa: E402
