"""What the page says about each study whose results are in a folder."""

import json
import os
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from learndyn.report import pictures
from learndyn.studies import registry
from learndyn.studies.confirmation import new_names, standing
from learndyn.studies.replication import FILE as REPLICATION
from learndyn.studies.results import naming, read
from learndyn.studies.summary import CLAIMS, order

NOTES = "notes.md"
WORST = ("fails", "open", "holds")
ORIGIN = ("device", "date", "version", "jax", "commit", "generator", "source_hash", "parts")


class Entry(NamedTuple):
    """A study on the page.

    Attributes:
        name: paper/figure.
        paper: the paper.
        title: the study's title; "" for a study that is not installed.
        preset: name of the preset.
        verdict: the worst verdict of its claims.
        claims: the claims, as `claims.json` has them.
        picture: the figure, as a data URI.
        params: name → value, and the preset's value where it differs.
        seconds: how long it took; None if that was not recorded.
        origin: name → value: device, date, versions, commit.
        age: whether the result is of today's study; "" for a study that is not installed.
        differs: how the preset differs from the paper.
        replication: preset, number of keys and rows of `replication.json`; None without.
        notes: remarks by a person.
        words: what the search looks at.
    """

    name: str
    paper: str
    title: str
    preset: str
    verdict: str
    claims: Sequence[Mapping[str, Any]]
    picture: str
    params: Mapping[str, tuple[Any, Any]]
    seconds: float | None
    origin: Mapping[str, str]
    age: str
    differs: str
    replication: Mapping[str, Any] | None
    notes: str
    words: str


def entries(folder: pathlib.Path) -> list[Entry]:
    """The studies with results in a folder or below, ordered by name.

    Args:
        folder: of results.

    Returns:
        One entry per `claims.json`.

    Raises:
        ValueError: for a file that `learndyn` did not write.
    """
    known = set(registry.names())
    each = [_entry(found, known) for found in folders(folder, CLAIMS)]
    return sorted(each, key=lambda entry: order(entry.name))


def folders(folder: pathlib.Path, name: str) -> Iterator[pathlib.Path]:
    """The folders, this one or below, that contain a file; not those inside of such a folder."""
    for root, inner, files in os.walk(folder):
        if name in files:
            inner.clear()
            yield pathlib.Path(root)


def _entry(folder: pathlib.Path, known: set[str]) -> Entry:
    path = folder / CLAIMS
    result = read(path)
    with naming(path):
        name = str(result["study"])
        ours = name in known
        claims = [_claim(row) for row in result["claims"]]
        changed = {key: both[0] for key, both in (result.get("differs") or {}).items()}
        params = {key: (value, changed.get(key)) for key, value in (result["params"] or {}).items()}
        verdicts = {claim["status"] for claim in claims}
        words = (word for claim in claims for word in (claim["statement"], claim["source"]))
        title = registry.title(name) if ours else ""
        return Entry(
            name=name,
            paper=name.partition("/")[0],
            title=title,
            preset=str(result["preset"]),
            verdict=next((each for each in WORST if each in verdicts), "holds"),
            claims=claims,
            picture=pictures.of_folder(folder),
            params=params,
            seconds=None if result.get("seconds") is None else float(result["seconds"]),
            origin={key: _text(result[key]) for key in ORIGIN if result.get(key)},
            age=standing(folder, name, result).text if ours else "",
            differs=registry.constant(name, "DIFFERS") if ours else "",
            replication=_replication(folder),
            notes=_notes(folder),
            words=" ".join([name, title, *words]).lower(),
        )


# What every claim has, and what it may have.
_ALWAYS = ("name", "status", "kind", "statement", "source", "relation", "expected", "measured")
_MAYBE = ("tolerance", "tolerance_from", "printed", "printed_value", "why_open", "listed")


def _claim(row: Mapping[str, Any]) -> dict[str, Any]:
    whole = {key: row[key] for key in _ALWAYS} | {key: row.get(key) for key in _MAYBE}
    interval = (row["low"], row["high"]) if row.get("low") is not None else None
    return whole | {"interval": interval}


def _replication(folder: pathlib.Path) -> dict[str, Any] | None:
    path = folder / REPLICATION
    if not path.exists():
        return None
    content, renamed = read(path), new_names(folder)
    with naming(path):
        fields = ("kind", "held", "count", "low", "high", "rate", "verdict")
        rows = [
            {"name": renamed.get(row["name"], row["name"]), **{key: row[key] for key in fields}}
            for row in content["table"]
        ]
        return {"preset": content["preset"], "keys": len(content["runs"]), "rows": rows}


def _notes(folder: pathlib.Path) -> str:
    path = folder / NOTES
    with naming(path):
        return path.read_text("utf-8").strip() if path.exists() else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tallies(each: Sequence[Entry]) -> dict[str, Counter]:
    """Paper → number of claims by kind and verdict."""
    found: dict[str, Counter] = {}
    for entry in each:
        kinds = ((claim["kind"], claim["status"]) for claim in entry.claims)
        found.setdefault(entry.paper, Counter()).update(kinds)
    return found
