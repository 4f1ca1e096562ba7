"""What the page says about each store of a sweep in a folder."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from learndyn.report import pictures
from learndyn.report.studies import folders
from learndyn.studies.results import read

if TYPE_CHECKING:
    import xarray as xr

FIGURES = 6  # largest number of variables that are drawn
FAILURES = 50  # largest number of failures that are listed
VALUES = 8  # largest number of values of an axis that are listed


class Swept(NamedTuple):
    """A sweep on the page.

    Attributes:
        name: where its store is, seen from the folder.
        tally: status → number of points.
        failures: the failed points, and why; the first ones.
        axes: name → values, in words.
        figures: variable → figure, as a data URI.
        origin: name → value: what the store says about the function, versions, device.
        words: what the search looks at.
    """

    name: str
    tally: Mapping[str, int]
    failures: Sequence[tuple[str, str]]
    axes: Mapping[str, str]
    figures: Mapping[str, str]
    origin: Mapping[str, str]
    words: str


def sweeps(folder: pathlib.Path) -> list[Swept]:
    """The stores of sweeps in a folder or below.

    Args:
        folder: a store, or a folder with stores.

    Returns:
        One item per store.

    Raises:
        ValueError: for a damaged store, or if the extra `sweep` is not installed.
    """
    return [_swept(place, folder) for place in folders(folder, "zarr.json") if _is_sweep(place)]


def _is_sweep(place: pathlib.Path) -> bool:
    """Whether a store has the group of a sweep, or is one, as in format 1."""
    about = place / "point" / "zarr.json"
    about = about if about.exists() else place / "zarr.json"
    return "sweep" in read(about).get("attributes", {})


def _swept(place: pathlib.Path, folder: pathlib.Path) -> Swept:
    try:
        from learndyn import sweeping
    except ImportError as error:  # Dask and Zarr are an optional extra
        raise ValueError(f"{place}: {error}") from None
    name = place.resolve().name if place == folder else place.relative_to(folder).as_posix()
    tally, failures = sweeping.progress_of(place)
    data = sweeping.open_sweep(place)
    about = [name for name in data.coords if str(name).startswith("point_")]
    axes = [str(dim) for dim in data[about[0]].dims]
    origin = {str(key): str(value) for key, value in data.attrs.items() if value not in ("", None)}
    return Swept(
        name=name,
        tally={status: count for status, count in sorted(tally.items()) if count},
        failures=[(each.point, each.message) for each in failures[:FAILURES]],
        axes={axis: _values(data[axis].values) for axis in axes},
        figures=dict(_figures(data.drop_vars(about), axes)) if tally.get("finished") else {},
        origin=origin,
        words=" ".join([name, *axes, *map(str, data.data_vars)]).lower(),
    )


def _values(values: Any) -> str:
    shown = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values.tolist()]
    if len(shown) > VALUES:
        shown = [*shown[: VALUES - 2], "…", shown[-1]]
    return f"{', '.join(shown)} ({len(values)})"


def _figures(data: "xr.Dataset", axes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The first variables of numbers, over time or over the two longest axes."""
    from learndyn.plotting import plot_swept

    numeric = [name for name, values in data.data_vars.items() if values.dtype.kind in "fiub"]
    for name in numeric[:FIGURES]:
        values = data[[name]].load()
        longest = sorted(axes, key=lambda axis: -values.sizes.get(axis, 1))
        places: dict[str, Any] = dict(zip(("x", "y"), longest, strict=False))
        if "time" in values.dims:
            places = {"x": "time", "color": longest[0]}
        yield str(name), pictures.of_figure(plot_swept(values, value=str(name), **places))
