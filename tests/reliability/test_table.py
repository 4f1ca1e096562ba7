"""The tests that docs/reliability.md names exist, and are slow where it says so."""

import pathlib
import re

TESTS = pathlib.Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"


def test_every_named_test_exists():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`( \(slow\))?", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, name, slow in named:
        text = (TESTS / file).read_text(encoding="utf-8")
        before, found, _ = text.partition(f"def {name}(")
        assert found, f"{file}::{name}"
        decorators = before.rpartition("\n\n\n")[2]
        marked = "mark.slow" in decorators or "pytestmark = pytest.mark.slow" in text
        assert marked == bool(slow), f"{file}::{name} is {'' if marked else 'not '}slow"
