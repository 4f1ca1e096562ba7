"""Kept results: the README is what the files say, and no result ages unseen."""

import json
import pathlib

import pytest

from learndyn.studies import registry, results, summary

KEPT = pathlib.Path(__file__).parents[2] / "docs" / "results"

# Kept before the source of their study was recorded. A result that is made anew is taken off;
# none comes in: where a study changes, its result is made anew, or goes.
OLD = {
    "worschech2024scaling/fig1",
    "worschech2024scaling/fig3",
    "worschech2024scaling/fig5",
    "worschech2024scaling/fig6",
    "worschech2024scaling/fig15",
}


@pytest.mark.skipif(not KEPT.exists(), reason="not a checkout")
def test_no_kept_result_is_older_than_its_study_but_the_known_ones():
    old = set(summary.older(KEPT))
    assert not old - OLD, "older than its study: make it anew, or remove it"
    assert not OLD - old, "made anew: take it off the list"


@pytest.mark.skipif(not KEPT.exists(), reason="not a checkout")
def test_the_readme_is_what_the_files_say():
    text = (KEPT / "README.md").read_text("utf-8")
    assert text == summary.written(KEPT), "`learndyn results docs/results` writes it"


@pytest.mark.skipif(not KEPT.exists(), reason="not a checkout")
def test_kept_results_are_of_studies_and_tallied():
    for name, result in summary.kept(KEPT).items():
        assert result["study"] == name and name in set(registry.names())
        for kind, counts in result["tally"].items():
            rows = [row["status"] for row in result["claims"] if row["kind"] == kind]
            assert counts == {status: rows.count(status) for status in counts}
            assert sum(counts.values()) == len(rows)


def test_a_summary_has_all_that_was_kept(tmp_path):
    folder = tmp_path / "bocchi2026escape" / "fig5"
    folder.mkdir(parents=True)
    claims = [
        {"name": "a", "kind": "claim", "status": "fails", "listed": "why it fails"},
        {"name": "b", "kind": "theorem", "status": "holds"},
    ]
    tally = {
        "claim": {"holds": 0, "fails": 1, "open": 0},
        "theorem": {"holds": 1, "fails": 0, "open": 0},
    }
    hashed = results.source_hash("bocchi2026escape/fig5")
    result = {"study": "bocchi2026escape/fig5", "preset": "paper", "differs": {"key": [0, [1, 2]]}}
    result |= {"source_hash": hashed, "tally": tally, "claims": claims, "date": "2026-01-01"}
    (folder / "claims.json").write_text(json.dumps(result))
    row = {"name": "|a|", "kind": "claim", "held": 1, "count": 2, "low": 0.1, "high": 0.9}
    row |= {"rate": 0.99, "verdict": "below"}
    kept = {"preset": "quick", "runs": {"1": {}, "2": {}}, "table": [row]}
    (folder / "replication.json").write_text(json.dumps(kept))
    (folder / "notes.md").write_text("a remark\n")
    text = summary.written(tmp_path)
    for said in (
        "| 0 / 1 / 0 |  |  | 1 / 0 / 0 | not recorded | 2026-01-01 | not recorded | "
        "key = 1, 2 for 0 | current |",
        "- bocchi2026escape/fig5, claim: a. *why it fails*",
        r"| \|a\| | claim | 1/2 | 0.100 … 0.900 | 0.99 | below |",
        "bocchi2026escape/fig5, preset quick, 2 keys, older than its study:",
        "- bocchi2026escape/fig5: a remark",
    ):
        assert said in text
    assert summary.older(tmp_path) == []
    (folder / "claims.json").write_text(json.dumps(result | {"source_hash": "other"}))
    assert "older than its study |" in summary.written(tmp_path)


def test_the_hash_is_of_all_that_a_study_imports_from_its_folder():
    folder = pathlib.Path(registry.studies.__path__[0]) / "worschech2024scaling"
    files = results._imported(folder, "fig3.py", set())
    assert {"fig3.py", "_linear.py", "_model.py"} == files
