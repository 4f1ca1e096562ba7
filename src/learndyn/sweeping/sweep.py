"""`sweep`: any function over any grid, on Dask, into one Zarr store that can be gone on with."""

import datetime
import json
import os
import pathlib
import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import xarray as xr
from distributed import Client
from distributed.comm.core import CommClosedError

from learndyn.numerics.checks import flag, non_negative, path, positive, positive_int, shown
from learndyn.records import commit_of, differences, provenance
from learndyn.sweeping.cluster import check_client, check_importable, connected
from learndyn.sweeping.engine import Engine
from learndyn.sweeping.function import check_values, described, packed, takes_key, version
from learndyn.sweeping.lock import held
from learndyn.sweeping.opening import open_sweep
from learndyn.sweeping.points import Grid, extended, make_grid
from learndyn.sweeping.shown import telling
from learndyn.sweeping.store import FORMAT, Store
from learndyn.sweeping.task import Job
from learndyn.system.encoding import decode, encode

NAMED = 3  # differences that a message names


def sweep(
    function: Any,
    axes: Any,
    *,
    store: str | os.PathLike,
    zipped: Sequence[Any] = (),
    where: Callable[..., Any] | None = None,
    client: Any = None,
    chunk: Any = None,
    retries: Any = 2,
    seconds: Any = None,
    pad: Sequence[str] = (),
    extend: bool = False,
    progress: bool | Callable[[float], None] = True,
) -> xr.Dataset:
    """Evaluates a function at every point of a grid, and keeps what it gives in one store.

    A call that was cut off, by whatever, goes on when it is repeated: at most the chunks that
    were in flight are computed anew. Points that failed are tried again by the next call.

    Args:
        function: of a point, `function(**point)`, which gives an `xarray.Dataset`. One with a
            parameter `key` that is no axis and has no default gets a seed that derives from the
            point: the same alone, in any grid, on any worker.
        axes: name → numbers, texts or objects with a `label`; or label → object.
        store: a path, or a location that fsspec has a driver for.
        zipped: names of axes that run together, or several groups of such names.
        where: of a point, `where(**point)`, whether it belongs to the sweep.
        client: None for a cluster on this computer with one worker a core, a
            `distributed.Client`, or the address of a scheduler. Inside
            `dask.annotate(resources={"GPU": 1})` points go to workers that have that.
        chunk: points that are computed and written together; None for about two seconds of them.
        retries: further attempts at a point that raises an error or whose worker dies.
        seconds: that a point may take; the worker of one that takes longer is ended.
        pad: dimensions in which records may differ in length; shorter ones end in NaN.
        extend: whether the axes may have more values than the store.
        progress: True shows a line, False nothing; a function takes the fraction done.

    Returns:
        The store, opened lazily by `open_sweep`.

    Raises:
        ValueError: for bad arguments; for a store that holds another sweep, with the
            difference; that another client is writing; or that cannot be written.
    """
    if client is None:
        check_importable()  # before the store is found to be held by the script itself
    check_client(client)  # also where nothing is left to be submitted
    flag("extend", extend)
    if not callable(progress):
        flag("progress", progress)
    if not isinstance(pad, list | tuple) or not all(isinstance(dim, str) for dim in pad):
        raise ValueError(f"pad: got {shown(pad)}; allowed is a list of dimensions")
    location = path("store", store)
    _check_limits(retries, seconds)
    grid = make_grid(axes, zipped, where)
    takes_key(function, grid.axes)
    check_values({name: axis.values for name, axis in grid.axes.items()})
    wanted = _identity(function, grid, where, pad)
    with held(location) as renew:
        found = Store(location, "a")
        renew(found)
        begun = "chunk" in found.attrs  # before that nothing is kept that another could spoil
        grid = _agreed(found, grid, wanted, extend) if begun else grid
        if not begun or len(grid) != len(found.about["grid"]["points"]):
            found.grow(len(grid), {})
            made = found.about.get("attrs") or _attributes(function)
            kept = {"format": FORMAT, "function": encode(function), "attrs": made}
            found.describe(sweep={**kept, "identity": wanted, "grid": grid.to_json()})
        _check_chunk(found, chunk)
        _run(found, function, grid, client, chunk, retries, seconds, pad, progress, renew)
    return open_sweep(location)


