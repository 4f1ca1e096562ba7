"""A claim: one sentence of a paper made measurable."""

import json
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

Relation = Literal["=", "≤", "≥"]


class Claim(NamedTuple):
    """One sentence, what it expects, what was measured, and whether it holds.

    Attributes:
        statement: the sentence.
        source: its equation, figure or section.
        relation: between measured and expected.
        expected: the value; for an erratum the corrected one.
        measured: what came out here.
        tolerance: by how much the relation may be missed.
        tolerance_from: where the tolerance comes from: theory, never the measurement.
        kind: "claim" of the paper, "erratum" where its print is proven wrong, "finding"
            where the statement is our own.
        printed: for an erratum, what the paper prints.
        why_open: for a claim that we could neither reproduce nor refute, why.
    """

    statement: str
    source: str
    relation: Relation
    expected: float
    measured: float
    tolerance: float
    tolerance_from: str
    kind: Literal["claim", "erratum", "finding"] = "claim"
    printed: str = ""
    why_open: str = ""

    @property
    def holds(self) -> bool:
        """Whether the measured value stands in the stated relation."""
        excess = float(self.measured) - float(self.expected)
        if math.isnan(excess):
            return False
        miss = {"=": abs(excess), "≤": excess, "≥": -excess}[self.relation]
        return bool(miss <= self.tolerance)

    @property
    def status(self) -> Literal["holds", "fails", "open"]:
        """Open claims are listed apart: neither hidden nor counted as held."""
        return "open" if self.why_open else "holds" if self.holds else "fails"


def to_json(claims: Sequence[Claim]) -> str:
    """The claims as JSON text, one object each."""
    rows = [{**claim._asdict(), "status": claim.status} for claim in claims]
    return json.dumps(rows, indent=2, ensure_ascii=False, default=float)
