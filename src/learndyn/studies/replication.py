"""Runs a study at new keys and compares how often each claim holds with its promised rate."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Literal

from learndyn.records import whole_file
from learndyn.studies import confirmation, registry
from learndyn.studies.claims import COUNTED, Claim
from learndyn.studies.confirmation import PRECISION, SHARE
from learndyn.studies.registry import Report, Study
from learndyn.studies.results import naming, read
from learndyn.studies.statistics import clopper_pearson

FILE = "replication.json"
FIRST = 1000
STRIDE = 1000  # studies with several starts use key, key + 1, …: these ranges must not overlap
Verdict = Literal["as promised", "above", "below", "undecided"]


@dataclasses.dataclass(frozen=True)
class Row:
    """One claim over all keys.

    Attributes:
        name: of the claim.
        kind: of the claim.
        held: number of keys at which it holds.
        count: number of keys at which it is judged. Keys at which its interval is too wide count,
            and so do those at which the study fails: it does not hold there.
        low: lower end of the exact 95 % interval of the rate.
        high: upper end of that interval.
        rate: the rate that the tolerance promises.
        verdict: whether the interval contains the promised rate, or is above or below it.
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
    """New keys, `STRIDE` apart.

    Args:
        study: the study.
        number: number of keys.
        first: the first key.

    Returns:
        The keys.

    Raises:
        ValueError: if a preset uses one of them.
    """
    keys = [first + STRIDE * i for i in range(number)]
    # The results at the presets' keys are known already: those would be no independent test.
    used = {params.key for params in study.PRESETS.values()}
    if used & set(keys):
        raise ValueError(f"--first: got {first}; allowed are keys that no preset has, not {used}")
    return keys


def replicate(
    study: Study, params: Any, keys: Iterable[int], done: Container[str], report: Report
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs a study at the keys that are not done yet.

    Args:
        study: the study; its parameters include a key.
        params: its parameters; their key is replaced.
        keys: all keys.
        done: keys that have been run before, as text.
        report: called with the fraction done.

    Yields:
        A key, as text, and its outcome: the claims, or the error.
    """
    missing = [key for key in keys if str(key) not in done]
    for number, key in enumerate(missing):
        inner = lambda fraction, number=number: report((number + fraction) / len(missing))
        yield str(key), _outcome(study, dataclasses.replace(params, key=key), inner)


def _outcome(study: Study, params: Any, report: Report) -> dict[str, Any]:
    try:
        claims = study.check(registry.compute(study, params, report))
    # An error is an outcome as well, at which no claim holds. Skipping such keys would make the
    # rates look better than they are.
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"claims": {c.name: _judged(c) for c in claims}}


def _judged(claim: Claim) -> dict[str, Any]:
    """The verdict, what was measured, and how far that is from where the verdict would turn."""
    kept = {name: getattr(claim, name) for name in ("status", "kind", "rate", "undecided")}
    # JSON has no NaN and no infinity.
    finite = claim.measured if math.isfinite(claim.measured) else None
    return kept | {"measured": finite, "slack": confirmation.slack(dataclasses.asdict(claim))}


def table(runs: Mapping[str, Any]) -> list[Row]:
    """Counts how often each claim holds.

    Args:
        runs: key → outcome.

    Returns:
        One row per claim, in the order in which the study states them.
    """
    stated = [run["claims"] for run in runs.values() if "claims" in run]
    broken = len(runs) - len(stated)
    names = dict.fromkeys(name for claims in stated for name in claims)
    return [_row(name, [c[name] for c in stated if name in c], broken) for name in names]


def _row(name: str, claims: list[dict[str, Any]], broken: int) -> Row:
    judged = [c["status"] for c in claims if c["status"] != "open" or c.get("undecided")]
    held, count, rate = judged.count("holds"), len(judged) + broken, claims[-1]["rate"]
    low, high = clopper_pearson(held, count) if count else (0.0, 1.0)
    return Row(name, claims[-1]["kind"], held, count, low, high, rate, _verdict(low, high, rate))


def _verdict(low: float, high: float, rate: float) -> Verdict:
    if (low, high) == (0.0, 1.0):  # no key judged the claim
        return "undecided"
    return "below" if high < rate else "above" if low > rate else "as promised"


def earlier(folder: pathlib.Path, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Key → outcome of an earlier file, if it has the same study, parameters and source."""
    path = folder / FILE
    if not path.exists():
        return {}
    kept = read(path)
    same = ("study", "preset", "params", "source_hash")
    # Via JSON, like the content of the file: there, tuples have become lists.
    wanted = json.loads(json.dumps({name: origin[name] for name in same}))
    with naming(path):
        return kept["runs"] if all(kept.get(name) == wanted[name] for name in same) else {}


def write(folder: pathlib.Path, origin: Mapping[str, Any], runs: Mapping[str, Any]) -> None:
    """Writes `replication.json`; the file is complete or absent.

    Args:
        folder: where the file goes.
        origin: what `describe` returned.
        runs: key → outcome.
    """
    rows = [dataclasses.asdict(row) for row in table(runs)]
    text = json.dumps({**origin, "table": rows, "runs": dict(runs)}, indent=1, ensure_ascii=False)
    with whole_file(folder / FILE) as path:
        path.write_text(text + "\n", encoding="utf-8")


def varying(runs: Mapping[str, Any]) -> list[str]:
    """The counted claims that promise to hold at every key, but whose value depends on it.

    Args:
        runs: key → outcome.

    Returns:
        Their names. Changes far below what would turn a verdict, as of rounding, do not count; see
        `confirmation`.
    """
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs.values():
        for name, row in run.get("claims", {}).items():
            if row["rate"] == 1 and row["kind"] in COUNTED and row.get("measured") is not None:
                seen.setdefault(name, []).append(row)
    return [name for name, rows in seen.items() if _differ(rows)]


def _differ(rows: Iterable[Mapping[str, Any]]) -> bool:
    values = [row["measured"] for row in rows]
    least = min(row["slack"] for row in rows)
    allowed = max(PRECISION * max(map(abs, values)), SHARE * least)
    return max(values) - min(values) > allowed


def failing(rows: Iterable[Row], listed: Mapping[str, str]) -> list[Row]:
    """The rows of claims that hold less often than promised and are not listed as failing."""
    return [row for row in rows if row.verdict == "below" and row.name not in listed]
