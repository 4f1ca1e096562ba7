"""`learndyn run`."""

import contextlib
import json
import math
import os
import warnings
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
    all_: Annotated[
        bool, typer.Option("--all", help="run all studies of a paper; STUDY is the paper")
    ] = False,
    workers: Annotated[
        str, typer.Option(help="with --all, studies at a time", metavar="INTEGER")
    ] = "",
) -> None:
    """Runs a study; writes data, figures and claims; prints a table of the claims."""
    # Options are checked before the slow imports, so that a typo is reported at once.
    integers = options.integers(runs=runs, key=key)
    if all_:
        if set_ or integers:
            raise ValueError("--all: got parameters of one study as well; allowed is only --preset")
        shared = ["--preset", preset, *(["--data-dir", data_dir] if data_dir else [])]
        raise typer.Exit(run_all(study, out, workers, shared))
    if workers:
        raise ValueError("--workers: got it without --all; allowed are both, or neither")
    from learndyn.records import save
    from learndyn.records.schema import Stopwatch
    from learndyn.runtime.progress import reporting
    from learndyn.studies import registry, results
    from learndyn.studies.tables import show_claims, tally_line
    from learndyn.studies.verdicts import complaints

    module = registry.find(study)
    options.use_data(data_dir)
    own, listed = registry.preset_of(module, preset), registry.fails(module, preset)
    settings = options.settings(set_ or [])
    options.require_apart(settings, integers, "--{}")
    params = registry.with_settings(own, settings | integers)
    options.require_device()
    options.use_cache()
    folder = writable(out or os.path.join("results", study))
    print(f"{study}, preset {preset}: {params}", flush=True)
    origin, watch = results.describe(study, preset, params, own), Stopwatch()
    differs = origin["differs"]
    # The progress bar ends after the files are written: if its terminal is gone and it fails, the
    # files exist all the same.
    with whole_files(folder, FILES) as write, reporting(True, study) as report:
        with _blaming(differs):
            data = module.compute(params, report)
        data.attrs |= {"study": study, "preset": preset, "params": json.dumps(origin["params"])}
        write("data.nc", lambda path: save(data, path), whole=contextlib.nullcontext)
        with _blaming(differs):
            claims = module.check(data)
        text = results.to_json(origin | {"seconds": watch.seconds()}, claims, listed)
        write("claims.json", lambda path: path.write_text(text, encoding="utf-8"))
        with _blaming(differs):
            figure = module.draw(data)
            # Ticks that cannot be placed raise an error only here, not in `draw`.
            figure.draw_without_rendering()
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
    """Turns any error into a ValueError that names the parameters changed from the preset.

    The presets run, so the changed parameters are the cause: it is bad input, not a bug.
    """
    try:
        with warnings.catch_warnings():
            if differs:  # the error line replaces warnings about overflows and underflows
                warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except OSError:  # a missing or unwritable file has nothing to do with the parameters
        raise
    except Exception as error:  # of any kind: memory, ranges, names unknown to the study
        # A study has to run at every key: there an error is a bug.
        if not set(differs) - {"key"}:
            raise
        why = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"--set: got {_changed(differs)}, with which the study fails ({why}); "
            "allowed are values closer to the presets"
        ) from error


def _changed(differs: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{name}={here}" for name, (_, here) in differs.items())


def _require_measured(claims: Sequence["Claim"], differs: Mapping[str, Sequence[Any]]) -> None:
    """Raises a ValueError if the changed parameters leave a claim without anything to measure."""
    for claim in claims:
        # A claim fails on NaN. Nothing was measured, so it would be wrong to say that it fails.
        if claim.status == "fails" and not math.isfinite(claim.measured):
            raise ValueError(
                f"--set: got {_changed(differs)}, which leaves nothing to measure for "
                f"{claim.name!r}; allowed are larger sizes, such as those of the presets"
            )
