"""`learndyn replicate`."""

import os
from dataclasses import fields
from typing import Annotated

import typer

from learndyn.cli import options
from learndyn.cli.interruption import interruption_message
from learndyn.cli.options import DATA_DIR, OUT, PRESET, SET, STUDY
from learndyn.cli.writing import writable
from learndyn.runtime.checks import positive_int, seed


def replicate(
    study: STUDY,
    keys: Annotated[str, typer.Option(help="number of new keys", metavar="INTEGER")] = "20",
    preset: PRESET = "quick",
    first: Annotated[str, typer.Option(help="the first key", metavar="INTEGER")] = "",
    set_: SET = None,
    out: OUT = "",
    data_dir: DATA_DIR = "",
) -> None:
    """Runs a study at new keys, counts how often each claim holds, writes replication.json."""
    from learndyn.runtime.progress import reporting
    from learndyn.studies import registry, replication, results
    from learndyn.studies.tables import show_replication

    module = registry.find(study)
    options.use_data(data_dir)
    own, listed = registry.preset_of(module, preset), registry.fails(module, preset)
    settings = options.settings(set_ or [])
    params = registry.with_settings(own, settings)
    if "key" in settings:
        raise ValueError(f"--set key: got {settings['key']}; allowed are --first and --keys")
    number = positive_int("--keys", options.number(keys))
    begin = seed("--first", options.number(first)) if first else replication.FIRST
    if "key" not in {field.name for field in fields(params)}:
        print(f"{study} is not random: every run gives the numbers of `learndyn run`")
        return
    options.require_device()
    options.use_cache()
    wanted = replication.keys_of(module, number, begin)
    folder = writable(out or os.path.join("results", study))
    origin = results.describe(study, preset, params, own)
    del origin["params"]["key"]  # the file is about many keys
    done = replication.earlier(folder, origin)
    state = lambda: f"{len(done)} keys are in {folder / replication.FILE}"
    with interruption_message(state), reporting(True, study) as report:
        for key, outcome in replication.replicate(module, params, wanted, done, report):
            done[key] = outcome
            # After every key, so that an interrupted replication can be continued. A file without
            # a single claim would be of no use.
            if replication.table(done):
                replication.write(folder, origin, done)
        report(1.0)
    rows = replication.table(done)
    broken = {key: run["error"] for key, run in done.items() if "error" in run}
    if not rows:
        raise ValueError(f"{study}: every key failed; key {wanted[0]}: {broken[str(wanted[0])]}")
    show_replication(rows, listed)
    lines = [f"key {key} failed: {error}" for key, error in broken.items()]
    varying = replication.varying(done)
    lines += [f"promises to hold at every key, but depends on it: {name}" for name in varying]
    print("\n".join([*lines, f"{len(done)} keys; file in {folder}"]))
    raise typer.Exit(1 if replication.failing(rows, listed) else 0)
