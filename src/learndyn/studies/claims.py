"""Claims: measurable sentences with a tolerance, and their verdicts.

A study lists its sentences in the table `CLAIMS`, each with its tolerance or the reason for it.
`check` adds the numbers:

    CLAIMS = {"decay": claim("exponent of the error in α", "Fig. 6", because="Student's t")}
    CLAIMS["decay"].equals(measured, -0.5, within=0.01)

A mean over random runs is an `Interval` (`intervals.of_mean`), and one rule judges it: the
claim holds if the whole interval is within the tolerance, fails if the whole interval is outside,
and is open if the interval is too wide for either. So scatter never helps a claim:

    CLAIMS["smaller"].at_most(intervals.of_mean(differences), 0.0)
    CLAIMS["identical"].equals(intervals.of_mean(differences), 0.0, within=0.05)
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from learndyn.runtime.tables import Shown, shown_as_table

Number = float | int
Relation = Literal["=", "≤", "≥"]
Kind = Literal["claim", "erratum", "finding", "theorem"]
Status = Literal["holds", "fails", "open"]
KINDS: tuple[Kind, ...] = get_args(Kind)
STATUSES: tuple[Status, ...] = get_args(Status)
COUNTED: tuple[Kind, ...] = ("claim", "erratum", "finding")  # theorems only check the code
MISSED = 5  # an erratum holds only if the published value is this many tolerances away
LEAST = 1e-9  # rate of a sum of tolerances whose rates leave nothing; a rate is positive
PLANNED = 0.95  # rate of a claim about an interval: enough runs for this power
UNDECIDED = "the interval is too wide: only a part of it is within the tolerance"


class Interval(NamedTuple):
    """A value measured on random runs, and its confidence interval.

    Attributes:
        value: the estimate.
        low: the lower end.
        high: the upper end.
        because: how the ends were computed: method, number of runs, level.
    """

    value: float
    low: float
    high: float
    because: str


@shown_as_table
@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence with the expected and the measured number.

    Attributes:
        statement: the sentence.
        source: its equation, figure or section.
        relation: between measured and expected.
        expected: the expected value; for an erratum the corrected one.
        measured: the measured value.
        tolerance: by how much the relation may be missed; None if the claim is open.
        tolerance_from: the reason for the tolerance: theory, never the measurement.
        kind: "claim" of the paper, "erratum" if the published formula is proven wrong, "finding"
            if the statement is our own, "theorem" if it is an identity or a proven bound, which
            checks the code.
        printed: for an erratum, what the paper prints.
        why_open: for an open claim, what is missing to decide; written before the measurement.
        printed_value: what the paper prints, as a number.
        rate: probability, over keys, that a true claim holds within its tolerance.
        label: the name, if it is not taken from the statement.
        low: lower end of the confidence interval of the measured value, if it has one.
        high: upper end of that interval.
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
    low: Number | None = None
    high: Number | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind: got {self.kind!r}; allowed are {', '.join(KINDS)}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate: got {self.rate}; allowed is a probability above 0")
        if (self.kind == "erratum") != bool(self.printed):
            raise ValueError(f"printed: got {self.printed!r}; allowed is text for an erratum only")
        if not self.why_open and self._straddles():
            object.__setattr__(self, "why_open", UNDECIDED)
        if (self.tolerance is None) != bool(self.why_open) and not self.undecided:
            got = f"tolerance: got {self.tolerance} with why_open {self.why_open!r}"
            raise ValueError(f"{got}; allowed is a number, or None for an open claim")

    @property
    def name(self) -> str:
        """The same at every key: the label, or the statement without measured numbers.

        Those are in parentheses. Numbers outside parentheses stay: they tell cases apart.
        """
        return self.label or re.sub(r"\s+\([^()]*\d[^()]*\)", "", self.statement)

    @property
    def holds(self) -> bool:
        """Whether the measured value, or its whole interval, fulfils the relation.

        An erratum must also exclude the wrong print.
        """
        whole = all(map(self._fulfils, self._ends)) and not self.why_open
        return whole and self.excludes_print

    @property
    def undecided(self) -> bool:
        """Whether the claim is open because its interval is too wide."""
        return self.low is not None and self.why_open == UNDECIDED

    @property
    def excludes_print(self) -> bool:
        """Whether the measurement excludes the printed value; True if there is no such number."""
        if self.printed_value is None or self.tolerance is None:
            return True
        distance = abs(float(self.printed_value) - float(self.measured))
        return distance >= MISSED * self.tolerance and not self._fulfils(self.printed_value)

    @property
    def _ends(self) -> tuple[Number, ...]:
        return (self.measured,) if self.low is None or self.high is None else (self.low, self.high)

    def _straddles(self) -> bool:
        """Whether a part of the interval is within the tolerance, and a part is not."""
        misses = [self._miss(end) for end in self._ends]
        if self.tolerance is None or any(map(math.isnan, misses)):
            return False  # a run that has no value does not fulfil a claim
        around = self.relation == "=" and min(self._ends) <= self.expected <= max(self._ends)
        return (0.0 if around else min(misses)) <= self.tolerance < max(misses)

    def _miss(self, value: Number) -> float:
        excess = float(value) - float(self.expected)
        return {"=": abs(excess), "≤": excess, "≥": -excess}[self.relation]

    def _fulfils(self, value: Number) -> bool:
        return self.tolerance is not None and self._miss(value) <= self.tolerance

    @property
    def status(self) -> Status:
        """The verdict; open claims are listed, but count neither as holding nor as failing."""
        return "open" if self.why_open else "holds" if self.holds else "fails"

    def _shown(self) -> Shown:
        interval = "" if self.low is None else f" ({self.low:.4g} … {self.high:.4g})"
        allowed = "" if self.tolerance is None else f" ± {self.tolerance:.3g}"
        rows = [
            (self.kind, self.statement),
            ("source", self.source),
            ("expected", f"{self.relation} {self.expected:.6g}{allowed}"),
            ("measured", f"{self.measured:.6g}{interval}"),
            ("printed", self.printed),
            ("because", self.why_open or self.tolerance_from),
        ]
        return Shown(self.status, [row for row in rows if row[1]])

    def open(self, why: str) -> "Claim":
        """The same claim without a verdict, and the reason."""
        return dataclasses.replace(self, why_open=why, tolerance=None, tolerance_from="")


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """By how much a claim may be missed, and why. Tolerances with different reasons add.

    Attributes:
        value: the number, in the units of what is measured.
        because: the reason: theory or the number of runs, never the measurement.
        rate: probability, over keys, that a true claim holds within the tolerance.
    """

    value: Number
    because: str
    rate: Number = 1.0

    __array_ufunc__ = None  # NumPy numbers then leave products to __rmul__

    def __add__(self, other: "Tolerance") -> "Tolerance":
        """Adds values and the probabilities of a false alarm, and lists the reasons."""
        reasons = dict.fromkeys(filter(None, (self.because, other.because)))
        low, high = sorted((self.rate, other.rate))
        rate = max(low - (1 - high), LEAST)
        return Tolerance(self.value + other.value, "; ".join(reasons), rate)

    def __mul__(self, factor: Number) -> "Tolerance":
        """The tolerance in other units."""
        return dataclasses.replace(self, value=float(factor) * self.value)

    __rmul__ = __mul__


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A claim without its numbers, which its methods add.

    `format` fills in fields `{name}` in any of its texts.

    Attributes:
        statement: the sentence.
        source: its equation, figure or section.
        kind: of the claim; see `Claim`.
        name: a name without measured numbers, if the statement contains some.
        within: the part of the tolerance that is known in advance; its value is 0 if only the
            reason is known.
        printed: for an erratum, what the paper prints.
        printed_value: the same as a number.
    """

    statement: str
    source: str
    kind: Kind = "claim"
    name: str = ""
    within: Tolerance | None = None
    printed: str = ""
    printed_value: Number | None = None

    def format(self, **fields: Any) -> "Sentence":
        """The sentence with its `{fields}` filled in, for one of several panels or models."""
        texts = {text: getattr(self, text) for text in ("statement", "source", "name", "printed")}
        filled: dict[str, Any] = {name: text.format(**fields) for name, text in texts.items()}
        if self.within:
            because = self.within.because.format(**fields)
            filled["within"] = dataclasses.replace(self.within, because=because)
        return dataclasses.replace(self, **filled)

    def erratum(self, printed: str = "", value: Number | None = None) -> "Sentence":
        """The sentence as an erratum: what the paper prints, in words and as a number if it is one.

        The table gives the words; `check` may add the number.
        """
        changed = {"printed": printed or self.printed, "printed_value": value}
        return dataclasses.replace(self, kind="erratum", **changed)

    def equals(self, measured, expected, within=None) -> Claim:
        """The claim that measured equals expected within a tolerance.

        Args:
            measured: the measured value, or an `Interval`.
            expected: the expected value.
            within: a `Tolerance`, or a number for which the sentence has the reason; added to the
                tolerance of the sentence.

        Returns:
            The claim.
        """
        if within is None and self.within is None:
            raise ValueError("within: got none; allowed is a tolerance, here or in the table")
        return self._claim("=", measured, expected, within)

    def at_most(self, measured, bound, within=None) -> Claim:
        """The claim that measured is at most a bound, within a tolerance, by default 0.

        Of an `Interval` the whole must be, so that noise makes the claim harder to fulfil.
        """
        return self._claim("≤", measured, bound, within)

    def at_least(self, measured, bound, within=None) -> Claim:
        """The claim that measured is at least a bound; see `at_most`."""
        return self._claim("≥", measured, bound, within)

    def open(self, why: str, measured=math.nan, expected=math.nan) -> Claim:
        """The claim as undecided: what is missing, and what was measured nevertheless."""
        return self._made("=", measured, expected, None, "", why_open=why)

    def _claim(self, relation: Relation, measured, expected, within) -> Claim:
        if not isinstance(within, Tolerance):
            within = Tolerance(float(within or 0.0), because="")
        total, interval = self.within + within if self.within else within, {}
        if isinstance(measured, Interval):
            # The level of the interval is no power: that is in the table, or as planned.
            rate = PLANNED if total.rate == 1 else total.rate
            reasons = filter(None, (total.because, measured.because))
            total = Tolerance(total.value, "; ".join(reasons), rate)
            interval, measured = {"low": measured.low, "high": measured.high}, measured.value
        if not total.because:
            raise ValueError(f"because: got none for {self.statement!r}; allowed is a reason")
        more = {"rate": total.rate, **interval}
        return self._made(relation, measured, expected, float(total.value), total.because, **more)

    def _made(self, relation: Relation, measured, expected, tolerance, because, **more) -> Claim:
        if "{" in self.statement:
            allowed = "a sentence whose fields `format` filled in"
            raise ValueError(f"statement: got {self.statement!r}; allowed is {allowed}")
        own = {"printed": self.printed, "printed_value": self.printed_value, "label": self.name}
        numbers = float(expected), float(measured), tolerance, because
        return Claim(self.statement, self.source, relation, *numbers, kind=self.kind, **own, **more)

    def says(self, made: Claim) -> bool:
        """Whether a claim was made from this sentence, whatever was filled in."""
        parts = map(re.escape, re.split(r"\{[^{}]*\}", self.statement))
        return made.kind == self.kind and bool(re.fullmatch(".*".join(parts), made.statement))


