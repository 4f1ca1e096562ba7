"""docs/reliability.md: its tests exist, are slow where it says so, and look for what was seen."""

import pathlib
import re

TESTS = pathlib.Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = r"`([\w/]+\.py)::(\w+)`( \(slow\))?"


def test_every_named_test_exists():
    named = re.findall(NAMED, PAGE)
    assert len(named) > 50
    for file, name, slow in named:
        text = (TESTS / file).read_text(encoding="utf-8")
        before, found, _ = text.partition(f"def {name}(")
        assert found, f"{file}::{name}"
        decorators = before.rpartition("\n\n\n")[2]
        marked = "mark.slow" in decorators or "pytestmark = pytest.mark.slow" in text
        assert marked == bool(slow), f"{file}::{name} is {'' if marked else 'not '}slow"


def test_every_test_of_this_folder_is_on_the_page():
    on_page = {(file, name) for file, name, _ in re.findall(NAMED, PAGE)}
    for path in pathlib.Path(__file__).parent.glob("test_*.py"):
        if path != pathlib.Path(__file__):
            for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M):
                assert (f"reliability/{path.name}", name) in on_page, name


def test_what_was_seen_is_what_the_tests_look_for():
    rows = [line.split(" | ") for line in PAGE.splitlines() if "::test_" in line]
    seen = [(row[2], row[3]) for row in rows if len(row) == 4]
    assert len(seen) > 35
    for words, tests in seen:
        files = {file for file, _, _ in re.findall(NAMED, tests)}
        texts = "".join((TESTS / file).read_text(encoding="utf-8") for file in files)
        for word in re.findall(r"`([^`]+)`", words):
            assert word in texts.replace("\\", ""), f"{word!r} is not in {sorted(files)}"
