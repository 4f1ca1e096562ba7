"""A claim: one sentence made measurable, and what becomes of it.

`claim("the error falls as α to minus", "Fig. 6").equals(measured, 0.5, within=0.01, because="…")`
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

Number = float | int
Relation = Literal["=", "≤", "≥"]
Kind = Literal["claim", "erratum", "finding", "theorem"]
Status = Literal["holds", "fails", "open"]
KINDS: tuple[Kind, ...] = get_args(Kind)
STATUSES: tuple[Status, ...] = get_args(Status)
COUNTED: tuple[Kind, ...] = ("claim", "erratum", "finding")  # what a reproduction consists of
MISSED = 5  # tolerances by which a wrong print has to miss


@dataclasses.dataclass(frozen=True)
class Claim:
    """One sentence, what it expects, what was measured, and whether it holds.

    Attributes:
        statement: the sentence.
        source: its equation, figure or section.
        relation: between measured and expected.
        expected: the value; for an erratum the corrected one.
        measured: what came out here.
        tolerance: by how much the relation may be missed; None where the claim is open.
        tolerance_from: where the tolerance comes from: theory, never the measurement.
        kind: "claim" of the paper, "erratum" where its print is proven wrong, "finding" where
            the statement is our own, "theorem" where it is an identity or a proven bound, a
            check of the code.
        printed: for an erratum, what the paper prints.
        why_open: what is missing to decide, said before the measurement.
        printed_value: what the paper prints, as a number.
        rate: probability with which the tolerance promises that the claim holds, over keys.
        label: the name, where the statement does not give it.
    """

    statement: str
    source: str
    relation: Relation
    expected: Number
    measured: Number
    tolerance: Number | None
    tolerance_from: str
    kind: Kind = "claim"
    printed: str = ""
    why_open: str = ""
    printed_value: Number | None = None
    rate: Number = 1.0
    label: str = ""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind: got {self.kind!r}; allowed are {', '.join(KINDS)}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate: got {self.rate}; allowed is a probability above 0")
        if (self.kind == "erratum") != bool(self.printed):
            raise ValueError(f"printed: got {self.printed!r}; allowed is text for an erratum only")
        if (self.tolerance is None) != bool(self.why_open):
            got = f"tolerance: got {self.tolerance} with why_open {self.why_open!r}"
            raise ValueError(f"{got}; allowed is a number, or None for an open claim")

    @property
    def name(self) -> str:
        """The same at every key: the label, or the statement without remarks that hold numbers.

        Numbers outside parentheses stay, since they say which case it is.
        """
        return self.label or re.sub(r"\s+\([^()]*\d[^()]*\)", "", self.statement)

    @property
    def holds(self) -> bool:
        """Whether the measured value stands in the stated relation, and a wrong print does not."""
        return self._stands(self.measured) and self.print_misses

    @property
    def print_misses(self) -> bool:
        """Whether the measurement excludes the printed value, where that is a number."""
        if self.printed_value is None or self.tolerance is None:
            return True
        distance = abs(float(self.printed_value) - float(self.measured))
        return distance >= MISSED * self.tolerance and not self._stands(self.printed_value)

    def _stands(self, value: Number) -> bool:
        excess = float(value) - float(self.expected)
        if self.tolerance is None or math.isnan(excess):
            return False
        miss = {"=": abs(excess), "≤": excess, "≥": -excess}[self.relation]
        return bool(miss <= self.tolerance)

    @property
    def status(self) -> Status:
        """Open claims are listed apart: neither hidden nor counted as held."""
        return "open" if self.why_open else "holds" if self.holds else "fails"

    def open(self, why: str) -> "Claim":
        """The same, undecided: it has no tolerance."""
        return dataclasses.replace(self, why_open=why, tolerance=None, tolerance_from="")


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A claim without its numbers; the methods add them."""

    statement: str
    source: str
    kind: Kind = "claim"
    name: str = ""
    printed: str = ""
    printed_value: Number | None = None

    def erratum(self, printed: str, value: Number | None = None) -> "Sentence":
        """The paper's print is wrong: what it prints, in words and, where it is one, a number."""
        return dataclasses.replace(self, kind="erratum", printed=printed, printed_value=value)

    def equals(self, measured, expected, *, within, because: str, rate: Number = 1.0) -> Claim:
        """Measured is expected, but for a tolerance."""
        return self._claim("=", measured, expected, float(within), because, rate=rate)

    def at_most(self, measured, bound, *, within=0.0, because: str, rate: Number = 1.0) -> Claim:
        """Measured is not above a bound."""
        return self._claim("≤", measured, bound, float(within), because, rate=rate)

    def at_least(self, measured, bound, *, within=0.0, because: str, rate: Number = 1.0) -> Claim:
        """Measured is not below a bound."""
        return self._claim("≥", measured, bound, float(within), because, rate=rate)

    def open(self, why: str, measured=math.nan, expected=math.nan) -> Claim:
        """Neither reproduced nor refuted: what is missing, and what was seen all the same."""
        return self._claim("=", measured, expected, None, "", why_open=why)

    def _claim(self, relation: Relation, measured, expected, tolerance, because, **more) -> Claim:
        given = {"printed": self.printed, "printed_value": self.printed_value, "label": self.name}
        values = float(expected), float(measured), tolerance, because
        return Claim(
            self.statement, self.source, relation, *values, kind=self.kind, **given, **more
        )


def claim(statement: str, source: str, *, kind: Kind = "claim", name: str = "") -> Sentence:
    """Begins a claim; `equals`, `at_most`, `at_least` or `open` end it.

    Args:
        statement: the sentence.
        source: its equation, figure or section.
        kind: whose it is; an erratum is made by `erratum`.
        name: what to call it, the same at every key, where the statement holds measured numbers.

    Returns:
        The sentence.
    """
    return Sentence(statement, source, kind, name)


def tally(claims: Sequence[Claim]) -> dict[str, dict[str, int]]:
    """How many hold, fail and are open, by kind; kinds that do not occur are left out."""
    of = lambda kind: [claim.status for claim in claims if claim.kind == kind]
    return {
        kind: {status: of(kind).count(status) for status in STATUSES} for kind in KINDS if of(kind)
    }


def complaints(claims: Sequence[Claim], listed: Mapping[str, str], *, own: bool) -> list[str]:
    """What is wrong with the verdicts of a run; nothing, and it has come out as the study says.

    Args:
        claims: the claims of one run.
        listed: name → reason, of claims known to fail.
        own: whether the run had the preset's own parameters, key included. Elsewhere a claim
            listed as failing may hold by chance.

    Returns:
        A line for each failing claim that is not listed, for each listed one that does not
        fail, and for each that is ours: only what a paper says may be listed.
    """
    failing = {claim.name for claim in claims if claim.status == "fails"}
    ours = {claim.name for claim in claims if claim.kind in ("finding", "theorem")}
    found = [f"fails and is not listed: {name}" for name in sorted(failing - set(listed))]
    found += [f"is ours and listed as failing: {name}" for name in sorted(ours & set(listed))]
    if own:
        kept = sorted(set(listed) - failing)
        found += [f"listed as failing and does not fail: {name}" for name in kept]
    return found


def repeated(claims: Sequence[Claim]) -> list[str]:
    """Names that more than one claim has."""
    names = [claim.name for claim in claims]
    return sorted({name for name in names if names.count(name) > 1})
