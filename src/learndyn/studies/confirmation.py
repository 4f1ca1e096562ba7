"""Checks whether a kept result is still what today's code gives, by running the quick preset.

The age of a kept result has two parts. The study: its result has a hash of the study's code. The
library: a hash of everything that a study imports would change with every commit. Instead the file
`quick.json` beside a result has the claims of the quick preset, computed with the same study.
`confirm` runs the quick preset again, with the generator of random numbers of that time, and writes
into `confirmed.json`, for which code, and which claims are no longer the same. Claims may have been
renamed; that file maps old names to new ones. The quick preset does not show whether another
preset has other sizes since: those are compared as well.
"""

import dataclasses
import datetime
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from learndyn.records import whole_file
from learndyn.studies import registry
from learndyn.studies.claims import Claim
from learndyn.studies.hashing import source_hash
from learndyn.studies.results import PACKAGE, naming, read, stated_commit

QUICK, CONFIRMED = "quick.json", "confirmed.json"
PRECISION = 1e-6  # largest relative difference of numbers that count as the same
SHARE = 0.1  # likewise, as a share of the distance from which on the verdict would change
_EQUAL = ("kind", "relation", "status")
_CLOSE = ("measured", "expected", "tolerance")
Rows = Sequence[Mapping[str, Any]]


class Standing(NamedTuple):
    """What is known about the age of a kept result.

    Attributes:
        current: whether its study has not changed since, or was seen to give the same numbers.
        text: the same in words.
        changed: name → difference, of claims of the quick preset that are no longer the same.
    """

    current: bool
    text: str
    changed: Mapping[str, str] = {}


def standing(folder: pathlib.Path, study: str, result: Mapping[str, Any]) -> Standing:
    """What is known about the age of a kept result.

    Args:
        folder: the folder of the study's kept result.
        study: name of the study.
        result: the content of `claims.json` or `replication.json`.

    Returns:
        Its standing.
    """
    then, now = result.get("source_hash"), source_hash(study)
    path = folder / CONFIRMED
    if path.exists():
        with naming(path):
            seen = read(path)
            if (seen["result"], seen["study"]) == (then, now):
                return _resized(study, result) or _seen(seen, then == now)
    return Standing(True, "current") if then == now else Standing(False, "older than its study")


def _resized(study: str, result: Mapping[str, Any]) -> Standing | None:
    """The standing of a result whose preset has other sizes today, if it has."""
    presets, params = registry.find(study).PRESETS, result.get("params", {})
    if result.get("preset") not in presets:
        return None
    # Via JSON, like the content of the file: there, tuples have become lists.
    own = json.loads(json.dumps(dataclasses.asdict(presets[result["preset"]])))
    same = {"key", *result.get("differs", {})}
    other = [n for n, value in own.items() if n in params and n not in same and params[n] != value]
    changes = [f"{name} = {params[name]}, now {own[name]}" for name in other]
    return Standing(False, f"sizes of the preset changed: {'; '.join(changes)}") if other else None


def _seen(confirmed: Mapping[str, Any], same: bool) -> Standing:
    changed = dict(confirmed.get("changed", {}))
    if not changed:
        return Standing(True, f"confirmed {confirmed['date']}")
    which = "library" if same else "study or library"
    differ = f"claims of the quick preset that differ: {len(changed)}"
    return Standing(same, f"{which} changed; {differ}", changed)


def new_names(folder: pathlib.Path) -> dict[str, str]:
    """Old name → new name, for claims that were reworded after the result was computed."""
    path = folder / CONFIRMED
    if not path.exists():
        return {}
    with naming(path):
        return dict(read(path)["renamed"])


