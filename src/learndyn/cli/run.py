"""`learndyn run`."""

import os
from typing import Annotated

import typer

from learndyn.cli import options
from learndyn.cli.judging import Request, judge
from learndyn.cli.options import DATA_DIR, OUT, PRESET, SET, STUDY
from learndyn.cli.part import compute_part, folder_of
from learndyn.cli.run_all import run_all
from learndyn.cli.writing import writable


def run(
    study: STUDY,
    preset: PRESET = "quick",
    out: OUT = "",
    set_: SET = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="name=a,b: compute only these values; `learndyn join` joins parts"),
    ] = None,
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
        if set_ or part or integers:
            raise ValueError("--all: got parameters of one study as well; allowed is only --preset")
        shared = ["--preset", preset, *(["--data-dir", data_dir] if data_dir else [])]
        raise typer.Exit(run_all(study, out, workers, shared))
    if workers:
        raise ValueError("--workers: got it without --all; allowed are both, or neither")
    options.use_data(data_dir)
    settings = options.settings(set_ or [])
    options.require_apart(settings, integers, "--{}")
    request = Request.of(study, preset, settings | integers)
    from learndyn.runtime.progress import reporting
    from learndyn.studies import parts, registry

    texts = options.settings(part or [], "--part")
    options.require_apart(settings | integers, texts, "--part {}")
    chosen = parts.choose(request.module, request.params, texts)
    options.require_device()
    options.use_cache()
    if chosen:
        folder = writable(out or os.path.join("results", study, folder_of(chosen)))
        print(f"{study}, preset {preset}, part: {dict(chosen)}", flush=True)
        with reporting(True, study) as report:
            compute_part(request, chosen, folder, report)
            report(1.0)
        print(f"files in {folder}; `learndyn join` judges the study from all of its parts")
        return
    folder = writable(out or os.path.join("results", study))
    compute = lambda report: registry.compute(request.module, request.params, report)
    raise typer.Exit(judge(request, folder, compute))
