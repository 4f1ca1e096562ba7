"""The errata of the papers, from docs/errata.toml, with what the kept results measured."""

import pathlib
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from .text import about, escaped, expected, label, number

INTRO = """# Errata of the papers

Places where a published formula or sentence is wrong or incomplete: what is printed, what it
should say, and why. Where a study measures an erratum, its claims follow: a claim holds if the
corrected value does and, where the print gives a number, the measurement misses that number by at
least five tolerances. The code uses the corrected forms. Each erratum has an anchor of its own, the
link beside its heading, so that it can be cited.
[Which papers these are](../../studies.md#the-papers).

"""


def read(docs: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Paper → its errata, as the file has them."""
    return tomllib.loads((docs / "errata.toml").read_text("utf-8"))


def anchor(paper: str, entry: Mapping[str, Any]) -> str:
    """The anchor of an erratum."""
    return f"erratum-{paper}-{entry['at']}"


def key(study: str, row: Mapping[str, Any]) -> str:
    """How the file names the place that a claim is about."""
    return f"{study} | {row['source']}"


def anchors(docs: pathlib.Path) -> dict[str, str]:
    """Place of a claim → anchor of its erratum."""
    return {
        place: anchor(paper, entry)
        for paper, entries in read(docs).items()
        for entry in entries
        for place in entry.get("claims", ())
    }


def measured(kept: Mapping[str, Any]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """Place → study and claim, of all errata of the kept results."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for study, result in kept.items():
        for row in result["claims"]:
            if row["kind"] == "erratum":
                found.setdefault(key(study, row), []).append((study, row))
    return found


def page(docs: pathlib.Path, kept: Mapping[str, Any]) -> Iterator[str]:
    """The page."""
    claims = measured(kept)
    yield INTRO
    for paper, entries in read(docs).items():
        yield f"## {paper}\n\n{about(paper)} [All claims]({paper}.md).\n\n"
        for entry in entries:
            yield f"({anchor(paper, entry)})=\n### {entry['place']}\n\n"
            yield f"Printed\n: {entry['printed']}\n\nCorrected\n: {entry['corrected']}\n\n"
            yield f"Reason\n: {entry['because']}\n\n"
            rows = [pair for place in entry.get("claims", ()) for pair in claims.get(place, ())]
            if rows:
                yield "| measured by | claim | printed | corrected | measured | verdict |\n"
                yield "|---|---|---|---|---|---|\n" + "".join(_row(*pair) for pair in rows) + "\n"


def _row(study: str, row: Mapping[str, Any]) -> str:
    cells = [f"[{study}](#{label(study)})", escaped(row["statement"])]
    cells += [escaped(row.get("printed", "")), expected(row), number(row.get("measured", ""))]
    return f"| {' | '.join([*cells, row['status']])} |\n"
