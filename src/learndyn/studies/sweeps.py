"""Sweeps inside a study; their store is temporary."""

import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import xarray as xr

from learndyn.studies.registry import Report
from learndyn.sweeping import progress_of, sweep


def swept(function: Callable[..., xr.Dataset], axes: Mapping[str, Any], report: Report) -> Any:
    """Evaluates a function at every point of a grid, with one worker per core.

    Args:
        function: of a point; defined in a module, so that workers can import it by name.
        axes: name → values.
        report: called with the fraction done.

    Returns:
        The dataset, in memory, without the sweep's own information about points.

    Raises:
        RuntimeError: if a point failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "sweep.zarr"
        data = sweep(function, axes, store=store, progress=report).load()
        _, failures = progress_of(store)
    if failures:
        raise RuntimeError(f"{failures[0].point}: {failures[0].message}")
    # Durations and messages of points differ between runs; a study's data should not.
    about_points = [name for name in data.coords if str(name).startswith("point_")]
    return data.drop_vars(about_points).drop_attrs(deep=False)
