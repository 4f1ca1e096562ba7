"""Writes the README of a folder of kept results from the files in it.

A kept result is a folder `paper/figure` with the files `claims.json` and `figure.png` of
`learndyn run`, and with `replication.json` if the study was replicated. Notes written by hand are
in `notes.md`, in the same folder or in the paper's folder.
"""

import pathlib
import re
import subprocess
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from learndyn.studies import missing, registry
from learndyn.studies.claims import COUNTED, KINDS, STATUSES
from learndyn.studies.confirmation import PRECISION, SHARE, Standing, new_names, standing
from learndyn.studies.replication import FILE, Row
from learndyn.studies.results import naming, read
from learndyn.studies.tables import PLURALS

CLAIMS = "claims.json"
UNKNOWN = "not recorded"
NO_REASON = {"listed": "not listed", "why_open": UNKNOWN}
# The line by which `is_own` recognises a README that it may replace.
MARK = "Written by `learndyn results` from the files in this folder"
HEAD = f"""# Kept results

{MARK}: what is changed here by hand is lost.
Each folder has the `figure.png` and `claims.json` of a run; `learndyn run STUDY --preset PRESET`
computes them again. Numbers say how many hold / fail / are open. Claims are sentences of a paper.
Errata are places where the published formula is wrong; they hold if the corrected value is measured
and the printed one is not. Findings are ours. Theorems check the code and are not counted.
Figures are as their runs drew them; those of older studies do not show today's style.

The age compares a result with today's code:

- current: the code of the study is that of the result;
- confirmed: on that day the quick preset gave the numbers that it had given when the result was
  computed (`learndyn results --confirm`), to a relative {PRECISION:g}, or to {SHARE:g} of the
  distance at which the verdict would turn;
- older than its study: the code of the study has changed, and the result is not confirmed;
- sizes of the preset changed: the quick preset gave the same numbers, but the preset of the result
  has other sizes today;
- changed: the quick preset gives other claims now, which are listed below.

A commit marked * had changes that were not committed; one in parentheses is not in the history.
"""

FAILING = """What the measurement contradicts, with the reason. Rows with an age at the end are of \
a result that is not that of today's study, which may judge them otherwise: the notes say how."""
OPEN = """What is not decided: the interval is too wide, or a size, a data set or a definition is \
missing. Rows with an age at the end are as above."""
CHANGED = "Results whose quick preset gives other claims now than when they were computed."
REPLICATED = """The quick preset at other keys than its own: at how many of them a claim held, the \
interval of its rate, and the rate that its table promises. As promised means that the interval \
contains that rate, which says little where keys are few; below, that it lies below it, as for \
claims that are listed as failing. Keys at which a row was open for another reason than a wide \
interval do not count: 0/0 was judged at none."""
MISSING = "Figures, panels and sizes without a current result of the preset `paper`, and why."
UNREPLICATED = f"""Quick presets whose rates are planned, or known from fewer than {missing.KEYS} \
keys: no current replication at so many keys, from a clean commit, is kept."""


