"""The README of kept results, from the files that are kept.

A kept result is a folder paper/figure with what `learndyn run` wrote: `claims.json`, `figure.png`
and, where there is one, `replication.json`. What a person has to add stands in `notes.md`, there or
in the paper's folder.
"""

import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from learndyn.studies import registry
from learndyn.studies.claims import COUNTED, KINDS, STATUSES
from learndyn.studies.replication import FILE, Row
from learndyn.studies.results import source_hash
from learndyn.studies.tables import PLURALS

UNKNOWN = "not recorded"
HEAD = """# Kept results

Written by `learndyn results` from the files in this folder: what is changed here by hand is lost.
Each folder has the `figure.png` and `claims.json` of a run; `learndyn run STUDY --preset PRESET`
makes them anew. Numbers say how many hold / fail / are open. Claims are a paper's sentences; errata
are places where its print is wrong, and hold where the corrected value does; findings are ours.
Theorems check the code and are not counted. A result is older than its study where the study's
source has changed since.
"""


def kept(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Study → what its `claims.json` says, in the order of figures."""
    found = {
        f"{path.parent.parent.name}/{path.parent.name}": json.loads(path.read_text("utf-8"))
        for path in folder.glob("*/*/claims.json")
    }
    return {name: found[name] for name in sorted(found, key=_order)}


def older(folder: pathlib.Path) -> list[str]:
    """The kept results whose study has changed since, or is gone."""
    return [name for name, result in kept(folder).items() if not _current(name, result)]


def _current(name: str, result: Mapping[str, Any]) -> bool:
    return name in set(registry.names()) and result.get("source_hash") == source_hash(name)


def written(folder: pathlib.Path) -> str:
    """The text of the README.

    Args:
        folder: of kept results.

    Returns:
        Markdown: the table of studies, what fails and what is open, replications, notes.
    """
    found, old = kept(folder), set(older(folder))
    parts = [HEAD, _studies(found, old)]
    sections = {
        "What fails": list(_rows(found, "fails", "listed", "not listed")),
        "What is open": list(_rows(found, "open", "why_open", UNKNOWN)),
        "Replication at fresh keys": list(_replications(folder, found)),
        "Notes": list(_notes(folder)),
    }
    parts += ["\n".join([f"## {title}\n", *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _studies(found: Mapping[str, Any], old: set[str]) -> str:
    heads = ["study", "preset", *(PLURALS[kind] for kind in KINDS)]
    heads += ["device", "date", "version", "differs from the preset in", "age"]
    lines = [heads, ["---"] * len(heads)]
    for name, result in found.items():
        about = [str(result.get(key) or UNKNOWN) for key in ("device", "date", "version")]
        age = "older than its study" if name in old else "current"
        link = f"[{name}]({name}/figure.png)"
        lines.append([link, result["preset"], *_counts(result), *about, _differs(result), age])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _counts(result: Mapping[str, Any]) -> Iterator[str]:
    for kind in KINDS:
        counts = result["tally"].get(kind)
        yield " / ".join(str(counts[status]) for status in STATUSES) if counts else ""


def _differs(result: Mapping[str, Any]) -> str:
    if result.get("differs") is None:
        return UNKNOWN
    return "; ".join(
        f"{name} = {_plain(now)} for {_plain(own)}"
        for name, (own, now) in result["differs"].items()
    )


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rows(found: Mapping[str, Any], status: str, reason: str, missing: str) -> Iterator[str]:
    for name, result in found.items():
        for row in result["claims"]:
            if row["status"] == status:
                yield f"- {name}, {row['kind']}: {row['name']}. *{row.get(reason) or missing}*"


def _replications(folder: pathlib.Path, found: Iterable[str]) -> Iterator[str]:
    for name in found:
        path = folder / name / FILE
        if path.exists():
            kept = json.loads(path.read_text("utf-8"))
            age = "" if _current(name, kept) else ", older than its study"
            yield f"{name}, preset {kept['preset']}, {len(kept['runs'])} keys{age}:\n"
            yield "| claim | kind | held | 95 % interval | promised | verdict |"
            yield "|---|---|---|---|---|---|"
            yield from (_replicated(Row(**row)) for row in kept["table"])
            yield ""


def _replicated(row: Row) -> str:
    kind = row.kind if row.kind in COUNTED else f"{row.kind}, not counted"
    interval = f"{row.low:.3f} … {row.high:.3f}"
    name = row.name.replace("|", "\\|")  # it would end the cell
    held = f"{row.held}/{row.count}"
    return f"| {name} | {kind} | {held} | {interval} | {row.rate:g} | {row.verdict} |"


def _notes(folder: pathlib.Path) -> Iterator[str]:
    paths = sorted(folder.glob("**/notes.md"), key=lambda path: _order(str(path.parent)))
    for path in paths:
        text = path.read_text("utf-8").strip().replace("\n", "\n  ")
        yield f"- {path.parent.relative_to(folder).as_posix()}: {text}"
