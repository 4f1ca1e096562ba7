"""The command line: `learndyn list | run | replicate | results | cite`."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Annotated, NoReturn

import typer

from learndyn.numerics.checks import positive_int, seed
from learndyn.numerics.progress import reporting
from learndyn.problems.files import VARIABLE, data_folder
from learndyn.records import save, whole_file
from learndyn.studies import registry, replication, results, summary
from learndyn.studies.claims import complaints
from learndyn.studies.tables import show_claims, show_replication, tally_line
from learndyn.theory.references import PAPERS

FILES = ("data.nc", "claims.json", "figure.png", "figure.svg")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Predicts how neural networks learn, and checks the prediction.",
)


@app.command("list")
def list_studies() -> None:
    """Lists the studies, one a line."""
    for name in registry.names():
        print(f"{name}  {registry.find(name).TITLE}")


@app.command()
def cite(paper: str) -> None:
    """Prints the citation of a paper as BibTeX."""
    if paper not in PAPERS:
        raise ValueError(f"paper: got {paper!r}; allowed are {', '.join(PAPERS)}")
    print(PAPERS[paper].bibtex())


STUDY = Annotated[str, typer.Argument(help="paper/figure, as `learndyn list` shows it")]
PRESET = Annotated[str, typer.Option(help="quick or paper")]
OUT = Annotated[str, typer.Option(help="folder for the results")]
SET = Annotated[list[str] | None, typer.Option("--set", help="name=value")]
DATA_DIR = Annotated[str, typer.Option(help="folder of real data files")]


@app.command()
def run(
    study: STUDY,
    preset: PRESET = "quick",
    out: OUT = "",
    set_: SET = None,
    runs: Annotated[str | None, typer.Option(help="number of runs", metavar="INTEGER")] = None,
    key: Annotated[str | None, typer.Option(help="seed", metavar="INTEGER")] = None,
    data_dir: DATA_DIR = "",
) -> None:
    """Runs a study: data.nc, figure.png, figure.svg, claims.json, and a table of claims."""
    found = registry.find(study)
    _use_data(data_dir)
    own, listed = registry.preset_of(found, preset), registry.fails(found, preset)
    settings = _settings(set_ or []) | _integers(runs=runs, key=key)
    params = registry.with_settings(own, settings)
    folder = _writable(out or os.path.join("results", study))
    print(f"{study}, preset {preset}: {params}", flush=True)
    origin = results.describe(study, preset, params, own)
    # The bar ends last: with no one left to read it, the files are there all the same.
    with _whole_files(folder) as write, reporting(True, study) as report:
        data = found.compute(params, report)
        data.attrs |= {"study": study, "preset": preset, "params": json.dumps(origin["params"])}
        write("data.nc", lambda path: save(data, path), whole=contextlib.nullcontext)
        claims = found.check(data)
        said = results.to_json(origin, claims, listed)
        write("claims.json", lambda path: path.write_text(said, encoding="utf-8"))
        figure = found.draw(data)
        write("figure.png", lambda path: figure.savefig(path, dpi=160))
        write("figure.svg", lambda path: figure.savefig(path))
        report(1.0)
    show_claims(claims, listed)
    wrong = complaints(claims, listed, own=params == own)
    print("\n".join([*wrong, f"{tally_line(claims)}; files in {folder}"]))
    raise typer.Exit(1 if wrong else 0)


@app.command()
def replicate(
    study: STUDY,
    keys: Annotated[str, typer.Option(help="number of fresh keys", metavar="INTEGER")] = "20",
    preset: PRESET = "quick",
    first: Annotated[str, typer.Option(help="the first key", metavar="INTEGER")] = "",
    set_: SET = None,
    out: OUT = "",
    data_dir: DATA_DIR = "",
) -> None:
    """Runs a study over fresh keys: replication.json, and how often each claim holds."""
    found = registry.find(study)
    _use_data(data_dir)
    own, listed = registry.preset_of(found, preset), registry.fails(found, preset)
    params = registry.with_settings(own, _settings(set_ or []))
    number = positive_int("--keys", _number(keys))
    begin = seed("--first", _number(first)) if first else replication.FIRST
    if "key" not in {field.name for field in fields(params)}:
        print(f"{study} has no randomness: every run gives what `learndyn run` gives")
        return
    wanted = replication.keys_of(found, number, begin)
    folder = _writable(out or os.path.join("results", study))
    origin = results.describe(study, preset, params, own)
    del origin["params"]["key"]
    done = replication.earlier(folder, origin)
    state = lambda: f"{len(done)} keys are in {folder / replication.FILE}"
    with _interruptible(state), reporting(True, study) as report:
        for key, came_out in replication.replicate(found, params, wanted, done, report):
            done[key] = came_out
            if replication.table(done):
                replication.write(folder, origin, done)
        report(1.0)
    rows = replication.table(done)
    broken = {key: run["error"] for key, run in done.items() if "error" in run}
    if not rows:
        raise ValueError(f"{study}: no key came out; at {wanted[0]}: {broken[str(wanted[0])]}")
    show_replication(rows, listed)
    lines = [f"key {key} broke off: {error}" for key, error in broken.items()]
    print("\n".join([*lines, f"{len(done)} keys; file in {folder}"]))
    raise typer.Exit(1 if replication.failing(rows, listed) else 0)


@app.command("results")
def write_results(
    folder: Annotated[str, typer.Argument(help="folder of kept results")] = "docs/results",
) -> None:
    """Writes the README.md of a folder of kept results from the files in it."""
    path = pathlib.Path(folder)
    if not path.is_dir():
        raise ValueError(f"folder: got {folder!r}; allowed is a folder of kept results")
    text = summary.written(path)
    with whole_file(path / "README.md") as part:
        part.write_text(text, encoding="utf-8")
    print(f"{path / 'README.md'}: {len(summary.kept(path))} results")


def main() -> None:
    """The entry point: bad input, or a file that fails, is one line and exit code 2."""
    if hasattr(signal, "SIGPIPE"):  # a reader that has seen enough (`| head`) ends us quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        _fail(_one_line(error))
    sys.exit(code)


def _one_line(error: Exception) -> str:
    # Typer keeps the classes of its usage errors private; all of them format a message.
    said = getattr(error, "format_message", None)
    if said:
        return said()
    if isinstance(error, OSError):
        where = "output" if error.filename is None else f"{os.fspath(error.filename)!r}"
        return f"{where}: {error.strerror or error}"
    if isinstance(error, ValueError):
        return str(error)
    raise error


def _fail(message: str) -> NoReturn:
    print(f"learndyn: {message}", file=sys.stderr)
    with contextlib.suppress(OSError):  # what could not be written is not tried again
        sys.stdout.close()
    sys.exit(2)


def _use_data(folder: str) -> None:
    if folder:
        os.environ[VARIABLE] = str(data_folder(folder))


def _settings(pairs: list[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set: got {pair!r}; allowed is name=value")
        settings[name] = value
    return settings


def _integers(runs: str | None, key: str | None) -> dict[str, str]:
    given = {"runs": (runs, positive_int), "key": (key, seed)}
    return {
        name: str(check(f"--{name}", _number(text)))
        for name, (text, check) in given.items()
        if text is not None
    }


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _writable(out: str) -> pathlib.Path:
    """The folder, made if need be, before any work is done."""
    folder = pathlib.Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"?")
    except OSError as error:
        why = error.strerror or "not writable"
        raise ValueError(f"--out: got {out!r} ({why}); allowed is a writable folder") from None
    return folder


@contextlib.contextmanager
def _whole_files(folder: pathlib.Path) -> Iterator[Callable[..., None]]:
    """Writes files, each whole or not there; an interruption says which are missing.

    `whole` makes it so; `save` does by itself.
    """
    missing: list[str] = list(FILES)

    def write(name: str, writer: Callable[[pathlib.Path], object], whole=whole_file) -> None:
        with whole(folder / name) as path:
            writer(path)
        missing.remove(name)

    with _interruptible(lambda: f"missing in {folder}: {', '.join(missing)}"):
        yield write


@contextlib.contextmanager
def _interruptible(state: Callable[[], str]) -> Iterator[None]:
    """Ends the process on an interruption, with a line on what is there."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"learndyn: interrupted; {state()}", file=sys.stderr, flush=True)
        # At once: compiled work that was cut off need not survive the interpreter's own end.
        os._exit(130)