def resume(
    store: str | os.PathLike,
    *,
    client: Any = None,
    retries: Any = 2,
    seconds: Any = None,
    progress: bool | Callable[[float], None] = True,
) -> xr.Dataset:
    """Goes on with a sweep whose function and values the store can name.

    Args:
        store: its location.
        client: as in `sweep`.
        retries: as in `sweep`.
        seconds: as in `sweep`.
        progress: as in `sweep`.

    Returns:
        The store, opened lazily by `open_sweep`.

    Raises:
        ValueError: where the function is not found by its name or has changed, and as in `sweep`.
    """
    location = os.fspath(store)
    about = Store(location).about
    function = decode(about["function"], "function")
    if version(function) != about["identity"]["version"]:
        raise ValueError("store: its function has changed since; allowed is the version it had")
    grid = Grid.from_json(about["grid"])
    with held(location) as renew:
        found, pad = Store(location, "a"), about["identity"]["pad"]
        renew(found)
        _run(found, function, grid, client, None, retries, seconds, pad, progress, renew)
    return open_sweep(location)


def _run(found, function, grid, client, chunk, retries, seconds, pad, progress, renew) -> None:
    retries, limit = _check_limits(retries, seconds)
    job = Job(_absolute(found.location), packed(function), retries, limit)
    if _is_done(found, grid):
        return
    seeded = takes_key(function, grid.axes)
    with connected(client, retries) as dask_client, telling(progress) as told:
        if limit is not None:
            _check_processes(dask_client)
        engine = Engine(found, grid, job, seeded, dask_client, told, renew)
        try:
            engine.run(chunk, pad)
        except (CancelledError, CommClosedError):
            raise ValueError(
                "client: the scheduler is gone; what has finished is kept: call again to go on"
            ) from None


def _check_limits(retries: Any, seconds: Any) -> tuple[int, float | None]:
    limit = None if seconds is None else float(positive("seconds", seconds))
    return int(non_negative("retries", retries)), limit


def _identity(function: Any, grid: Grid, where: Any, pad: Sequence[str]) -> dict[str, Any]:
    """What makes a sweep this one: a store with another is another's."""
    said = {
        "function": described(function),
        "version": version(function),
        "where": None if where is None else version(where),
        "pad": list(pad),
        "learndyn": provenance()["version_learndyn"],
        **grid.described(),
    }
    return json.loads(json.dumps(said))


def _agreed(found: Store, grid: Grid, wanted: Mapping[str, Any], extend: bool) -> Grid:
    """The points of the store, and those that extend it; or how the sweeps differ."""
    old = dict(found.about["identity"])
    if extend:
        grid = extended(Grid.from_json(found.about["grid"], rebuild=False), grid)
        old = {**old, "axes": wanted["axes"], "where": wanted["where"]}
    differ = differences(json.dumps(old), json.dumps(dict(wanted)))
    if differ:
        more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
        raise ValueError(
            f"store: {found.location!r} has another sweep, which differs in "
            f"{', '.join(differ[:NAMED])}{more}; allowed is the same, or extend=True for more "
            "values of axes"
        )
    return grid


def _check_chunk(found: Store, chunk: Any) -> None:
    if chunk is None:
        return
    positive_int("chunk", chunk)
    if found.attrs.get("chunk", chunk) != chunk:
        raise ValueError(f"chunk: got {chunk}; the store has {found.chunk}, and keeps it")


def _check_processes(client: Client) -> None:
    processes: Any = client.run(os.getpid)
    if os.getpid() in processes.values():
        raise ValueError("seconds: a worker runs in this process; allowed are processes of its own")


def _is_done(found: Store, grid: Grid) -> bool:
    statuses = found.statuses(count=len(grid))
    return len(statuses) == len(grid) and all(s.status == "finished" for s in statuses)


def _absolute(location: str) -> str:
    """As workers, which run in folders of their own, can find it."""
    return location if "://" in location else str(pathlib.Path(location).absolute())


def _attributes(function: Any) -> dict[str, Any]:
    """What a record says of its making."""
    said = {"host": platform.node(), "date": datetime.date.today().isoformat()}
    return {**provenance(), **said, "git": commit_of(function)}
