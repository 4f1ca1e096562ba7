"""Sentences that are read from source: names, parameters, loops, and what only data tell."""

import ast

from learndyn.studies.sentences import Sentences

SOURCE = """
KINDS = {"a": "first", "b": "second"}
SAID = "growth of {}, over {:g}"

def check(data):
    said = f"{data.name}: slope"
    said += ", upper limit"
    rows = [claim(said, "Fig. 1"), claim(SAID.format("Q", 2), "Fig. 2")]
    rows += [claim(f"kind {name}: {kind}", "Fig. 3") for name, kind in KINDS.items()]
    return rows + [_one("one", "Eq. 1"), _one("two", "Eq. 2")]

def _one(which, source):
    return claim(f"{which} of them", source)
"""


def test_what_an_expression_can_say():
    written = Sentences([ast.parse(SOURCE)])
    calls = [c for c in written.calls if ast.unparse(c[0].func) == "claim"]
    found = [[row[0] for row in written.texts(call.args, inside)] for call, inside in calls]
    assert sorted(found) == sorted(
        [
            ["…: slope, upper limit"],
            ["growth of …, over …"],
            ["kind a: first", "kind b: second"],
            ["one of them", "two of them"],
        ]
    )
    together = next(written.texts(c.args, inside) for c, inside in calls if inside.name == "_one")
    assert together == [["one of them", "Eq. 1"], ["two of them", "Eq. 2"]]
