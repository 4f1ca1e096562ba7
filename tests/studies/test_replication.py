"""Fresh keys: how often claims hold, what is kept, and what the exit code says."""

import dataclasses
import json
import types

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from learndyn.cli.app import app
from learndyn.plotting import panels
from learndyn.studies import registry, replication, results
from learndyn.studies.claims import claim


@dataclasses.dataclass(frozen=True)
class Params:
    bound: float = 1.0
    key: int = 0


def compute(params, report):
    computed.append(params.key)
    report(1.0)
    if params.key in interrupting:
        raise KeyboardInterrupt
    if params.key == 5000:
        raise ValueError("a singular draw\nof the fifth key")
    value = np.random.default_rng(params.key).standard_normal()
    return xr.Dataset({"value": value}, attrs={"bound": params.bound})


def check(data):
    value, bound = abs(float(data["value"])), data.attrs["bound"]
    return [
        claim(f"it is small (here {value:.3f})", "Eq. 1", because="normal law", rate=0.68).at_most(
            value, bound
        ),
        claim("it is tiny", "Eq. 2", because="hope").at_most(value, 1e-3),
        claim("unknown", "Eq. 3").open("no data", value),
    ]


def draw(data):
    figure, (axis,) = panels(1)
    axis.set_xlabel("nothing")
    return figure


computed: list[int] = []
interrupting: dict[int, bool] = {}


@pytest.fixture
def study(monkeypatch):
    """A study of one number; what is imported by name is replaced, no module is written."""
    presets = {"quick": Params(), "paper": Params()}
    made = types.SimpleNamespace(TITLE="t", CLAIMS={}, PRESETS=presets, FAILS={})
    made.compute, made.check, made.draw = compute, check, draw
    monkeypatch.setattr(registry, "find", lambda name: made)
    monkeypatch.setattr(results, "source_hash", lambda name: "abc")
    computed.clear()
    return made


