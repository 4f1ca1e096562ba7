"""Results are kept if they come from a clean commit, also where that was only stated."""

import json
import pathlib

import pytest

from learndyn.records import commit, save, tree, tree_of
from learndyn.studies import keeping, registry, results

STUDY = "bocchi2026escape/fig5"
HEAD = commit(results.PACKAGE).removesuffix("-dirty")
CHECKOUT = pathlib.Path(__file__).parents[2] / ".git"


@pytest.fixture
def run(tmp_path):
    def write(**changes):
        content = {"study": STUDY, "seconds": 1.0, "commit": "0123456789ab"} | changes
        (tmp_path / "claims.json").write_text(json.dumps(content))
        (tmp_path / "figure.png").write_bytes(b"png")
        return tmp_path

    return write


def test_a_run_of_a_clean_commit_is_kept(run, tmp_path):
    kept = keeping.keep(run(), tmp_path / "kept")
    assert sorted(path.name for path in kept.iterdir()) == ["claims.json", "figure.png"]


@pytest.mark.parametrize(
    "changes",
    [
        {"commit": "0123456789ab-dirty"},
        {"commit": ""},
        {"parts": [{"commit": "0123456789ab"}, {"commit": "0123456789ab-dirty"}]},
        {"tree": 40 * "0"},
        {"parts": [{"commit": "0123456789ab", "tree": 40 * "0"}]},
    ],
)
def test_others_are_not(run, tmp_path, changes):
    with pytest.raises(ValueError, match="allowed is a run of a clean commit"):
        keeping.keep(run(**changes), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


@pytest.mark.skipif(not CHECKOUT.exists(), reason="not a checkout")
def test_a_stated_commit_is_checked_by_its_files(run, tmp_path):
    own = tree_of(HEAD, results.PACKAGE)
    keeping.keep(run(commit=HEAD, tree=own), tmp_path / "kept")
    with pytest.raises(ValueError, match="not the files of that commit"):
        keeping.keep(run(commit=HEAD, tree=own[::-1]), tmp_path / "kept")


def test_a_commit_can_be_stated(monkeypatch):
    monkeypatch.setenv(results.COMMIT, "0123456789ab")
    origin = results.describe(STUDY, "quick", *2 * [_params()])
    assert origin["commit"] == "0123456789ab" and origin["tree"] == tree(results.PACKAGE)
    monkeypatch.delenv(results.COMMIT)
    origin = results.describe(STUDY, "quick", *2 * [_params()])
    assert origin["commit"] == commit(results.PACKAGE, of=".") and "tree" not in origin


def _params():
    return registry.find(STUDY).PRESETS["quick"]


def test_a_figure_is_drawn_anew_from_the_data_that_are_kept(run, tmp_path):
    data = registry.compute(registry.find(STUDY), _params(), lambda done: None)
    target = tmp_path / STUDY
    with pytest.raises(ValueError, match=r"has no data\.nc; allowed is a result with its data"):
        keeping.redraw(tmp_path, STUDY)
    target.mkdir(parents=True)
    save(data, target / "data.nc")
    before = (target / "data.nc").read_bytes()
    assert keeping.redraw(tmp_path, STUDY) == target
    assert (target / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (target / "data.nc").read_bytes() == before
