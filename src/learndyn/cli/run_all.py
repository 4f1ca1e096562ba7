"""`learndyn run PAPER --all`: every study of a paper, side by side."""

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
from learndyn.cli.writing import interruptible, writable
from learndyn.numerics.checks import positive_int

VERDICTS = {0: "as stated", 1: "not as stated"}
START = "from learndyn.cli import main; main()"
# Side by side, pools of threads would stand in each other's way.
ALONE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Ran(NamedTuple):
    """What became of a study: its exit code, its last line, and the seconds it took."""

    study: str
    code: int
    said: str
    seconds: float


def run_all(paper: str, out: str, workers: str, arguments: Sequence[str]) -> int:
    """Runs all studies of a paper, each in a process of its own, and prints one table.

    Args:
        paper: its folder.
        out: folder for the results, or nothing for the usual one.
        workers: studies at a time, or nothing for one.
        arguments: that each is given.

    Returns:
        0 where all came out as they say; 1 else.

    Raises:
        ValueError: for a paper without studies.
    """
    from learndyn.studies import registry

    studies = [name for name in registry.names() if name.split("/")[0] == paper]
    if not studies:
        papers = sorted({name.split("/")[0] for name in registry.names()})
        raise ValueError(f"paper: got {paper!r}; allowed are {', '.join(papers)}")
    count = positive_int("--workers", options.number(workers)) if workers else 1
    folder = writable(out or os.path.join("results", paper))
    env = {**os.environ, **(ALONE if count > 1 else {})}
    done: list[Ran] = []
    left = lambda: f"{len(done)} of {len(studies)} studies are in {folder}"
    with interruptible(left), concurrent.futures.ThreadPoolExecutor(count) as pool:
        jobs = [pool.submit(_run, name, folder, arguments, env) for name in studies]
        for job in concurrent.futures.as_completed(jobs):
            done.append(job.result())
            print(f"{done[-1].study}: {_verdict(done[-1])}", flush=True)
    _show(sorted(done), folder)
    return int(any(ran.code for ran in done))


def _run(study: str, folder: pathlib.Path, arguments: Sequence[str], env: Any) -> Ran:
    place = str(folder / study.split("/")[1])
    command = [sys.executable, "-c", START, "run", study, "--out", place, *arguments]
    began = time.monotonic()
    ended = subprocess.run(command, env=env, capture_output=True, text=True)
    text = ended.stderr if ended.returncode not in VERDICTS else ended.stdout
    said = (text.strip().splitlines() or [""])[-1].removeprefix("learndyn: ")
    return Ran(study, ended.returncode, said, time.monotonic() - began)


def _verdict(ran: Ran) -> str:
    return VERDICTS.get(ran.code, f"broke off: {ran.said}")


def _show(rows: Sequence[Ran], folder: pathlib.Path) -> None:
    from rich.markup import escape

    from learndyn.studies.tables import show_table

    cells = [
        (ran.study, escape(_verdict(ran)), *_counts(folder, ran), f"{ran.seconds:.0f}")
        for ran in rows
    ]
    show_table(("study", "verdict", "hold", "fail", "open", "seconds"), cells)
    good = sum(ran.code == 0 for ran in rows)
    print(f"{good} of {len(rows)} studies came out as they say; files in {folder}")


def _counts(folder: pathlib.Path, ran: Ran) -> tuple[str, str, str]:
    """Claims that hold, fail and are open, all kinds together."""
    if ran.code not in VERDICTS:
        return "", "", ""
    path = folder / ran.study.split("/")[1] / "claims.json"
    tally = json.loads(path.read_text(encoding="utf-8"))["tally"]
    hold, fail, open_ = (
        str(sum(kind[status] for kind in tally.values())) for status in ("holds", "fails", "open")
    )
    return hold, fail, open_
