"""The command line: `learndyn list | run | cite`."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from learndyn.numerics.checks import positive_int, seed
from learndyn.numerics.progress import reporting
from learndyn.problems.files import VARIABLE, data_folder
from learndyn.records import save, whole_file
from learndyn.studies import registry
from learndyn.studies.claims import Claim, to_json
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


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="paper/figure, as `learndyn list` shows it")],
    preset: Annotated[str, typer.Option(help="quick or paper")] = "quick",
    out: Annotated[str, typer.Option(help="folder for the results")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value")] = None,
    runs: Annotated[str | None, typer.Option(help="number of runs", metavar="INTEGER")] = None,
    key: Annotated[str | None, typer.Option(help="seed", metavar="INTEGER")] = None,
    data_dir: Annotated[str, typer.Option(help="folder of real data files")] = "",
) -> None:
    """Runs a study: data.nc, figure.png, figure.svg, claims.json, and a table of claims."""
    found = registry.find(study)
    if data_dir:
        os.environ[VARIABLE] = str(data_folder(data_dir))
    if preset not in found.PRESETS:
        raise ValueError(f"--preset: got {preset!r}; allowed are {', '.join(found.PRESETS)}")
    settings = _settings(set_ or []) | _integers(runs=runs, key=key)
    params = registry.with_settings(found.PRESETS[preset], settings)
    folder = _writable(out or os.path.join("results", study))
    print(f"{study}, preset {preset}: {params}", flush=True)
    # The bar ends last: with no one left to read it, the files are there all the same.
    with _whole_files(folder) as write, reporting(True, study) as report:
        data = found.compute(params, report)
        data.attrs |= {"study": study, "preset": preset, "params": json.dumps(asdict(params))}
        write("data.nc", lambda path: save(data, path), whole=contextlib.nullcontext)
        claims = found.check(data)
        write("claims.json", lambda path: path.write_text(to_json(claims), encoding="utf-8"))
        figure = found.draw(data)
        write("figure.png", lambda path: figure.savefig(path, dpi=160))
        write("figure.svg", lambda path: figure.savefig(path))
        report(1.0)
    _show(claims, folder)
    raise typer.Exit(1 if any(claim.status == "fails" for claim in claims) else 0)


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

    try:
        yield write
    except KeyboardInterrupt:
        said = f"learndyn: interrupted; missing in {folder}: {', '.join(missing)}"
        print(said, file=sys.stderr, flush=True)
        # At once: compiled work that was cut off need not survive the interpreter's own end.
        os._exit(130)


def _show(claims: list[Claim], folder: pathlib.Path) -> None:
    console = Console()
    console.width = max(console.width, 120)
    table = Table("", "statement", "source", "expected", "measured", "tolerance")
    for claim in claims:
        printed = f" (printed: {claim.printed})" if claim.printed else ""
        note = f" [open: {claim.why_open}]" if claim.why_open else ""
        table.add_row(
            claim.status if claim.kind == "claim" else f"{claim.status}, {claim.kind}",
            escape(claim.statement + note),  # square brackets are markup to rich
            escape(claim.source),
            escape(f"{claim.relation} {claim.expected:.6g}{printed}"),
            f"{claim.measured:.6g}",
            escape(f"{claim.tolerance:.3g}: {claim.tolerance_from}"),
        )
    console.print(table)
    counts = {s: sum(c.status == s for c in claims) for s in ("holds", "fails", "open")}
    print(
        f"{counts['holds']} hold, {counts['fails']} fail, {counts['open']} open; files in {folder}"
    )
