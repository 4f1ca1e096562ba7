"""Copies the results of a run to where results are kept, and draws their figures anew."""

import pathlib
import re
import shutil

from learndyn.records import load, tree_of, whole_file
from learndyn.studies import registry
from learndyn.studies.confirmation import CONFIRMED, QUICK
from learndyn.studies.results import naming, read, source_folder

ALWAYS = ("claims.json", "figure.png")
SMALL = ("figure.svg", "data.nc")  # kept if they are small: others are computed again when needed
LARGEST = 1_000_000  # bytes


def keep(run: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Copies the files of a run: claims and figures, and its data if they have less than 1 MB.

    Args:
        run: the folder that `learndyn run` wrote.
        folder: of kept results; an earlier result of the same study there is replaced.

    Returns:
        The folder of the kept result.

    Raises:
        ValueError: for a run that is not complete, or not of a clean commit.
    """
    if missing := [name for name in ALWAYS if not (run / name).is_file()]:
        allowed = "a folder that `learndyn run` wrote"
        raise ValueError(f"--keep: {run} has no {missing[0]}; allowed is {allowed}")
    result = read(run / ALWAYS[0])
    with naming(run / ALWAYS[0]):
        study = result["study"]
        if not re.fullmatch(r"\w+/\w+", study):
            raise ValueError(f"study {study!r}")
        float(result["seconds"])
        origins = [(o["commit"], o.get("tree")) for o in (result, *result.get("parts", ()))]
    for commit, tree in origins:
        _require_clean(run, study, commit, tree)
    target = folder / study
    target.mkdir(parents=True, exist_ok=True)
    _forget(target, result.get("source_hash"))
    for name in (*ALWAYS, *SMALL):
        source = run / name
        if source.is_file() and (name in ALWAYS or source.stat().st_size < LARGEST):
            with whole_file(target / name) as part:
                shutil.copyfile(source, part)
    return target


def redraw(folder: pathlib.Path, study: str) -> pathlib.Path:
    """Draws the figure of a kept result anew from its data, which stay as they are.

    Args:
        folder: of kept results.
        study: name of the study.

    Returns:
        The folder of the kept result.

    Raises:
        ValueError: for a result without data.
    """
    target = folder / study
    if not (target / "data.nc").is_file():
        raise ValueError(f"--redraw: {target} has no data.nc; allowed is a result with its data")
    figure = registry.draw(registry.find(study), load(target / "data.nc"))
    figure.draw_without_rendering()
    for name in ("figure.png", "figure.svg"):
        with whole_file(target / name) as part:
            figure.savefig(part)
    if (target / "figure.svg").stat().st_size >= LARGEST:
        (target / "figure.svg").unlink()
    return target


def _require_clean(run: pathlib.Path, study: str, commit: str, tree: str | None) -> None:
    """Raises a ValueError unless a run, or a part of it, is of a clean commit.

    A commit that was stated where there was no git is checked by the files that were there.
    """
    if not commit or commit.endswith("-dirty"):
        got = f"commit {commit!r}" if commit else "no commit"
    elif tree and tree != tree_of(commit, source_folder(study)):
        got = f"commit {commit!r}, but not the files of that commit"
    else:
        return
    raise ValueError(f"--keep: {run} has {got}; allowed is a run of a clean commit")


def _forget(target: pathlib.Path, source_hash: str | None) -> None:
    """Removes what belongs to an earlier result, such as its data and confirmation."""
    stale = [*SMALL, CONFIRMED]
    if (target / QUICK).exists() and read(target / QUICK).get("source_hash") != source_hash:
        stale.append(QUICK)
    for name in stale:
        (target / name).unlink(missing_ok=True)
