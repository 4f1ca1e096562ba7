"""A study over fresh keys: how often each claim holds, against what its tolerance promises."""

import dataclasses
import json
import pathlib
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Literal

from learndyn.records import whole_file
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report, Study
from learndyn.studies.statistics import clopper_pearson

FILE = "replication.json"
FIRST = 1000
STRIDE = 1000  # studies with several starts count up from their key: fresh ones must not meet
Verdict = Literal["as promised", "above", "below", "undecided"]


@dataclasses.dataclass(frozen=True)
class Row:
    """One claim over all keys.

    Attributes:
        name: of the claim.
        kind: of the claim.
        held: keys at which it held.
        count: keys at which it was decided; one at which the study broke off counts.
        low: end of the exact 95 % interval of the rate.
        high: the other end.
        rate: what the tolerance promises.
        verdict: where the interval lies, seen from the promise.
    """

    name: str
    kind: str
    held: int
    count: int
    low: float
    high: float
    rate: float
    verdict: Verdict


def keys_of(study: Study, number: int, first: int = FIRST) -> list[int]:
    """Fresh keys, far from each other.

    Args:
        study: the study.
        number: how many.
        first: the first.

    Returns:
        The keys.

    Raises:
        ValueError: where a preset has one of them: what was looked at is not fresh.
    """
    keys = [first + STRIDE * i for i in range(number)]
    used = {params.key for params in study.PRESETS.values()}
    if used & set(keys):
        raise ValueError(f"--first: got {first}; allowed are keys that no preset has, not {used}")
    return keys


def replicate(
    study: Study, params: Any, keys: Iterable[int], done: Container[str], report: Report
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs the keys that are not done yet.

    Args:
        study: the study, whose parameters have a key.
        params: its parameters; their key is replaced.
        keys: all keys that are wanted.
        done: those that came out before, as text.
        report: takes the fraction done.

    Yields:
        A key, as text, and what came out: the claims, or the error.
    """
    missing = [key for key in keys if str(key) not in done]
    for number, key in enumerate(missing):
        inner = lambda fraction, number=number: report((number + fraction) / len(missing))
        yield str(key), _one(study, dataclasses.replace(params, key=key), inner)


def _one(study: Study, params: Any, report: Report) -> dict[str, Any]:
    try:
        claims = study.check(study.compute(params, report))
    except Exception as error:  # a key at which a study breaks off is one at which nothing holds
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"claims": {claim.name: _said(claim) for claim in claims}}


def _said(claim: Claim) -> dict[str, Any]:
    return {"status": claim.status, "kind": claim.kind, "rate": claim.rate}


def table(runs: Mapping[str, Any]) -> list[Row]:
    """One row a claim, in the order in which they are stated.

    Args:
        runs: key → what came out.

    Returns:
        The rows.
    """
    stated = [run["claims"] for run in runs.values() if "claims" in run]
    broken = len(runs) - len(stated)
    names = dict.fromkeys(name for claims in stated for name in claims)
    return [_row(name, [c[name] for c in stated if name in c], broken) for name in names]


def _row(name: str, said: list[dict[str, Any]], broken: int) -> Row:
    decided = [one["status"] for one in said if one["status"] != "open"]
    held, count, rate = decided.count("holds"), len(decided) + broken, said[-1]["rate"]
    low, high = clopper_pearson(held, count) if count else (0.0, 1.0)
    return Row(name, said[-1]["kind"], held, count, low, high, rate, _verdict(low, high, rate))


def _verdict(low: float, high: float, rate: float) -> Verdict:
    if (low, high) == (0.0, 1.0):
        return "undecided"
    return "below" if high < rate else "above" if low > rate else "as promised"


def earlier(folder: pathlib.Path, origin: Mapping[str, Any]) -> dict[str, Any]:
    """What a file of the same study, parameters and source holds already, by key."""
    path = folder / FILE
    if not path.exists():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    same = ("study", "preset", "params", "source_hash")
    # Through JSON, as the file went: it has no tuples.
    wanted = json.loads(json.dumps({name: origin[name] for name in same}))
    return kept["runs"] if all(kept.get(name) == wanted[name] for name in same) else {}


def write(folder: pathlib.Path, origin: Mapping[str, Any], runs: Mapping[str, Any]) -> None:
    """Writes the file whole.

    Args:
        folder: where.
        origin: what `describe` says.
        runs: key → what came out.
    """
    rows = [dataclasses.asdict(row) for row in table(runs)]
    text = json.dumps({**origin, "table": rows, "runs": dict(runs)}, indent=1, ensure_ascii=False)
    with whole_file(folder / FILE) as path:
        path.write_text(text + "\n", encoding="utf-8")


def failing(rows: Iterable[Row], listed: Mapping[str, str]) -> list[Row]:
    """The rows that hold less often than promised, but for those listed as failing."""
    return [row for row in rows if row.verdict == "below" and row.name not in listed]
