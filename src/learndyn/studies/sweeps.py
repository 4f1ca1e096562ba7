"""Studies over grids: a sweep whose store is kept only while it runs."""

import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import xarray as xr

from learndyn.studies.registry import Report
from learndyn.sweeping import progress_of, sweep


def swept(function: Callable[..., xr.Dataset], axes: Mapping[str, Any], report: Report) -> Any:
    """What a function gives at every point, on one worker a core of this computer.

    Args:
        function: of a point, known to workers by its name.
        axes: name → values.
        report: takes the fraction done.

    Returns:
        The dataset, in memory, without what the sweep says of its points.

    Raises:
        RuntimeError: where a point failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "sweep.zarr"
        data = sweep(function, axes, store=store, progress=report).load()
        _, failures = progress_of(store)
    if failures:
        raise RuntimeError(f"{failures[0].point}: {failures[0].message}")
    said = [name for name in data.coords if str(name).startswith("point_")]
    return data.drop_vars(said).drop_attrs(deep=False)
