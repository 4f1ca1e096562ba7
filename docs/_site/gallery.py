"""The gallery of studies, from the results that are kept in docs/results."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from PIL import Image

from learndyn.studies import registry, summary
from learndyn.studies.papers import is_ours

from . import errata
from .text import about, escaped, expected, label, number

KINDS = {"claim": "Claims", "erratum": "Errata", "finding": "Findings", "theorem": "Theorems"}
SMALL = 560, 320  # pixels of a thumbnail: twice what it has on the page
Results = Mapping[str, Mapping[str, Any]]


def write(results: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes one page of studies per paper, their index, and the page of errata."""
    folder.mkdir(parents=True, exist_ok=True)
    kept, papers = summary.kept(results), {}
    for name in registry.names():
        if is_ours(paper := name.split("/")[0]):
            papers.setdefault(paper, []).append(name)
    listed = errata.anchors(results.parent)
    for paper, names in papers.items():
        (folder / f"{paper}.md").write_text("".join(_paper(paper, names, kept, listed)), "utf-8")
    for name in kept:
        _thumbnail(results / name / "figure.png", folder / "small" / f"{label(name)}.webp")
    (folder / "index.md").write_text("".join(_index(papers, kept)), "utf-8")
    (folder / "errata.md").write_text("".join(errata.page(results.parent, kept)), "utf-8")


def _thumbnail(picture: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(exist_ok=True)
    with Image.open(picture) as image:
        image = image.convert("RGB")
        image.thumbnail(SMALL, reducing_gap=2.0)
        image.save(target, "WEBP", quality=80)


def _index(papers: Mapping[str, list[str]], kept: Results) -> Iterator[str]:
    yield "# Gallery of studies\n\nAll studies with a kept result, and how many of their "
    yield "claims hold. [What claims, errata, findings and theorems are](../../studies.md).\n\n"
    for paper, names in papers.items():
        yield f"## {paper}\n\n{about(paper)} [All claims]({paper}.md).\n\n"
        shown = [name for name in names if name in kept]
        rest = [f"[{name.split('/')[1]}](#{label(name)})" for name in names if name not in kept]
        if shown:
            yield (
                "::::{container} gallery\n" + "".join(_card(n, kept[n]) for n in shown) + "::::\n\n"
            )
        if rest:
            yield f"Without a kept result: {', '.join(rest)}.\n\n"
    yield "\n".join(["```{toctree}\n:hidden:\n", *papers, "```", ""])


def _card(name: str, result: Mapping[str, Any]) -> str:
    verdicts = [row["status"] for row in result["claims"]]
    text = f"{verdicts.count('holds')} of {len(verdicts)} hold"
    figure = f"[![{escaped(registry.title(name))}](small/{label(name)}.webp)](#{label(name)})"
    return f":::{{container}} card\n{figure}\n\n{name.split('/')[1]}: {text}\n:::\n"


def _paper(paper: str, names: list[str], kept: Results, listed: Mapping[str, str]) -> Iterator[str]:
    yield f"# {paper}\n\n{about(paper)}\n\n"
    for name in names:
        yield f"({label(name)})=\n## {name.split('/')[1]}\n\n{escaped(registry.title(name))}\n\n"
        if name not in kept:
            yield f"No result is kept; `learndyn run {name}` computes one.\n\n"
            continue
        result = kept[name]
        yield f"![{name}](../../results/{name}/figure.png)\n\n"
        yield f"Preset `{result['preset']}`, {escaped(result['device'])}, {result['date']}.\n\n"
        yield from _claims(name, result["claims"], listed)


def _claims(
    study: str, claims: list[Mapping[str, Any]], listed: Mapping[str, str]
) -> Iterator[str]:
    for kind, title in KINDS.items():
        rows = [row for row in claims if row["kind"] == kind]
        if rows:
            yield f"| {title} | source | expected | measured | verdict |\n|---|---|---|---|---|\n"
            yield "".join(_row(row, listed.get(errata.key(study, row))) for row in rows) + "\n"


def _row(row: Mapping[str, Any], erratum: str | None) -> str:
    statement = escaped(row["statement"])
    if erratum:
        statement += f" ([erratum](#{erratum}))"
    cells = [statement, escaped(row["source"]), expected(row), number(row.get("measured", ""))]
    return f"| {' | '.join([*cells, row['status']])} |\n"
