"""`learndyn run`."""

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from learndyn.cli import options
from learndyn.cli.options import DATA_DIR, OUT, PRESET, SET, STUDY
from learndyn.cli.run_all import run_all
from learndyn.cli.writing import whole_files, writable

if TYPE_CHECKING:
    from learndyn.studies.claims import Claim

FILES = ("data.nc", "claims.json", "figure.png", "figure.svg")


def run(
    study: STUDY,
    preset: PRESET = "quick",
    out: OUT = "",
    set_: SET = None,
    runs: Annotated[str | None, typer.Option(help="number of runs", metavar="INTEGER")] = None,
    key: Annotated[str | None, typer.Option(help="seed", metavar="INTEGER")] = None,
    data_dir: DATA_DIR = "",
    all_: Annotated[bool, typer.Option("--all", help="every study of the paper STUDY")] = False,
    workers: Annotated[str, typer.Option(help="studies at a time", metavar="INTEGER")] = "",
) -> None:
    """Runs a study: data.nc, figure.png, figure.svg, claims.json, and a table of claims."""
    given = options.integers(runs=runs, key=key)  # before the imports, which take their time
    if all_:
        if set_ or given:
            raise ValueError("--all: came with parameters of one study; allowed is --preset alone")
        shared = ["--preset", preset, *(["--data-dir", data_dir] if data_dir else [])]
        raise typer.Exit(run_all(study, out, workers, shared))
    if workers:
        raise ValueError("--workers: came without --all; allowed is both, or neither")
    from learndyn.numerics.progress import reporting
    from learndyn.records import save
    from learndyn.records.schema import Stopwatch
    from learndyn.studies import registry, results
    from learndyn.studies.claims import complaints
    from learndyn.studies.tables import show_claims, tally_line

    found = registry.find(study)
    options.use_data(data_dir)
    own, listed = registry.preset_of(found, preset), registry.fails(found, preset)
    params = registry.with_settings(own, options.settings(set_ or []) | given)
    folder = writable(out or os.path.join("results", study))
    print(f"{study}, preset {preset}: {params}", flush=True)
    origin, watch = results.describe(study, preset, params, own), Stopwatch()
    # The bar ends last: with no one left to read it, the files are there all the same.
    differs = origin["differs"]
    with (
        whole_files(folder, FILES) as write,
        _blaming(differs),
        reporting(True, study) as report,
    ):
        data = found.compute(params, report)
        data.attrs |= {"study": study, "preset": preset, "params": json.dumps(origin["params"])}
        write("data.nc", lambda path: save(data, path), whole=contextlib.nullcontext)
        claims = found.check(data)
        said = results.to_json(origin | {"seconds": watch.seconds()}, claims, listed)
        write("claims.json", lambda path: path.write_text(said, encoding="utf-8"))
        figure = found.draw(data)
        write("figure.png", lambda path: figure.savefig(path, dpi=160))
        write("figure.svg", lambda path: figure.savefig(path))
        report(1.0)
    show_claims(claims, listed)
    if params != own:
        _require_measured(claims, differs)
    wrong = complaints(claims, listed, own=params == own)
    print("\n".join([*wrong, f"{tally_line(claims)}; files in {folder}"]))
    raise typer.Exit(1 if wrong else 0)


@contextlib.contextmanager
def _blaming(differs: Mapping[str, Sequence[Any]]) -> Iterator[None]:
    """What breaks only because a parameter is not the preset's is bad input, and names it."""
    try:
        yield
    except (ArithmeticError, IndexError, KeyError, ValueError) as error:
        if not set(differs) - {"key"} or str(error).startswith("--set"):
            raise
        why = str(error).partition("\n")[0]
        raise ValueError(
            f"--set: got {_given(differs)}, with which the study breaks off ({why}); "
            "allowed are values nearer to the presets'"
        ) from error


def _given(differs: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{name}={here}" for name, (_, here) in differs.items())


def _require_measured(claims: Sequence["Claim"], differs: Mapping[str, Sequence[Any]]) -> None:
    """Where a setting leaves nothing to measure it is bad input: no claim of the paper fails."""
    for claim in claims:
        if claim.status == "fails" and not math.isfinite(claim.measured):
            raise ValueError(
                f"--set: got {_given(differs)}, which leaves nothing to measure for "
                f"{claim.name!r}; allowed are larger sizes, as the presets have"
            )