def learndyn(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def kept(folder):
    return json.loads((folder / replication.FILE).read_text("utf-8"))


def test_how_often_claims_hold(study, tmp_path):
    said = learndyn("replicate", "p/f", "--keys", 4, "--out", tmp_path)
    assert said.exit_code == 1 and "it is tiny" in said.stdout
    assert computed == [1000, 2000, 3000, 4000]
    first, second, third = (replication.Row(**row) for row in kept(tmp_path)["table"])
    held = sum(abs(np.random.default_rng(k).standard_normal()) <= 1 for k in computed)
    assert (first.name, first.held, first.count) == ("it is small", held, 4)
    assert first.verdict == "as promised" and first.rate == 0.68
    assert second.verdict == "below" and second.held == 0 and second.high < 1
    assert third.verdict == "undecided" and third.count == 0


def test_listed_claims_may_fail_at_fresh_keys(study, tmp_path):
    study.FAILS = {"quick": {"it is tiny": "it is not"}}
    said = learndyn("replicate", "p/f", "--keys", 3, "--out", tmp_path)
    assert said.exit_code == 0 and "below, listed" in said.stdout


def test_a_second_call_runs_only_what_is_missing(study, tmp_path):
    learndyn("replicate", "p/f", "--keys", 2, "--out", tmp_path)
    learndyn("replicate", "p/f", "--keys", 3, "--out", tmp_path)
    assert computed == [1000, 2000, 3000] and len(kept(tmp_path)["runs"]) == 3
    learndyn("replicate", "p/f", "--keys", 1, "--set", "bound=2", "--out", tmp_path)
    assert computed[3:] == [1000] and list(kept(tmp_path)["runs"]) == ["1000"]
    assert kept(tmp_path)["differs"] == {"bound": [1.0, 2.0]}


def test_a_key_at_which_the_study_breaks_off_holds_nothing(study, tmp_path):
    said = learndyn("replicate", "p/f", "--keys", 2, "--first", 4000, "--out", tmp_path)
    assert "key 5000 failed: ValueError: a singular draw" in said.stdout
    assert [row["count"] for row in kept(tmp_path)["table"]] == [2, 2, 1]


def test_replication_without_any_valid_key_is_bad_input(study, tmp_path):
    said = learndyn("replicate", "p/f", "--keys", 1, "--first", 5000, "--out", tmp_path)
    assert isinstance(said.exception, ValueError)
    assert str(said.exception) == "p/f: every key failed; key 5000: ValueError: a singular draw"
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_keeps_what_was_finished(study, tmp_path, monkeypatch):
    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    monkeypatch.setitem(interrupting, 3000, True)
    said = learndyn("replicate", "p/f", "--out", tmp_path)
    assert said.exit_code == 130 and "interrupted; 2 keys are in" in said.stderr
    assert list(kept(tmp_path)["runs"]) == ["1000", "2000"]
    assert [path.name for path in tmp_path.iterdir()] == [replication.FILE]


def test_a_study_without_randomness_is_not_replicated(tmp_path):
    said = learndyn("replicate", "worschech2024scaling/fig13", "--out", tmp_path / "out")
    assert said.exit_code == 0 and "fig13 is not random" in said.stdout
    assert len(said.stdout.strip().splitlines()) == 1 and list(tmp_path.iterdir()) == []


def test_keys_that_a_preset_has_are_refused(study):
    with pytest.raises(ValueError, match="--first: got 0; allowed are keys that no preset has"):
        replication.keys_of(study, 3, 0)


@pytest.mark.parametrize(
    ("fails", "settings", "code"),
    [
        ({}, [], 1),
        ({"it is tiny": "it is not"}, [], 0),
        ({"it is tiny": "it is not", "it is small": "nor this"}, [], 1),
        ({"it is tiny": "it is not", "it is small": "nor this"}, ["--key", "1"], 0),
    ],
)
def test_exit_code_of_a_run(study, tmp_path, fails, settings, code):
    study.FAILS = {"quick": fails}
    said = learndyn("run", "p/f", "--out", tmp_path, *settings)
    assert said.exit_code == code, said.stdout
    found = json.loads((tmp_path / "claims.json").read_text("utf-8"))
    rows = {row["name"]: row for row in found["claims"]}
    assert rows["it is tiny"]["status"] == "fails"
    assert rows["it is tiny"].get("listed") == fails.get("it is tiny")
    assert found["tally"] == {"claim": {"holds": 1, "fails": 1, "open": 1}}
    assert "tolerance" not in rows["unknown"] and rows["unknown"]["why_open"] == "no data"
    assert ("listed as failing and does not fail" in said.stdout) == (len(fails) == 2 and code)


def test_a_claim_that_promises_every_key_and_depends_on_it_is_named(study, tmp_path):
    said = learndyn("replicate", "p/f", "--keys", 3, "--out", tmp_path)
    named = "promises to hold at every key, but depends on it: "
    assert f"{named}it is tiny" in said.stdout and f"{named}it is small" not in said.stdout
    runs = kept(tmp_path)["runs"]
    seen = [abs(np.random.default_rng(int(key)).standard_normal()) for key in runs]
    measured = [run["claims"]["it is tiny"]["measured"] for run in runs.values()]
    np.testing.assert_allclose(measured, seen)


@pytest.mark.parametrize(("second", "varies"), [(1.01, False), (1.02, True)])
def test_values_vary_if_they_change_by_a_tenth_of_what_would_turn_the_verdict(second, varies):
    row = {"rate": 1.0, "kind": "claim", "status": "holds", "slack": 0.1 + 1e-9}
    runs = {str(v): {"claims": {"a": row | {"measured": v}}} for v in (1.0, second)}
    assert replication.varying(runs) == ["a"] * varies
    chance = {k: {"claims": {"a": run["claims"]["a"] | {"rate": 0.9}}} for k, run in runs.items()}
    assert replication.varying(chance) == []
