"""Kept results: the README is what the files say, and no result ages unseen."""

import json
import pathlib

import pytest

from learndyn.cli.results import write_results
from learndyn.studies import hashing, missing, registry, summary

KEPT = pathlib.Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.skipif(not KEPT.exists(), reason="not a checkout")
def test_what_has_no_current_clean_result_at_the_papers_size_is_listed_with_the_reason():
    if summary.known_commits(KEPT) is None:
        pytest.skip("no history")
    unlisted = set(summary.unsettled(KEPT)) - set(missing.reasons(KEPT))
    assert not unlisted, "make it anew from a commit, or say why not in missing.toml"


@pytest.mark.skipif(not KEPT.exists(), reason="not a checkout")
def test_what_has_no_current_replication_is_listed_with_the_reason():
    if summary.known_commits(KEPT) is None:
        pytest.skip("no history")
    without = set(summary.unreplicated(KEPT))
    listed = set(missing.reasons(KEPT, missing.REPLICATIONS))
    assert not without - listed, "`learndyn replicate` it, or say why not in unreplicated.toml"
    assert not listed - without, "it is replicated: its entry in unreplicated.toml goes"


def test_a_replication_counts_if_it_has_enough_keys_and_is_current_and_clean():
    whole = {"preset": "quick", "differs": {}, "runs": dict.fromkeys(range(missing.KEYS))}
    random = {name: whole for name in missing.unreplicated({}, [], [])}
    name, *others = random
    assert "worschech2024scaling/exponents" not in random  # it has no key
    assert missing.unreplicated(random, list(random), list(random)) == []
    assert missing.unreplicated(random, others, list(random)) == [name]
    assert missing.unreplicated(random, list(random), others) == [name]
    fewer = dict.fromkeys(range(missing.KEYS - 1))
    for change in ({"preset": "paper"}, {"differs": {"runs": [5, 3]}}, {"runs": fewer}):
        altered = random | {name: whole | change}
        assert missing.unreplicated(altered, list(random), list(random)) == [name]


def test_a_replication_is_shown_without_another_result(tmp_path):
    folder = tmp_path / "bocchi2026escape" / "fig5"
    folder.mkdir(parents=True)
    hashed = hashing.source_hash("bocchi2026escape/fig5")
    kept = {"preset": "quick", "source_hash": hashed, "runs": {"1": {}}, "table": []}
    (folder / "replication.json").write_text(json.dumps(kept))
    assert "bocchi2026escape/fig5, preset quick, 1 key:" in summary.written(tmp_path)
    text = '[bocchi2026escape.fig5]\n"20 keys" = "an hour"\n'
    (tmp_path / missing.REPLICATIONS).write_text(text, encoding="utf-8")
    lines = summary.written(tmp_path).splitlines()
    assert lines.index("## What is not replicated") < lines.index(
        "| bocchi2026escape/fig5 | 20 keys | an hour |"
    )


def test_a_result_is_settled_if_it_is_whole_current_and_clean():
    whole = {"preset": "paper", "differs": {}}
    name, *others = list(registry.names())
    results = dict.fromkeys([name, *others], whole)
    assert missing.unsettled(results, list(results), list(results)) == []
    assert missing.unsettled(results, others, list(results)) == [name]
    assert missing.unsettled(results, list(results), others) == [name]
    for altered in (whole | {"preset": "quick"}, whole | {"differs": {"seeds": [5, 3]}}):
        assert missing.unsettled(results | {name: altered}, list(results), list(results)) == [name]
    del results[name]
    assert missing.unsettled(results, list(results), list(results)) == [name]


