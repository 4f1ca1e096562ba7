"""The gallery and the errata, from the results that are kept in docs/results."""

import hashlib
import importlib
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from learndyn.studies import registry, summary
from learndyn.studies.papers import is_ours

KINDS = {"claim": "Claims", "erratum": "Errata", "finding": "Findings", "theorem": "Theorems"}
Results = Mapping[str, Mapping[str, Any]]


def write(results: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes one page of studies per paper, their index, and the page of errata."""
    folder.mkdir(parents=True, exist_ok=True)
    kept, papers = summary.kept(results), {}
    for name in registry.names():
        if is_ours(paper := name.split("/")[0]):
            papers.setdefault(paper, []).append(name)
    for paper, names in papers.items():
        (folder / f"{paper}.md").write_text("".join(_paper(paper, names, kept)), "utf-8")
    (folder / "index.md").write_text(_index(papers, kept), "utf-8")
    (folder / "errata.md").write_text("".join(_errata(kept)), "utf-8")


def escaped(value: Any) -> str:
    """A text as it stands, in Markdown and in the cell of a table."""
    return re.sub(r"([\\|*_<>\[\]$`#~{}])", r"\\\1", " ".join(str(value).split()))


def number(value: Any) -> str:
    """A number in four digits; an interval as both of its ends."""
    if isinstance(value, list):
        return " to ".join(map(number, value))
    return f"{value:.4g}" if isinstance(value, int | float) else escaped(value)


def anchor(study: str, claim: Mapping[str, Any]) -> str:
    """The anchor of an erratum: its study, and a hash of its name."""
    digest = hashlib.sha256(claim["name"].encode()).hexdigest()[:6]
    return f"erratum-{study.replace('/', '-')}-{digest}".lower().replace("_", "-")


def errata(kept: Results) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every erratum of the kept results, with its study."""
    for study, result in kept.items():
        yield from ((study, row) for row in result["claims"] if row["kind"] == "erratum")


def _index(papers: Mapping[str, list[str]], kept: Results) -> str:
    lines = [
        "# Gallery of studies\n",
        "Figures and claims of the kept results, one page per paper.",
    ]
    lines += ["[What a claim, an erratum, a finding and a theorem are](../../studies.md).\n"]
    lines += ["| paper | studies | with a kept result |", "|---|---|---|"]
    for paper, names in papers.items():
        lines.append(f"| [{paper}]({paper}.md) | {len(names)} | {len(set(names) & set(kept))} |")
    return "\n".join([*lines, "", "```{toctree}\n:hidden:\n", *papers, "```", ""])


def _paper(paper: str, names: list[str], kept: Results) -> Iterator[str]:
    about = importlib.import_module(f"learndyn.studies.{paper}").__doc__ or ""
    yield f"# {paper}\n\n{escaped(about)}\n\n"
    for name in names:
        yield f"## {name.split('/')[1]}\n\n{escaped(registry.title(name))}\n\n"
        if name not in kept:
            yield f"No result is kept; `learndyn run {name}` computes one.\n\n"
            continue
        result = kept[name]
        yield f"![{name}](../../results/{name}/figure.png)\n\n"
        yield f"Preset `{result['preset']}`, {escaped(result['device'])}, {result['date']}.\n\n"
        yield from _claims(name, result["claims"])


def _claims(study: str, claims: list[Mapping[str, Any]]) -> Iterator[str]:
    for kind, title in KINDS.items():
        rows = [row for row in claims if row["kind"] == kind]
        if rows:
            yield f"| {title} | source | expected | measured | verdict |\n|---|---|---|---|---|\n"
            yield "".join(_row(study, row) for row in rows) + "\n"


def _row(study: str, row: Mapping[str, Any]) -> str:
    statement = escaped(row["statement"])
    if row["kind"] == "erratum":
        statement += f" ([erratum](#{anchor(study, row)}))"
    cells = [statement, escaped(row["source"]), _expected(row), number(row.get("measured", ""))]
    return f"| {' | '.join([*cells, row['status']])} |\n"


def _expected(row: Mapping[str, Any]) -> str:
    value = row.get("expected")
    return "" if value is None else f"{row.get('relation', '')} {number(value)}".strip()


def _errata(kept: Results) -> Iterator[str]:
    yield "# Errata of the papers\n\nPlaces where a published formula or sentence is wrong, with "
    yield "what kept results measured. An erratum holds if the corrected value does and, where the "
    yield "print gives a number, the measurement misses that by at least five tolerances. Each has "
    yield "an anchor of its own, so that it can be cited. Misprints that no study measures are not "
    yield "listed.\n\n"
    paper = ""
    for study, row in errata(kept):
        if study.split("/")[0] != paper:
            paper = study.split("/")[0]
            yield f"## {paper}\n\n"
        yield f"({anchor(study, row)})=\n### {escaped(row['source'])}: {escaped(row['name'])}\n\n"
        yield f"- Printed: {escaped(row.get('printed', ''))}\n"
        yield f"- Corrected: {_expected(row)}, tolerance {number(row.get('tolerance', 0))} "
        yield f"({escaped(row.get('tolerance_from', ''))})\n"
        yield f"- Measured: {number(row.get('measured', ''))} in [{study}]({paper}.md): "
        yield f"{row['status']}\n\n"
