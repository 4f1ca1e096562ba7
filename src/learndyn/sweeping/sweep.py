"""`sweep`: any function over any grid, on Dask, into one resumable Zarr store."""

import contextlib
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

from learndyn.records import commit_of, differences, provenance
from learndyn.runtime.checks import flag, non_negative, path, positive, positive_int, shown
from learndyn.runtime.progress import check_progress
from learndyn.sweeping.cluster import check_importable, chosen, connected, dashboard
from learndyn.sweeping.engine import Engine
from learndyn.sweeping.function import check_values, described, packed, takes_key, version
from learndyn.sweeping.lock import held
from learndyn.sweeping.lost_data import mend
from learndyn.sweeping.opening import open_sweep
from learndyn.sweeping.points import Grid, extended, make_grid
from learndyn.sweeping.progress_line import showing_progress
from learndyn.sweeping.store import FINISHED, Store, is_local, local_path
from learndyn.sweeping.task import Job
from learndyn.sweeping.view import show_axes
from learndyn.system.encoding import decode, encode

NAMED = 3  # differences listed in a message


def sweep(
    function: Any,
    axes: Any,
    *,
    store: str | os.PathLike,
    zipped: Sequence[Any] = (),
    where: Callable[..., Any] | None = None,
    client: Any = None,
    workers: Any = None,
    chunk: Any = None,
    retries: Any = 2,
    seconds: Any = None,
    pad: Sequence[str] = (),
    extend: bool = False,
    progress: bool | Callable[[float], None] = True,
) -> xr.Dataset:
    """Evaluates a function at every point of a grid, and stores the results in one store.

    If a call is interrupted, for any reason, repeating it continues the sweep: at most the chunks
    that were being computed are computed again. Points that failed are tried again by the next
    call.

    Args:
        function: called as `function(**point)`; it returns an `xarray.Dataset`, or a number (the
            variable `value`), or a dict name → number. A parameter `key` that has no default and
            is not an axis gets a seed derived from the point, which is the same in any grid and on
            any worker.
        axes: name → a list of numbers, strings or objects with a `label`, or a dict
            label → object.
        store: a path, or a location for which fsspec has a driver.
        zipped: names of axes that vary together, or several groups of such names.
        where: called as `where(**point)`; whether the point belongs to the sweep.
        client: None for a cluster on this computer with one worker per core, a
            `distributed.Client`, or the address of a scheduler. Inside
            `dask.annotate(resources={"GPU": 1})` points go to workers with that resource.
        workers: number of processes on this computer, in place of `client`; None for one per core.
        chunk: number of points computed and written together; None for about two seconds' worth.
        retries: further attempts at a point that raises an error or whose worker dies.
        seconds: time limit of a point; the worker of a point that takes longer is killed. With
            None, a point that never ends blocks its worker and the points of its chunk, but no
            others.
        pad: dimensions in which records may differ in length; shorter ones are padded with NaN.
        extend: whether the axes may have more values than the store.
        progress: True shows a line (in a file, one every half minute), and the address of Dask's
            dashboard if bokeh is installed; False nothing; a function is called with the fraction
            done.

    Returns:
        The store, opened lazily by `open_sweep`.

    Raises:
        ValueError: for wrong arguments, and for a store that contains another sweep, that another
            client is writing, or that cannot be written.

    Example:
        >>> import pathlib, tempfile
        >>> from distributed import Client
        >>> import learndyn as ld
        >>> def power(base, exponent):
        ...     return base**exponent
        >>> axes = {"base": [2, 3], "exponent": [1, 2, 3]}
        >>> folder = tempfile.TemporaryDirectory()
        >>> store = pathlib.Path(folder.name) / "powers.zarr"
        >>> with Client(processes=False, dashboard_address=":0") as client:  # or a cluster's
        ...     data = ld.sweep(power, axes, store=store, client=client, progress=False)
        >>> data["value"].values.astype(int).tolist()
        [[2, 4, 8], [3, 9, 27]]
        >>> folder.cleanup()
    """
    if client is None:
        check_importable()  # before the lock: the script itself may hold it
    client = chosen(client, workers)  # checked even if nothing is left to submit
    flag("extend", extend)
    check_progress(progress)
    if not isinstance(pad, list | tuple) or not all(isinstance(dim, str) for dim in pad):
        raise ValueError(f"pad: got {shown(pad)}; allowed is a list of dimensions")
    location = path("store", store)
    retries, seconds = _check_limits(retries, seconds)
    if chunk is not None:
        positive_int("chunk", chunk)
    grid = make_grid(axes, zipped, where)
    takes_key(function, grid.axes)
    check_values({name: axis.values for name, axis in grid.axes.items()})
    wanted = _identity(function, grid, where, pad)
    with held(location) as renew, contextlib.ExitStack() as stack:
        if is_local(location) and not local_path(location).exists():
            # Workers first: if they cannot start, no empty store is left behind.
            client = stack.enter_context(connected(client, retries))
        opened = Store(location, "a")
        renew(opened)
        begun = "chunk" in opened.attrs  # before that the store has no data of another sweep
        grid = _agreed(opened, grid, wanted, extend) if begun else grid
        if not begun or len(grid) != len(opened.about["grid"]["points"]):
            opened.grow(len(grid), {})
            made = opened.about.get("attrs") or _attributes(function)
            kept = {"format": opened.format, "function": encode(function), "attrs": made}
            opened.describe(sweep={**kept, "identity": wanted, "grid": grid.to_json()})
        if chunk is not None and opened.attrs.get("chunk", chunk) != chunk:
            raise ValueError(f"chunk: got {chunk}; allowed is {opened.chunk}, as in the store")
        mend(opened)
        _run(opened, function, grid, client, chunk, retries, seconds, pad, progress, renew)
    return open_sweep(location)