def kept(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Reads the `claims.json` of all kept results.

    Args:
        folder: of kept results.

    Returns:
        Study → content of the file, ordered by paper and figure.

    Raises:
        ValueError: for a file that `learndyn run` did not write.
    """
    return _contents(folder, CLAIMS)


def _contents(folder: pathlib.Path, file: str) -> dict[str, dict[str, Any]]:
    paths = folder.glob(f"*/*/{file}")
    results = {f"{path.parent.parent.name}/{path.parent.name}": read(path) for path in paths}
    return {name: results[name] for name in sorted(results, key=order)}


def is_own(readme: pathlib.Path) -> bool:
    """Whether a README was written by `learndyn results`, or does not exist yet."""
    if not readme.exists():
        return True
    text = readme.read_text("utf-8", errors="replace")
    return any(line.startswith(MARK) for line in text.splitlines()[:5])


def older(folder: pathlib.Path) -> list[str]:
    """The kept results whose study has changed since they were computed, or no longer exists."""
    return [name for name, each in standings(folder).items() if not each.current]


def standings(folder: pathlib.Path) -> dict[str, Standing]:
    """Study → the standing of its kept result."""
    return {name: _standing(folder, name, result) for name, result in kept(folder).items()}


def _standing(folder: pathlib.Path, name: str, result: Mapping[str, Any]) -> Standing:
    if name not in set(registry.names()):
        return Standing(False, "its study no longer exists")
    return standing(folder / name, name, result)


def written(folder: pathlib.Path) -> str:
    """The text of the README.

    Args:
        folder: of kept results.

    Returns:
        Markdown: the table of studies, claims that fail and that are open, replications, notes.

    Raises:
        ValueError: for a file that the command line did not write.
    """
    results, ages = kept(folder), standings(folder)
    parts = [HEAD, _studies(folder, results, ages)]
    sections = {
        "What is missing": list(_missing(folder, missing.FILE, MISSING)),
        "What fails": _under(FAILING, _rows(folder, results, ages, "fails", "listed")),
        "What is open": _under(OPEN, _rows(folder, results, ages, "open", "why_open")),
        "What has changed since": _under(CHANGED, _changes(ages)),
        "Replication at fresh keys": _under(REPLICATED, _replications(folder)),
        "What is not replicated": list(_missing(folder, missing.REPLICATIONS, UNREPLICATED)),
        "Notes": list(_notes(folder)),
    }
    parts += ["\n".join([f"## {title}\n", *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _under(head: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [f"{head}\n", *found] if found else []


def _missing(folder: pathlib.Path, file: str, head: str) -> Iterator[str]:
    found = missing.reasons(folder, file)
    if found:
        yield f"{head}\n"
        yield "| study | what | why |"
        yield "|---|---|---|"
    for name in sorted(found, key=order):
        yield from (f"| {name} | {what} | {why} |" for what, why in found[name].items())


def unsettled(folder: pathlib.Path) -> list[str]:
    """Our studies without a current, clean and unaltered result of the preset `paper`."""
    results, history = kept(folder), known_commits(folder)
    current = [name for name, each in standings(folder).items() if each.current]
    clean = [name for name, result in results.items() if clean_commit(result, history)]
    return missing.unsettled(results, current, clean)


def order(name: str) -> list[tuple[int, str]]:
    """A key to sort names by."""
    # Numbers compare as numbers, so that fig10 comes after fig9.
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _studies(folder: pathlib.Path, results: Mapping[str, Any], ages: Mapping[str, Standing]) -> str:
    heads = ["study", "preset", *(PLURALS[kind] for kind in KINDS)]
    heads += ["device", "date", "commit", "how the preset `paper` differs from the paper"]
    heads += ["differs from the preset in", "age"]
    lines = [heads, ["---"] * len(heads)]
    history = known_commits(folder)
    for name, result in results.items():
        about = [str(result.get(key) or UNKNOWN) for key in ("device", "date")]
        about += [_commit(result, history), _differs_from_paper(name)]
        link = f"[{name}]({name}/figure.png)"
        with naming(folder / name / CLAIMS):
            own = [str(result["preset"]), *_counts(result), *about, _differs(result)]
        lines.append([link, *own, ages[name].text])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _commit(result: Mapping[str, Any], history: Container[str] | None) -> str:
    """The commit of a result; marked if files had changed, in parentheses if it is unknown."""
    named = str(result.get("commit") or "")
    if not named:
        return UNKNOWN
    head = named.removesuffix("-dirty")
    text = head[:7] + ("*" if named.endswith("-dirty") else "")
    return text if history is None or head in history else f"({text})"


def clean_commit(result: Mapping[str, Any], history: Container[str] | None) -> bool:
    """Whether a result names a commit without changes that is in the history."""
    return str(result.get("commit") or "-dirty") in (history or ())


def known_commits(folder: pathlib.Path) -> Container[str] | None:
    """The commits in the history, by the first 12 digits; None where there is no git."""
    command = ["git", "-C", str(folder), "log", "--format=%H"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return {line[:12] for line in answer.stdout.split()} if answer.returncode == 0 else None


def _differs_from_paper(name: str) -> str:
    return registry.constant(name, "DIFFERS") if name in set(registry.names()) else ""


def _changes(ages: Mapping[str, Standing]) -> Iterator[str]:
    for name, each in ages.items():
        for difference in each.changed.values():
            yield f"- {name}, quick preset: {difference}"


def _counts(result: Mapping[str, Any]) -> Iterator[str]:
    for kind in KINDS:
        counts = result["tally"].get(kind)
        yield " / ".join(str(counts[status]) for status in STATUSES) if counts else ""


def _differs(result: Mapping[str, Any]) -> str:
    if result.get("differs") is None:
        return UNKNOWN
    return "; ".join(
        f"{name} = {_plain(now)} for {_plain(own)}"
        for name, (own, now) in result["differs"].items()
    )


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rows(
    folder: pathlib.Path,
    results: Mapping[str, Any],
    ages: Mapping[str, Standing],
    status: str,
    reason: str,
) -> Iterator[str]:
    for name, result in results.items():
        age = "" if ages[name].current else f" ({ages[name].text.partition(';')[0]})"
        with naming(folder / name / CLAIMS):
            renamed = new_names(folder / name)
            for row in result["claims"]:
                if row["status"] == status:
                    claim = renamed.get(row["name"], row["name"])
                    why = row.get(reason) or NO_REASON[reason]
                    yield f"- {name}, {row['kind']}: {claim}. *{why}*{age}"


def replications(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Study → content of its kept `replication.json`; some have no other kept result."""
    return _contents(folder, FILE)


def unreplicated(folder: pathlib.Path) -> list[str]:
    """Our studies with a key that have no current and clean replication at enough keys."""
    found, history = replications(folder), known_commits(folder)
    current = [name for name, each in found.items() if _standing(folder, name, each).current]
    clean = [name for name, each in found.items() if clean_commit(each, history)]
    return missing.unreplicated(found, current, clean)


def _replications(folder: pathlib.Path) -> Iterator[str]:
    for name, kept in replications(folder).items():
        each = _standing(folder, name, kept)
        age = "" if each.current else f", {each.text}"
        with naming(folder / name / FILE):
            count = len(kept["runs"])
            keys = f"{count} key{'s' * (count != 1)}"
            yield f"{name}, preset {kept['preset']}, {keys}{age}:\n"
            yield "| claim | kind | held | 95 % interval | promised | verdict |"
            yield "|---|---|---|---|---|---|"
            renamed = new_names(folder / name)
            rows = (Row(**row) for row in kept["table"])
            yield from (_replicated(row, renamed.get(row.name, row.name)) for row in rows)
            yield ""


def _replicated(row: Row, name: str) -> str:
    kind = row.kind if row.kind in COUNTED else f"{row.kind}, not counted"
    interval = f"{row.low:.3f} … {row.high:.3f}"
    name = name.replace("|", "\\|")  # a bare bar would end the cell
    held = f"{row.held}/{row.count}"
    return f"| {name} | {kind} | {held} | {interval} | {row.rate:g} | {row.verdict} |"


def _notes(folder: pathlib.Path) -> Iterator[str]:
    paths = sorted(folder.glob("**/notes.md"), key=lambda path: order(str(path.parent)))
    for path in paths:
        with naming(path):
            # Indented, so that paragraphs and lists of a note stay within its list item.
            text = path.read_text("utf-8").strip().replace("\n", "\n  ")
        yield f"- {path.parent.relative_to(folder).as_posix()}: {text}"
