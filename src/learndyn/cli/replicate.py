"""`learndyn replicate`."""

import os
from dataclasses import fields
from typing import Annotated

import typer

from learndyn.cli import options
from learndyn.cli.interruption import interruptible
from learndyn.cli.options import DATA_DIR, OUT, PRESET, SET, STUDY
from learndyn.cli.writing import writable
from learndyn.numerics.checks import positive_int, seed


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
    from learndyn.numerics.progress import reporting
    from learndyn.studies import registry, replication, results
    from learndyn.studies.tables import show_replication

    found = registry.find(study)
    options.use_data(data_dir)
    own, listed = registry.preset_of(found, preset), registry.fails(found, preset)
    params = registry.with_settings(own, options.settings(set_ or []))
    number = positive_int("--keys", options.number(keys))
    begin = seed("--first", options.number(first)) if first else replication.FIRST
    if "key" not in {field.name for field in fields(params)}:
        print(f"{study} has no randomness: every run gives what `learndyn run` gives")
        return
    wanted = replication.keys_of(found, number, begin)
    folder = writable(out or os.path.join("results", study))
    origin = results.describe(study, preset, params, own)
    del origin["params"]["key"]
    done = replication.earlier(folder, origin)
    state = lambda: f"{len(done)} keys are in {folder / replication.FILE}"
    with interruptible(state), reporting(True, study) as report:
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