def resume(
    store: str | os.PathLike,
    *,
    client: Any = None,
    workers: Any = None,
    trusted: bool = False,
    retries: Any = 2,
    seconds: Any = None,
    progress: bool | Callable[[float], None] = True,
) -> xr.Dataset:
    """Continues a sweep whose function and values can be rebuilt from the store.

    Args:
        store: the location of the store.
        client: as in `sweep`.
        workers: as in `sweep`.
        trusted: whether the store may name any function, which is then imported and called. False
            allows functions of learndyn; calling `sweep` again needs no such trust.
        retries: as in `sweep`.
        seconds: as in `sweep`.
        progress: as in `sweep`.

    Returns:
        The store, opened lazily by `open_sweep`.

    Raises:
        ValueError: if the store names a function that needs `trusted`, if that function is not
            found or has changed, and as in `sweep`.
    """
    if client is None:
        check_importable()  # before the lock, as in `sweep`
    client = chosen(client, workers)
    flag("trusted", trusted)
    location = path("store", store)
    about = Store(location).about
    function = decode(about["function"], "function", trusted=trusted)
    if version(function) != about["identity"]["version"]:
        raise ValueError("store: its function has changed since; allowed is the version it had")
    grid = Grid.from_json(about["grid"], trusted=trusted)
    with held(location) as renew:
        opened, pad = Store(location, "a"), about["identity"]["pad"]
        renew(opened)
        mend(opened)
        _run(opened, function, grid, client, None, retries, seconds, pad, progress, renew)
    return open_sweep(location)


def _run(opened, function, grid, client, chunk, retries, seconds, pad, progress, renew) -> None:
    retries, limit = _check_limits(retries, seconds)
    job = Job(_absolute(opened.location), packed(function), retries, limit)
    statuses = opened.statuses(count=len(grid))
    if len(statuses) == len(grid) and all(status.status == FINISHED for status in statuses):
        return show_axes(opened, anew=False)  # without starting workers
    seeded = takes_key(function, grid.axes)
    with contextlib.ExitStack() as stack:
        dask_client = stack.enter_context(connected(client, retries))
        if progress is True and (line := dashboard(dask_client)):
            print(line, flush=True)
        show_counts = stack.enter_context(showing_progress(progress))
        if limit is not None:
            _check_processes(dask_client)
        engine = Engine(opened, grid, job, seeded, dask_client, show_counts, renew)
        try:
            engine.run(chunk, pad)
        except (CancelledError, CommClosedError):
            raise ValueError(
                "client: the scheduler is gone; finished points are kept: call again to continue"
            ) from None
    show_axes(opened, anew=True)


def _check_limits(retries: Any, seconds: Any) -> tuple[int, float | None]:
    limit = None if seconds is None else float(positive("seconds", seconds))
    return int(non_negative("retries", retries)), limit


def _identity(function: Any, grid: Grid, where: Any, pad: Sequence[str]) -> dict[str, Any]:
    """What identifies a sweep: a store with a different identity belongs to another one."""
    identity = {
        "function": described(function),
        "version": version(function),
        "where": None if where is None else version(where),
        "pad": list(pad),
        "learndyn": provenance()["version_learndyn"],
        **grid.described(),
    }
    return json.loads(json.dumps(identity))  # as the store will return it, without tuples


def _agreed(opened: Store, grid: Grid, wanted: Mapping[str, Any], extend: bool) -> Grid:
    """The points of the store and of its extension; raises if the sweeps differ."""
    old = dict(opened.about["identity"])
    if extend:
        grid = extended(opened.grid(), grid)
        old = {**old, "axes": wanted["axes"], "where": wanted["where"]}
    differ = differences(json.dumps(old), json.dumps(dict(wanted)))
    if differ:
        more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
        raise ValueError(
            f"store: {opened.location!r} has another sweep, which differs in "
            f"{', '.join(differ[:NAMED])}{more}; allowed is the same, or extend=True for more "
            "values of axes"
        )
    return grid


def _check_processes(client: Client) -> None:
    # A point that takes too long ends its process, which must not be that of the caller.
    processes: Any = client.run(os.getpid)
    if os.getpid() in processes.values():
        raise ValueError("seconds: a worker runs in this process; allowed are separate processes")


def _absolute(location: str) -> str:
    """An absolute path, since workers run in other folders."""
    return location if "://" in location else str(pathlib.Path(location).absolute())


def _attributes(function: Any) -> dict[str, Any]:
    """Attributes that say where and when a sweep was computed."""
    origin = {"host": platform.node(), "date": datetime.date.today().isoformat()}
    return {**provenance(), **origin, "git": commit_of(function)}
