"""`learndyn run PAPER --all`: all studies of a paper, several at a time, and a report."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from learndyn.cli import options
from learndyn.cli.interruption import interruption_message
from learndyn.cli.report import write_report
from learndyn.cli.writing import writable
from learndyn.runtime.checks import positive_int

VERDICTS = {0: "as stated", 1: "not as stated"}
START = "from learndyn.cli import main; main()"
# Several processes with one thread pool each would have more threads than cores.
ONE_THREAD = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Outcome(NamedTuple):
    """How a study ended: its exit code, the last line it printed, and its duration."""

    study: str
    code: int
    last_line: str
    seconds: float


def run_all(paper: str, out: str, workers: str, arguments: Sequence[str]) -> int:
    """Runs all studies of a paper, each in its own process; prints a table, writes `report.html`.

    Args:
        paper: name of the paper's folder.
        out: folder for the results; "" for `results/PAPER`.
        workers: studies at a time; "" for one.
        arguments: command-line arguments for every study.

    Returns:
        0 if every study ended as stated, 1 otherwise.

    Raises:
        ValueError: if the paper has no studies.
    """
    from learndyn.studies import registry

    studies = [name for name in registry.names() if name.split("/")[0] == paper]
    if not studies:
        papers = sorted({name.split("/")[0] for name in registry.names()})
        raise ValueError(f"paper: got {paper!r}; allowed are {', '.join(papers)}")
    count = positive_int("--workers", options.number(workers)) if workers else 1
    folder = writable(out or os.path.join("results", paper))
    env = {**os.environ, **(ONE_THREAD if count > 1 else {})}
    done: list[Outcome] = []
    left = lambda: f"{len(done)} of {len(studies)} studies are in {folder}"
    with interruption_message(left), concurrent.futures.ThreadPoolExecutor(count) as pool:
        jobs = [pool.submit(_run, name, folder, arguments, env) for name in studies]
        for job in concurrent.futures.as_completed(jobs):
            done.append(job.result())
            print(f"{done[-1].study}: {_verdict(done[-1])}", flush=True)
    _show(sorted(done), folder)
    if any(outcome.code in VERDICTS for outcome in done):
        print(write_report(folder, folder / "report.html"))
    return int(any(outcome.code for outcome in done))


def _run(study: str, folder: pathlib.Path, arguments: Sequence[str], env: Any) -> Outcome:
    place = str(folder / study.split("/")[1])
    command = [sys.executable, "-c", START, "run", study, "--out", place, *arguments]
    began = time.monotonic()

    process = subprocess.run(command, env=env, capture_output=True, text=True)
    text = process.stderr if process.returncode not in VERDICTS else process.stdout
    last_line = (text.strip().splitlines() or [""])[-1].removeprefix("learndyn: ")
    return Outcome(study, process.returncode, last_line, time.monotonic() - began)


def _verdict(outcome: Outcome) -> str:
    return VERDICTS.get(outcome.code, f"failed: {outcome.last_line}")


def _show(outcomes: Sequence[Outcome], folder: pathlib.Path) -> None:
    from rich.markup import escape

    from learndyn.studies.tables import show_table

    cells = [
        (o.study, escape(_verdict(o)), *_counts(folder, o), f"{o.seconds:.0f}") for o in outcomes
    ]
    show_table(("study", "verdict", "hold", "fail", "open", "seconds"), cells)
    good = sum(outcome.code == 0 for outcome in outcomes)
    print(f"{good} of {len(outcomes)} studies ended as stated; files in {folder}")


def _counts(folder: pathlib.Path, outcome: Outcome) -> tuple[str, str, str]:
    """The numbers of claims that hold, fail and are open, over all kinds."""
    if outcome.code not in VERDICTS:  # it wrote no claims
        return "", "", ""
    path = folder / outcome.study.split("/")[1] / "claims.json"
    tally = json.loads(path.read_text(encoding="utf-8"))["tally"]
    hold, fail, open_ = (
        str(sum(kind[status] for kind in tally.values())) for status in ("holds", "fails", "open")
    )
    return hold, fail, open_