def claim(
    statement: str,
    source: str,
    *,
    kind: Kind = "claim",
    name: str = "",
    within: Tolerance | None = None,
    because: str = "",
    rate: Number = 1.0,
) -> Sentence:
    """A sentence; `equals`, `at_most`, `at_least` or `open` make a claim of it.

    Args:
        statement: the sentence; `format` fills in its fields `{name}`.
        source: its equation, figure or section.
        kind: of the claim; for an erratum, call the method `erratum`.
        name: a name that is the same at every key, if the statement contains measured numbers.
        within: the tolerance, if it is known in advance.
        because: instead of `within`, the reason for a tolerance whose value comes from the data.
        rate: probability, over keys, that a true claim holds within that tolerance.

    Returns:
        The sentence.
    """
    if within and because:
        raise ValueError(f"because: got {because!r}; allowed is none where within is given")
    reason = Tolerance(0.0, because, rate) if because or rate < 1 else None
    return Sentence(statement, source, kind, name, within or reason)


def with_rates(check: Callable[[Any], list[Claim]]) -> Callable[[Any], list[Claim]]:
    """A study's `check` whose claims are about what a key draws, so that none promises certainty.

    A rate of 1 becomes `PLANNED`. The study's constant `WEAK`, name → rate, has those of claims
    that hold less often: the share of keys at which they did. Theorems keep theirs.

    Args:
        check: the study's own.

    Returns:
        The same with these rates.
    """

    @functools.wraps(check)
    def made(data: Any) -> list[Claim]:
        weak = check.__globals__.get("WEAK", {})  # no argument: filling it in ages no result
        return [_promised(row, weak.get(row.name)) for row in check(data)]

    return made


def _promised(row: Claim, rate: Number | None) -> Claim:
    planned = PLANNED if row.rate == 1 else row.rate
    return row if row.kind not in COUNTED else dataclasses.replace(row, rate=rate or planned)
