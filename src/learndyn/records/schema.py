"""The schema of a record."""

import dataclasses
import functools
import importlib.metadata
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from learndyn.records.recording import Outcome

PACKAGES = ("learndyn", "jax", "diffrax", "numpy", "xarray")


@dataclasses.dataclass
class Stopwatch:
    """Measures the seconds since it was created."""

    began: float = dataclasses.field(default_factory=time.perf_counter)

    def seconds(self) -> float:
        """The seconds so far."""
        return time.perf_counter() - self.began


def make_record(
    variables: Mapping[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]],
    *,
    times: np.ndarray,
    steps: np.ndarray,
    time_unit: str,
    lead: Mapping[str, int],
    outcomes: Sequence[Outcome],
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """Makes a record: coordinates time and step, labelled variables, outcomes, provenance.

    Args:
        variables: name → (dimensions, values, attributes).
        times: the requested times.
        steps: the update step nearest to each time.
        time_unit: unit of time in words.
        lead: dimension → size, for several trajectories ("run"); {} for a single one.
        outcomes: one per trajectory, in C order of the leading dimensions.
        attributes: further attributes: system, engine, method, seed, ….

    Returns:
        The record.
    """
    shaped = lambda values: np.asarray(values).reshape(tuple(lead.values()))
    # By convention a quantity without a unit has the unit "1".
    data = {
        n: (d, v, {**attrs, "units": attrs.get("units") or "1"})
        for n, (d, v, attrs) in variables.items()
    }
    ended, when = shaped([o.what for o in outcomes]), shaped([o.at for o in outcomes])
    data["outcome"] = tuple(lead), ended, {"long_name": "outcome"}
    label = {"long_name": "time of divergence", "units": time_unit}
    data["diverged_at"] = tuple(lead), when, label
    coords: dict[str, Any] = {
        "time": ("time", times, {"long_name": "time", "unit": time_unit, "units": time_unit}),
        "step": ("time", steps, {"long_name": "update step", "units": "1"}),
    }
    coords |= {name: (name, np.arange(size)) for name, size in lead.items()}
    return xr.Dataset(data, coords, {**_plain(attributes), **provenance()})


def provenance() -> dict[str, Any]:
    """The versions of the packages involved, and the device."""
    versions = {f"version_{name}": _version(name) for name in PACKAGES}
    return {**versions, "device": jax.devices()[0].device_kind}


@functools.cache
def _version(package: str) -> str:
    """The version of a package; one that runs from its source folder has none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """NetCDF attributes take text and numbers: no None, no bool, no dict."""
    keep = lambda v: v if isinstance(v, int | float | str) and not isinstance(v, bool) else str(v)
    return {name: keep(value) for name, value in attributes.items()}
