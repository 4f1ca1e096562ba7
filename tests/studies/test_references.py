"""The citation file names the version and the papers, as `learndyn cite` does."""

import pathlib
import re

import pytest

import learndyn as ld
from learndyn.probes.summary import MEANINGS
from learndyn.studies.references import PAPERS
from learndyn.theory.registry import THEORIES

yaml = pytest.importorskip("yaml")
FILE = pathlib.Path(__file__).parents[2] / "CITATION.cff"


@pytest.mark.skipif(not FILE.exists(), reason="not a checkout")
def test_the_citation_file_has_the_version_and_every_paper():
    content = yaml.safe_load(FILE.read_text("utf-8"))
    assert content["cff-version"] == "1.2.0" and content["version"] == ld.__version__
    assert content["authors"] == [{"name": "The learndyn developers"}]
    named = lambda who: who.get("name") or f"{who['family-names']}, {who['given-names']}"
    found = [
        (" and ".join(map(named, each["authors"])), each["title"], each["year"], each["notes"])
        for each in content["references"]
    ]
    assert found == [(p.authors, p.title, p.year, p.venue) for p in PAPERS.values()]


@pytest.mark.skipif(not FILE.exists(), reason="not a checkout")
def test_the_page_on_studies_has_every_paper():
    page = (FILE.parent / "docs" / "studies.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.M))
    assert list(rows) == list(PAPERS)
    for name, paper in PAPERS.items():
        first = paper.authors.split(",")[0].split(" ")[0]
        assert rows[name].startswith(first) and f"({paper.year}): {paper.title}. " in rows[name]


def test_what_a_summary_refers_to_can_be_cited():
    assert {source.split(",")[0] for _, _, source in MEANINGS.values()} <= set(PAPERS)


@pytest.mark.parametrize("kind", THEORIES, ids=lambda kind: kind.name)
def test_what_a_theory_refers_to_can_be_cited(kind):
    references = kind.reference if isinstance(kind.reference, tuple) else (kind.reference,)
    assert references and {each.paper for each in references} <= set(PAPERS)