def confirm(folder: pathlib.Path, study: str) -> str:
    """Runs the quick preset, compares it with `quick.json`, and notes the outcome.

    If the result is of the current study and has no `quick.json` yet, writes that file. A result
    that was confirmed at this very commit is left as it is.

    Args:
        folder: the folder of the study's kept result.
        study: name of the study.

    Returns:
        One line that says what was found.

    Raises:
        ValueError: for a file that `learndyn` did not write.
    """
    then, now = read(folder / "claims.json").get("source_hash"), source_hash(study)
    quick, here = folder / QUICK, stated_commit(PACKAGE)
    if then != now and not quick.exists():
        return f"not confirmed: no {QUICK} beside it"
    if (folder / CONFIRMED).exists() and not here.endswith("-dirty"):
        with naming(folder / CONFIRMED):
            seen = read(folder / CONFIRMED)
            if (seen["result"], seen["study"], seen["commit"]) == (then, now, here):
                return standing(folder, study, {"source_hash": then}).text
    kept: dict[str, Any] = read(quick) if quick.exists() else {}
    generator = str(kept.get("generator", registry.GENERATOR))
    try:
        claims = _rows(_quick(study, generator))
    except Exception as error:  # a study may raise anything; the others are still to be confirmed
        return f"not confirmed: {type(error).__name__}: {' '.join(str(error).split())}"
    if not quick.exists():
        origin = {"source_hash": now, "commit": here, "generator": generator}
        _write(quick, origin | {"claims": claims})
        return f"{QUICK} written"
    with naming(quick):
        if kept["source_hash"] != then:
            return f"not confirmed: {QUICK} and the result are of different sources"
        renamed, changed = _differences(kept["claims"], claims)
    content = {"result": then, "study": now, "commit": here}
    content |= {"date": datetime.date.today().isoformat(), "precision": PRECISION, "share": SHARE}
    _write(folder / CONFIRMED, content | {"renamed": renamed, "changed": changed})
    return "; ".join([standing(folder, study, {"source_hash": then}).text, *changed.values()])


def _quick(study: str, generator: str) -> Sequence[Claim]:
    module = registry.find(study)
    params = registry.preset_of(module, "quick")
    claims = module.check(registry.compute(module, params, lambda done: None, generator))
    # The compiled programs of all studies together do not fit into the memory of one process.
    jax.clear_caches()
    return claims


def _rows(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    # JSON has no NaN and no infinity.
    plain = lambda value: None if isinstance(value, float) and not math.isfinite(value) else value
    return [
        {name: plain(getattr(claim, name)) for name in ("name", *_EQUAL, *_CLOSE)}
        for claim in claims
    ]


def _differences(old: Rows, new: Rows) -> tuple[dict[str, str], dict[str, str]]:
    """Old name → new name of renamed claims; name → what differs.

    Claims are matched by name. The others are matched by order if they are equally many: then
    they were renamed.
    """
    by_name = {row["name"]: row for row in new}
    gone = [row for row in old if row["name"] not in by_name]
    come = [row for row in new if row["name"] not in {row["name"] for row in old}]
    pairs = [(row, by_name[row["name"]]) for row in old if row["name"] in by_name]
    if len(gone) == len(come):
        pairs += zip(gone, come, strict=True)
        gone = come = []
    renamed = {a["name"]: b["name"] for a, b in pairs if a["name"] != b["name"]}
    changed = {b["name"]: text for a, b in pairs if (text := _difference(a, b))}
    changed |= {row["name"]: f"{row['name']!r} is no longer there" for row in gone}
    return renamed, changed | {row["name"]: f"{row['name']!r} is new" for row in come}


def _difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """Describes the first difference between a claim then and now; empty if they agree."""
    for name in (*_EQUAL, *_CLOSE):
        same = a[name] == b[name]
        if name in _CLOSE and None not in (a[name], b[name]):
            # A measured value near 0 may be all rounding error, where a relative difference means
            # nothing. A change far below what would turn the verdict is allowed as well.
            same = math.isclose(a[name], b[name], rel_tol=PRECISION, abs_tol=SHARE * slack(a))
        if not same:
            return f"{name} of {b['name']!r} was {a[name]} and is {b[name]}"
    return ""


def slack(row: Mapping[str, Any]) -> float:
    """How far the measured value is from where the verdict would turn; 0 if it has none.

    Args:
        row: the fields of a claim.

    Returns:
        The distance.
    """
    if None in (row["measured"], row["expected"], row["tolerance"]):
        return 0.0
    excess = row["measured"] - row["expected"]
    miss = {"=": abs(excess), "≤": excess, "≥": -excess}[row["relation"]]
    distance = abs(row["tolerance"] - miss)
    return distance if math.isfinite(distance) else 0.0


def _write(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, default=float)
    with whole_file(path) as part:
        part.write_text(text + "\n", encoding="utf-8")
