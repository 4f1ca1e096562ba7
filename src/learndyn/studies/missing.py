"""Which studies have no current result at the paper's size, or no replication, and why.

The reasons are in files in the folder of kept results, `missing.toml` and `unreplicated.toml`: for
each study, what is missing (a panel, a data set, a part of the size; keys) and why, such as files
that nobody has or hours of work.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from learndyn.studies import papers, registry
from learndyn.studies.results import naming

FILE, REPLICATIONS = "missing.toml", "unreplicated.toml"
KEYS = 20  # of a replication that measures rates


def reasons(folder: pathlib.Path, file: str = FILE) -> dict[str, dict[str, str]]:
    """Study → what is missing → why, as a file in a folder of kept results has it.

    Raises:
        ValueError: for a file that is no such table, or names a study that there is not.
    """
    path = folder / file
    if not path.exists():
        return {}
    with naming(path):
        table = tomllib.loads(path.read_text("utf-8"))
        found = {f"{p}/{f}": each for p, figures in table.items() for f, each in figures.items()}
        if unknown := sorted(set(found) - set(registry.names())):
            raise ValueError(f"there is no study {unknown[0]!r}")
        wrong = [s for s, each in found.items() if not each or not _texts(each.values())]
        if wrong:
            raise TypeError(f"{wrong[0]!r} is no table of texts")
    return found


def _texts(values: Collection[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def unsettled(
    results: Mapping[str, Mapping[str, Any]], current: Collection[str], clean: Collection[str]
) -> list[str]:
    """Our studies without a current result of the preset `paper`, unaltered, from a clean commit.

    Args:
        results: study → content of its kept `claims.json`.
        current: studies whose kept result is current or confirmed.
        clean: studies whose kept result is from a clean commit.

    Returns:
        Names of studies.
    """
    whole = {
        name
        for name, result in results.items()
        if result["preset"] == "paper" and result.get("differs") == {}
    }
    return [name for name in _ours() if name not in whole & set(current) & set(clean)]


def unreplicated(
    replications: Mapping[str, Mapping[str, Any]], current: Collection[str], clean: Collection[str]
) -> list[str]:
    """Our studies with a key whose quick preset has no current replication from a clean commit.

    Args:
        replications: study → content of its kept `replication.json`.
        current: studies whose replication is current or confirmed.
        clean: studies whose replication is from a clean commit.

    Returns:
        Names of studies.
    """
    enough = {
        name
        for name, each in replications.items()
        if each["preset"] == "quick" and each.get("differs") == {} and len(each["runs"]) >= KEYS
    }
    done = enough & set(current) & set(clean)
    return [name for name in _ours() if name not in done and _has_key(name)]


def _ours() -> list[str]:
    return [name for name in registry.names() if papers.is_ours(name.partition("/")[0])]


def _has_key(study: str) -> bool:
    quick = registry.find(study).PRESETS["quick"]
    return "key" in {field.name for field in dataclasses.fields(quick)}
