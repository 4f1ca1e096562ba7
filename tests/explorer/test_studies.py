"""Studies: the list, what is kept of one, and running its quick preset."""

import dataclasses
import json
import pathlib
import threading
import time

import numpy as np
import pytest

import learndyn as ld
from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES
from learndyn.explorer.pages.base import Training
from learndyn.studies import registry

STUDIES = PAGES["studies"]
SECONDS = 120.0  # a study that goes on is found by this
CLAIMS = {
    "tally": {"claim": {"holds": 1, "fails": 1, "open": 0}, "erratum": {"holds": 1}},
    "preset": "paper",
    "claims": [
        {"status": "holds", "kind": "claim", "statement": "it falls", "source": "Eq. 3",
         "expected": 1.0, "measured": 1.2345678, "tolerance": 0.5},
        {"status": "fails", "kind": "claim", "statement": "it rises", "listed": "too small"},
        {"status": "holds", "kind": "erratum", "statement": "a factor 2"},
    ],
}  # fmt: skip


@pytest.fixture
def folders(tmp_path):
    kept = tmp_path / "bocchi2026escape" / "equations"
    kept.mkdir(parents=True)
    (kept / "claims.json").write_text(json.dumps(CLAIMS))
    (kept / "figure.png").write_bytes(b"\x89PNG")
    table = [{"name": "it falls", "held": 19, "count": 20, "rate": 0.95, "verdict": "as promised"}]
    (kept / "replication.json").write_text(json.dumps({"preset": "quick", "table": table}))
    damaged = tmp_path / "bocchi2026escape" / "fig1"
    damaged.mkdir()
    (damaged / "claims.json").write_text("[" * 100_000)
    return {"results": str(tmp_path)}


def shown(folders, **values):
    return STUDIES.show({**starts(STUDIES.controls), **values}, folders)


def listed(folders, **values):
    return [row[0] for row in shown(folders, **values).tables[0].rows]


def test_studies_are_found_by_paper_verdict_and_words(folders):
    everything = listed(folders)
    assert len(everything) > 90
    assert all(n.startswith("saad1995online/") for n in listed(folders, paper="saad1995online"))
    assert listed(folders, verdict="a claim fails") == ["bocchi2026escape/equations"]
    assert listed(folders, verdict="no claim fails") == []
    assert len(listed(folders, verdict="not kept")) == len(everything) - 1
    assert "saad1995online/plateau" in listed(folders, search="PLATEAU symmetric")
    assert listed(folders, search="no such words anywhere") == []


def test_a_kept_result_with_claims_errata_and_replication(folders):
    view = shown(folders, study="bocchi2026escape/equations")
    assert view.pictures[0].source == "/results/bocchi2026escape/equations/figure.png"
    claims, errata, replication = view.tables
    assert claims.title == "Claims" and errata.title == "Errata"
    first = ("holds", "it falls", "Eq. 3", "1", "1.235", "0.5", "")
    assert claims.rows[0] == first and claims.rows[1][-1] == "too small"
    assert "19 of 20" in replication.rows[0]
    assert view.trains and list(view.links.values()) == [{"study": ""}]


def test_the_code_of_a_kept_result_has_its_parameters(folders, monkeypatch):
    seen = []
    monkeypatch.setattr(registry, "compute", lambda study, params, report: seen.append(params))
    paper = registry.find("bocchi2026escape/equations").PRESETS["paper"]
    program = lambda: shown(folders, study="bocchi2026escape/equations").code.partition("for ")[0]
    exec(program(), {})
    kept = pathlib.Path(folders["results"], "bocchi2026escape", "equations", "claims.json")
    (name, field) = next((k, v) for k, v in vars(paper).items() if isinstance(v, int))
    kept.write_text(json.dumps({**CLAIMS, "differs": {name: [field, field + 1]}}))
    exec(program(), {})
    assert seen == [paper, dataclasses.replace(paper, **{name: field + 1})]


def test_kept_files_are_saved_as_they_are(folders):
    asked = lambda study: {**starts(STUDIES.controls), "study": study}
    kept = STUDIES.kept(asked("bocchi2026escape/equations"), folders)
    assert [path.name for path in kept] == ["claims.json", "figure.png"]
    assert shown(folders, study="bocchi2026escape/equations").saves
    assert not shown(folders, study="bocchi2026escape/fig2").saves
    for study in ("", "../secret", "bocchi2026escape/fig2"):
        assert STUDIES.kept(asked(study), folders) == []


@pytest.mark.parametrize("study", ["x", "../../etc/passwd", "bocchi2026escape/../x", "os/path"])
def test_other_names_are_refused(folders, study):
    for ask in (shown, lambda folders, study: train(folders, study)):
        with pytest.raises(ValueError, match=r"\Astudy: got [^\n]*; allowed is one that `learn"):
            ask(folders, study=study)


def train(folders, study, cancel=None):
    progress = []
    training = Training(print, progress.append, cancel or threading.Event())
    return STUDIES.train({**starts(STUDIES.controls), "study": study}, training, folders), progress


def test_a_study_runs_and_shows_its_figure(folders):
    result, _ = train(folders, "worschech2024scaling/fig7")
    assert result.verdict == "no claim fails" and "fails 0" in result.reason
    assert result.view.pictures[0].source.startswith("data:image/png;base64,")
    assert result.view.tables and result.view.code
    names = {}
    code = result.view.code.replace('"figure.png"', "__import__('io').BytesIO(), format='png'")
    exec(code, names)
    for name, values in result.records["data"].data_vars.items():
        np.testing.assert_allclose(names["data"][name], values, rtol=1e-6)


def test_a_study_ends_where_it_tells_how_far_it_is(folders, monkeypatch):
    """Not only where it calls what can be cancelled."""
    told, cancel, ended = [], threading.Event(), threading.Event()

    def compute(study, params, report):
        try:
            while len(told) < 1000:
                time.sleep(0.01)
                report(0.5)
                told.append(cancel.set())
        finally:
            ended.set()

    monkeypatch.setattr(registry, "compute", compute)
    with pytest.raises(ld.Cancelled):
        train(folders, "worschech2024scaling/fig7", cancel)
    assert ended.wait(SECONDS) and 0 < len(told) < 1000


def test_a_study_that_nobody_waits_for_ends(folders):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(ld.Cancelled):
        train(folders, "worschech2024scaling/fig7", cancel)
