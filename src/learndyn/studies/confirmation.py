"""Checks whether a kept result is still valid after the text of its study has changed.

A kept result has a hash of its study's source, which changes with every rewording. The file
`quick.json` beside it has the claims of the quick preset, computed with the same source. If the
quick preset of today gives the same numbers, the study still computes the same, and
`confirmed.json` records the two hashes. Claims may have been renamed; that file maps old names to
new ones.
"""

import datetime
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from learndyn.records import commit, whole_file
from learndyn.studies import registry
from learndyn.studies.claims import Claim
from learndyn.studies.results import naming, read, source_hash

QUICK, CONFIRMED = "quick.json", "confirmed.json"
PRECISION = 1e-6  # largest relative difference of numbers that count as the same
_EQUAL = ("kind", "relation", "status")
_CLOSE = ("measured", "expected", "tolerance", "rate")


def stands(folder: pathlib.Path, study: str, result: Mapping[str, Any]) -> bool:
    """Whether a result is up to date: of the current source, or confirmed for it.

    Args:
        folder: the folder of the study's kept result.
        study: name of the study.
        result: the content of `claims.json` or `replication.json`.

    Returns:
        Whether the result is up to date.
    """
    then, now = result.get("source_hash"), source_hash(study)
    path = folder / CONFIRMED
    if then == now or not path.exists():
        return then == now
    with naming(path):
        confirmed = read(path)
        return (confirmed["result"], confirmed["study"]) == (then, now)


def new_names(folder: pathlib.Path) -> dict[str, str]:
    """Old name → new name, for claims that were reworded after the result was computed."""
    path = folder / CONFIRMED
    if not path.exists():
        return {}
    with naming(path):
        return dict(read(path)["renamed"])


def confirm(folder: pathlib.Path, study: str) -> str:
    """Runs the quick preset if the source has changed, and compares it with `quick.json`.

    If the result is of the current source and has no `quick.json` yet, writes that file.

    Args:
        folder: the folder of the study's kept result.
        study: name of the study.

    Returns:
        One line that says what was found.

    Raises:
        ValueError: for a file that `learndyn` did not write.
    """
    then, now = read(folder / "claims.json").get("source_hash"), source_hash(study)
    path = folder / QUICK
    if then == now and path.exists():
        return "current"
    if then != now and not path.exists():
        return f"not confirmed: no {QUICK} beside it"
    try:
        claims = _rows(_quick(study))
    except Exception as error:  # a study may raise anything; the others are still to be confirmed
        return f"not confirmed: {type(error).__name__}: {' '.join(str(error).split())}"
    root = pathlib.Path(__file__).parent
    if then == now:
        _write(path, {"source_hash": now, "commit": commit(root), "claims": claims})
        return f"{QUICK} written"
    with naming(path):
        kept = read(path)
        if kept["source_hash"] != then:
            return f"not confirmed: {QUICK} and the result are of different sources"
        difference = _difference(kept["claims"], claims)
    if difference:
        return f"not confirmed: {difference}"
    pairs = [(a["name"], b["name"]) for a, b in zip(kept["claims"], claims, strict=True)]
    confirmed = {
        "result": then,
        "study": now,
        "commit": commit(root),
        "date": datetime.date.today().isoformat(),
        "precision": PRECISION,
        "renamed": {old: new for old, new in pairs if old != new},
    }
    _write(folder / CONFIRMED, confirmed)
    return "confirmed"


def _quick(study: str) -> Sequence[Claim]:
    module = registry.find(study)
    claims = module.check(module.compute(registry.preset_of(module, "quick"), lambda done: None))
    # The compiled programs of all studies together do not fit into the memory of one process.
    jax.clear_caches()
    return claims


def _rows(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    # JSON has no NaN.
    plain = lambda value: None if isinstance(value, float) and math.isnan(value) else value
    return [
        {name: plain(getattr(claim, name)) for name in ("name", *_EQUAL, *_CLOSE)}
        for claim in claims
    ]


def _difference(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> str:
    """Describes the first difference; empty if all claims agree. Claims are matched by order."""
    if len(old) != len(new):
        return f"{len(old)} claims have become {len(new)}"
    for a, b in zip(old, new, strict=True):
        for name in (*_EQUAL, *_CLOSE):
            same = a[name] == b[name]
            if name in _CLOSE and None not in (a[name], b[name]):
                # A measured value near 0 may be all rounding error, where a relative difference
                # means nothing. Differences far below the claim's tolerance are allowed as well.
                least = PRECISION * (a["tolerance"] or 0.0)
                same = math.isclose(a[name], b[name], rel_tol=PRECISION, abs_tol=least)
            if not same:
                return f"{name} of {b['name']!r} was {a[name]} and is {b[name]}"
    return ""


def _write(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, default=float)
    with whole_file(path) as part:
        part.write_text(text + "\n", encoding="utf-8")