def test_reasons_are_shown_and_must_name_studies(tmp_path):
    path = tmp_path / missing.FILE
    assert missing.reasons(tmp_path) == {} and "What is missing" not in summary.written(tmp_path)
    path.write_text('[bocchi2026escape.fig1]\n"N = 10⁵" = "nine hours"\n', encoding="utf-8")
    row = "| bocchi2026escape/fig1 | N = 10⁵ | nine hours |"
    assert row in summary.written(tmp_path).splitlines()
    for text, why in {
        '[bocchi2026escape.fig0]\na = "b"\n': "there is no study 'bocchi2026escape/fig0'",
        "[bocchi2026escape.fig1]\na = 3\n": "'bocchi2026escape/fig1' is no table of texts",
        "[bocchi2026escape.fig1]\n": "'bocchi2026escape/fig1' is no table of texts",
        'bocchi2026escape = "fig1"\n': "object has no attribute",
        "[[": "unexpected content",
    }.items():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError) as error:
            missing.reasons(tmp_path)
        assert str(error.value).startswith(f"{path}: got unexpected content (")
        assert why in str(error.value) and "\n" not in str(error.value)


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
    hashed = hashing.source_hash("bocchi2026escape/fig5")
    result = {"study": "bocchi2026escape/fig5", "preset": "paper", "differs": {"key": [0, [1, 2]]}}
    result |= {"source_hash": hashed, "tally": tally, "claims": claims, "date": "2026-01-01"}
    (folder / "claims.json").write_text(json.dumps(result))
    row = {"name": "|a|", "kind": "claim", "held": 1, "count": 2, "low": 0.1, "high": 0.9}
    row |= {"rate": 0.99, "verdict": "below"}
    kept = {"preset": "quick", "runs": {"1": {}, "2": {}}, "table": [row]}
    (folder / "replication.json").write_text(json.dumps(kept))
    (folder / "notes.md").write_text("a remark\n")
    text, differs = summary.written(tmp_path), registry.constant(result["study"], "DIFFERS")
    for said in (
        f"| 0 / 1 / 0 |  |  | 1 / 0 / 0 | not recorded | 2026-01-01 | not recorded | {differs} | "
        "key = 1, 2 for 0 | current |",
        "- bocchi2026escape/fig5, claim: a. *why it fails*",
        r"| \|a\| | claim | 1/2 | 0.100 … 0.900 | 0.99 | below |",
        "bocchi2026escape/fig5, preset quick, 2 keys, older than its study:",
        "- bocchi2026escape/fig5: a remark",
    ):
        assert said in text
    assert summary.older(tmp_path) == []
    (folder / "claims.json").write_text(json.dumps(result | {"source_hash": "other"}))
    aged = summary.written(tmp_path)
    assert "older than its study |" in aged
    assert "claim: a. *why it fails* (older than its study)\n" in aged


FOREIGN = {
    "not JSON": "{",
    "not text": b"\xff\xfe\x00",
    "a list": "[1]",
    "another object": '{"claims": "none of ours"}',
    "a tally of another kind": '{"preset": "quick", "tally": 3, "claims": []}',
    "claims of another kind": '{"preset": "quick", "tally": {}, "claims": [1]}',
    "differences of another kind": (
        '{"preset": "quick", "tally": {}, "claims": [], "differs": {"N": 3}}'
    ),
}


DAMAGED = [("claims.json", each) for each in FOREIGN]
DAMAGED += [("replication.json", each) for each in FOREIGN if "differences" not in each]


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_a_file_of_another_origin_is_named(tmp_path, name, content):
    folder = tmp_path / "paper" / "figure"
    folder.mkdir(parents=True)
    good = {"preset": "quick", "tally": {}, "claims": []}
    (folder / "claims.json").write_text(json.dumps(good))
    text = FOREIGN[content]
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError) as error:
        write_results(str(tmp_path))
    assert str(error.value).startswith(f"{folder / name}: got unexpected content (")
    assert "\n" not in str(error.value) and not (tmp_path / "README.md").exists()


@pytest.mark.parametrize("content", [b"# My project\n", b"", b"\xff\xfe", b"# Kept results\n"])
def test_only_a_readme_of_its_own_is_replaced(tmp_path, content):
    readme = tmp_path / "README.md"
    readme.write_bytes(content)
    with pytest.raises(ValueError) as error:
        write_results(str(tmp_path))
    assert str(error.value).startswith(f"{readme}: got a file written by others; allowed is one")
    assert readme.read_bytes() == content
    write_results(str(tmp_path), force=True)
    first = readme.read_bytes()
    assert first.startswith(b"# Kept results\n\nWritten by `learndyn results`")
    write_results(str(tmp_path))  # its own it replaces
    assert readme.read_bytes() == first


@pytest.mark.skipif(not KEPT.exists(), reason="not a checkout")
def test_the_kept_readme_is_known_as_its_own():
    assert summary.is_own(KEPT / "README.md")
    assert not summary.is_own(KEPT.parents[1] / "README.md")


@pytest.mark.skipif(not KEPT.exists(), reason="not a checkout")
def test_notes_that_a_study_names_are_there_and_its_own():
    for name in registry.names():
        last = (registry.find(name).__doc__ or "").rstrip().rpartition("\n")[2]
        if last.startswith("Notes: "):
            assert last == f"Notes: docs/results/{name}/notes.md."
            assert (KEPT / name / "notes.md").exists(), name


def test_notes_need_no_kept_result(tmp_path):
    folder = tmp_path / "a2024paper" / "fig1"
    folder.mkdir(parents=True)
    (folder / "notes.md").write_text("Chosen after key 0:\n\nwidths.\n")
    text = summary.written(tmp_path)
    assert "- a2024paper/fig1: Chosen after key 0:\n  \n  widths." in text
