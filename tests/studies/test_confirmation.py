"""A kept result stands if the quick preset gives the same numbers, whatever its study's words."""

import dataclasses
import json

import pytest

from learndyn.studies import confirmation, hashing, registry
from learndyn.studies.claims import claim

STUDY = "bocchi2026escape/fig5"


def claims(name="a claim", measured=1.0):
    first = claim(name, "Fig. 1", because="chance", rate=0.9).equals(measured, 1.0, within=0.1)
    return [first, claim("undecided", "Fig. 1").open("too few runs")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A kept result of another source than today's, and the quick preset of that source."""
    write = lambda name, content: (tmp_path / name).write_text(json.dumps(content))
    write("claims.json", {"source_hash": "then"})
    write("quick.json", {"source_hash": "then", "claims": confirmation._rows(claims())})
    monkeypatch.setattr(confirmation, "_quick", lambda *_: claims("the same claim", 1 + 1e-9))
    # A commit with changes, at which results are confirmed again whenever one asks.
    monkeypatch.setattr(confirmation, "stated_commit", lambda folder: "abc-dirty")
    return tmp_path


def stands(folder):
    return confirmation.standing(folder, STUDY, {"source_hash": "then"}).current


def test_the_same_numbers_confirm_a_result_and_new_names_are_kept(folder):
    assert not stands(folder)
    assert confirmation.confirm(folder, STUDY).startswith("confirmed 2")
    assert stands(folder)
    assert confirmation.new_names(folder) == {"a claim": "the same claim"}


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (claims(measured=1.02), "measured of 'a claim' was 1.0 and is 1.02"),
        (claims(measured=2.0), "status of 'a claim' was holds and is fails"),
        (claims()[:1], "'undecided' is no longer there"),
        ([*claims(), claim("more", "Fig. 2").open("no data")], "'more' is new"),
    ],
)
def test_other_numbers_do_not_and_are_named(folder, monkeypatch, now, why):
    monkeypatch.setattr(confirmation, "_quick", lambda *_: now)
    words = "study or library changed; claims of the quick preset that differ: 1"
    assert confirmation.confirm(folder, STUDY) == f"{words}; {why}"
    assert not stands(folder)
    found = confirmation.standing(folder, STUDY, {"source_hash": "then"})
    assert found.text == words and list(found.changed.values()) == [why]


def test_a_change_far_from_the_threshold_is_ignored(folder, monkeypatch):
    """The tolerance is 0.1, so that a tenth of the distance to its end is 0.01."""
    for measured, same in ((1.009, True), (0.991, True), (1.011, False)):
        monkeypatch.setattr(confirmation, "_quick", lambda *_, m=measured: claims(measured=m))
        confirmation.confirm(folder, STUDY)
        assert stands(folder) is same


def test_a_confirmed_result_whose_preset_has_other_sizes_since_is_not_current(folder):
    confirmation.confirm(folder, STUDY)
    own = json.loads(json.dumps(dataclasses.asdict(registry.find(STUDY).PRESETS["paper"])))
    name = next(name for name in own if name != "key")
    standing = lambda **fields: confirmation.standing(
        folder, STUDY, {"source_hash": "then", "preset": "paper", "params": own} | fields
    )
    assert standing().current
    changed = own | {name: 3}
    assert not standing(params=changed).current
    words = f"sizes of the preset changed: {name} = 3, now {own[name]}"
    assert standing(params=changed).text == words
    # What was set on purpose is said elsewhere, and a parameter that is new is no change of size.
    assert standing(params=changed, differs={name: [own[name], 0]}).current
    assert standing(params={"key": 5}).current


def test_another_library_is_told_from_another_study(folder, monkeypatch):
    now = hashing.source_hash(STUDY)
    (folder / "claims.json").write_text(json.dumps({"source_hash": now}))
    quick = {"source_hash": now, "claims": confirmation._rows(claims())}
    (folder / "quick.json").write_text(json.dumps(quick))
    monkeypatch.setattr(confirmation, "_quick", lambda *_: claims(measured=1.05))
    assert confirmation.confirm(folder, STUDY).startswith(
        "library changed; claims of the quick preset that differ: 1"
    )
    found = confirmation.standing(folder, STUDY, {"source_hash": now})
    assert found.current and found.text.startswith("library changed")


def test_a_clean_commit_is_confirmed_once(folder, monkeypatch):
    monkeypatch.setattr(confirmation, "stated_commit", lambda folder: "abc")
    confirmation.confirm(folder, STUDY)
    monkeypatch.setattr(confirmation, "_quick", lambda *_: pytest.fail("computed again"))
    assert confirmation.confirm(folder, STUDY).startswith("confirmed 2")
    monkeypatch.setattr(confirmation, "stated_commit", lambda folder: "abd")
    monkeypatch.setattr(confirmation, "_quick", lambda *_: claims(measured=1.05))
    assert confirmation.confirm(folder, STUDY).startswith("study or library changed")


def test_a_result_is_confirmed_for_one_source_only(folder, monkeypatch):
    confirmation.confirm(folder, STUDY)
    monkeypatch.setattr(confirmation, "source_hash", lambda *_: "later")
    assert not stands(folder)


def test_the_quick_preset_of_another_source_confirms_nothing(folder):
    (folder / "quick.json").write_text(json.dumps({"source_hash": "other", "claims": []}))
    assert "different sources" in confirmation.confirm(folder, STUDY)
    (folder / "quick.json").unlink()
    assert "no quick.json" in confirmation.confirm(folder, STUDY)


def test_a_current_result_gets_its_quick_preset(folder):
    (folder / "quick.json").unlink()
    now = {"source_hash": hashing.source_hash(STUDY)}
    (folder / "claims.json").write_text(json.dumps(now))
    assert confirmation.confirm(folder, STUDY) == "quick.json written"
    assert json.loads((folder / "quick.json").read_text())["claims"][1]["tolerance"] is None
    assert confirmation.confirm(folder, STUDY).startswith("confirmed 2")


def test_a_study_that_raises_is_not_confirmed(folder, monkeypatch):
    def broken(study, generator):
        raise TypeError("no such\naxis")

    monkeypatch.setattr(confirmation, "_quick", broken)
    assert confirmation.confirm(folder, STUDY) == "not confirmed: TypeError: no such axis"
    assert not stands(folder)


def test_where_there_is_no_git_the_quick_preset_names_the_stated_commit(tmp_path, monkeypatch):
    (tmp_path / "claims.json").write_text(json.dumps({"source_hash": hashing.source_hash(STUDY)}))
    monkeypatch.setattr(confirmation, "_quick", lambda *_: claims())
    monkeypatch.setenv("LEARNDYN_COMMIT", "0123456789ab")
    assert confirmation.confirm(tmp_path, STUDY) == "quick.json written"
    assert json.loads((tmp_path / "quick.json").read_text())["commit"] == "0123456789ab"
