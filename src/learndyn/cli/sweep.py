"""`learndyn sweep`."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from learndyn.cli import options
from learndyn.cli.options import DATA_DIR, PRESET, SET
from learndyn.cli.writing import interruptible
from learndyn.numerics.checks import positive_int

STUDY = Annotated[str, typer.Argument(help="paper/figure, as `learndyn list` shows it")]
AXIS = Annotated[
    list[str] | None,
    typer.Option("--axis", help="name=a,b,c or name=first:last:count[:log] or name=first:end"),
]
STORE = Annotated[str, typer.Option(help="where the data are kept, a Zarr store")]
WORKERS = Annotated[str, typer.Option(help="processes on this computer", metavar="INTEGER")]
SCHEDULER = Annotated[str, typer.Option(help="address of a Dask scheduler")]
SECONDS = Annotated[float | None, typer.Option(help="that a point may take")]


def sweep(
    study: STUDY = "",
    axis: AXIS = None,
    store: STORE = "",
    preset: PRESET = "quick",
    set_: SET = None,
    workers: WORKERS = "",
    scheduler: SCHEDULER = "",
    seconds: SECONDS = None,
    extend: Annotated[bool, typer.Option(help="the axes have more values than the store")] = False,
    resume: Annotated[str, typer.Option(help="a store to go on with")] = "",
    status: Annotated[str, typer.Option(help="a store to report on")] = "",
    data_dir: DATA_DIR = "",
) -> None:
    """Runs a study over a grid of its parameters, into a store that can be gone on with."""
    from learndyn.cli.axes import axes_of
    from learndyn.studies.evaluation import Evaluation

    if sum(map(bool, (study, resume, status))) != 1:
        raise ValueError("sweep: allowed is one of a study, --resume STORE and --status STORE")
    with _extra():
        from learndyn import sweeping
    if status:
        raise typer.Exit(_report(status))
    options.use_data(data_dir)
    place = resume or store
    if not place:
        raise ValueError("--store: nothing came; allowed is a location for the data")
    go_on = lambda: f"what has finished is kept; go on with: learndyn sweep --resume {place}"
    function = Evaluation(study, preset, options.settings(set_ or []))
    axes = axes_of(axis or [], function.params()) if study else {}
    with interruptible(go_on), _client(workers, scheduler) as client:
        given: dict[str, Any] = {"client": client, "seconds": seconds}
        if resume:
            sweeping.resume(resume, **given)
        else:
            sweeping.sweep(function, axes, store=store, extend=extend, **given)
    raise typer.Exit(_report(place))


@contextlib.contextmanager
def _client(workers: str, scheduler: str) -> Iterator[Any]:
    """What `--workers` and `--scheduler` ask for."""
    from learndyn.sweeping import local

    if workers and scheduler:
        raise ValueError("--workers: came with --scheduler; allowed is one of them")
    if not workers:
        yield scheduler or None
        return
    with local(positive_int("--workers", options.number(workers))) as client:
        yield client


def _report(store: str) -> int:
    """Prints how far a store is; 1 where a point failed."""
    from learndyn.sweeping import progress_of

    tally, failures = progress_of(store)
    for failure in failures:
        print(f"failed at {failure.point}: {failure.message}")
    said = ", ".join(f"{count} {what}" for what, count in sorted(tally.items()) if count)
    print(f"{store}: {said}")
    return 1 if failures else 0


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ValueError(f"sweep: {error}") from None
