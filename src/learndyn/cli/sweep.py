"""`learndyn sweep`."""

import contextlib
import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from learndyn.cli import options
from learndyn.cli.interruption import interruption_message
from learndyn.cli.options import DATA_DIR, PRESET, SET, STUDY
from learndyn.cli.part import PartOf
from learndyn.cli.writing import writable
from learndyn.runtime.checks import positive_int

AXIS = Annotated[
    list[str] | None,
    typer.Option("--axis", help="name=a,b,c or name=first:last:count[:log] or name=first:end"),
]
STORE = Annotated[str, typer.Option(help="location of the Zarr store that keeps the data")]
WORKERS = Annotated[
    str, typer.Option(help="number of processes on this computer", metavar="INTEGER")
]
SCHEDULER = Annotated[str, typer.Option(help="address of a Dask scheduler")]
SECONDS = Annotated[float | None, typer.Option(help="time limit per point")]


def sweep(
    study: STUDY = "",
    axis: AXIS = None,
    parts: Annotated[
        str, typer.Option(help="instead of --axis: compute the study in parts, one per value")
    ] = "",
    store: STORE = "",
    out: Annotated[str, typer.Option(help="with --parts, folder for the data of parts")] = "",
    preset: PRESET = "quick",
    set_: SET = None,
    workers: WORKERS = "",
    scheduler: SCHEDULER = "",
    seconds: SECONDS = None,
    extend: Annotated[bool, typer.Option(help="add new values of the axes to the store")] = False,
    resume: Annotated[str, typer.Option(help="continue the sweep of this store")] = "",
    trusted: Annotated[
        bool, typer.Option(help="with --resume: import whatever function the store names")
    ] = False,
    status: Annotated[str, typer.Option(help="report the progress of this store")] = "",
    data_dir: DATA_DIR = "",
) -> None:
    """Runs a study over a grid of its parameters; an interrupted sweep can be continued."""
    from learndyn.cli.axes import axes_of
    from learndyn.studies.evaluation import Evaluation

    if sum(map(bool, (study, resume, status))) != 1:
        raise ValueError(
            "sweep: got none or several; allowed is one of a study, --resume STORE and "
            "--status STORE"
        )
    if out and not parts:
        raise ValueError(f"--out: got {out!r} without --parts; allowed are both, or neither")
    with _extra():
        from learndyn import sweeping
    if status:
        raise typer.Exit(_report(status))
    options.use_data(data_dir)
    place = resume or store
    if not place:
        raise ValueError("--store: got nothing; allowed is a location for the data")
    hint = lambda: f"finished points are kept; continue with: learndyn sweep --resume {place}"
    settings = options.settings(set_ or [])
    if parts:
        if axis:
            raise ValueError("--parts: got --axis as well; allowed is one of the two")
        function = PartOf(study, preset, settings, str(writable(out or os.path.dirname(place))))
        axes = function.axes(parts.split(","))
    else:
        function = Evaluation(study, preset, settings)
        axes = axes_of(axis or [], function.params()) if study else {}
    options.require_apart(settings, axes, "--axis {}")
    options.require_device()
    options.use_cache()
    with interruption_message(hint), _client(workers, scheduler) as client:
        if resume:
            sweeping.resume(resume, client=client, seconds=seconds, trusted=trusted)
        else:
            sweeping.sweep(
                function, axes, store=store, extend=extend, client=client, seconds=seconds
            )
    code = _report(place)
    if isinstance(function, PartOf) and not code:
        print(f"join the parts with: learndyn join {function.out}/part_* --out FOLDER")
    raise typer.Exit(code)


@contextlib.contextmanager
def _client(workers: str, scheduler: str) -> Iterator[Any]:
    """The Dask client or address for `--workers` and `--scheduler`; None for the default."""
    from learndyn.sweeping import local

    if workers and scheduler:
        raise ValueError("--workers: got --scheduler as well; allowed is one of the two")
    if not workers:
        yield scheduler or None
        return
    with local(positive_int("--workers", options.number(workers))) as client:
        yield client


def _report(store: str) -> int:
    """Prints the progress of a store; returns the exit code, 1 if a point failed."""
    from learndyn.sweeping import progress_of

    tally, failures = progress_of(store)
    for failure in failures:
        print(f"failed at {failure.point}: {failure.message}")
    counts = ", ".join(f"{count} {what}" for what, count in sorted(tally.items()) if count)
    print(f"{store}: {counts}")
    return 1 if failures else 0


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    # Dask and Zarr are an optional extra; the ImportError says how to install it.
    try:
        yield
    except ImportError as error:
        raise ValueError(f"sweep: {error}") from None
