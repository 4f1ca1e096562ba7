"""The content of `claims.json`: the claims of a run, and which code computed them when."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from learndyn import studies
from learndyn.records import commit, tree
from learndyn.runtime.cores import cores
from learndyn.studies import papers
from learndyn.studies.claims import Claim
from learndyn.studies.hashing import source_hash
from learndyn.studies.verdicts import tally

# Results that are written into the checkout do not count as changes of the code.
PACKAGE = pathlib.Path(studies.__file__).parents[1]
COMMIT = "LEARNDYN_COMMIT"  # the commit of a copy of the checkout
_ALWAYS = ("name", "status", "kind", "statement", "source", "relation", "expected", "measured")


def describe(study: str, preset: str, params: Any, own: Any) -> dict[str, Any]:
    """Describes where the numbers of a run come from.

    Args:
        study: name of the study.
        preset: name of the preset.
        params: the parameters of the run.
        own: the parameters of the preset.

    Returns:
        Study, preset, parameters and how they differ from the preset, device, date, versions,
        the commit of this package, or of the one that has the study, and a hash of its source.
        If LEARNDYN_COMMIT names a commit, it is that one, beside the hash of the tree of files that
        are there, by which it can be checked.
    """
    return {
        "study": study,
        "preset": preset,
        "params": dataclasses.asdict(params),
        "differs": differences(params, own),
        "device": device(),
        "date": datetime.date.today().isoformat(),
        "version": importlib.metadata.version("learndyn"),
        "jax": jax.__version__,
        **_commit(source_folder(study)),
        "source_hash": source_hash(study),
    }


def source_folder(study: str) -> pathlib.Path:
    """The folder whose commit a result of the study names: this package, or the study's."""
    paper = study.split("/")[0]
    return PACKAGE if papers.is_ours(paper) else papers.folder_of(paper)


def _commit(folder: pathlib.Path) -> dict[str, str]:
    stated = {"tree": tree(folder)} if os.environ.get(COMMIT) else {}
    return {"commit": stated_commit(folder), **stated}


def stated_commit(folder: pathlib.Path) -> str:
    """The commit of a folder: the one that LEARNDYN_COMMIT states, or git's."""
    # A copy may lie in a checkout of something else, so git is not asked if it is stated.
    return os.environ.get(COMMIT) or commit(folder, of=".")


def differences(params: Any, own: Any) -> dict[str, list[Any]]:
    """Name → [value of the preset, value here], for parameters that differ from the preset."""
    ours, theirs = dataclasses.asdict(params), dataclasses.asdict(own)
    return {name: [theirs[name], ours[name]] for name in ours if ours[name] != theirs[name]}


def to_json(origin: Mapping[str, Any], claims: Sequence[Claim], listed: Mapping[str, str]) -> str:
    """The claims of a run as JSON text.

    Args:
        origin: what `describe` returned.
        claims: the claims.
        listed: name → reason, for claims that are known to fail.

    Returns:
        One object: the origin, the tally by kind and status, and the claims, each without its
        empty fields.
    """
    rows = [_row(claim, listed) for claim in claims]
    whole = {**origin, "tally": tally(claims), "claims": rows}
    return json.dumps(whole, indent=2, ensure_ascii=False, default=float) + "\n"


def _row(claim: Claim, listed: Mapping[str, str]) -> dict[str, Any]:
    fields = dataclasses.asdict(claim) | {"name": claim.name, "status": claim.status}
    fields["listed"] = listed.get(claim.name, "") if claim.status == "fails" else ""
    del fields["label"]
    rest = [name for name in fields if name not in _ALWAYS and fields[name] not in ("", None)]
    # JSON has no NaN and no infinity, and other readers refuse those that Python writes.
    number = lambda value: None if isinstance(value, float) and not math.isfinite(value) else value
    return {name: number(fields[name]) for name in (*_ALWAYS, *rest)}


def read(path: pathlib.Path) -> dict[str, Any]:
    """Reads `claims.json` or `replication.json`.

    Args:
        path: the file.

    Returns:
        Its content. Callers look up entries within `naming(path)`.

    Raises:
        ValueError: if the file is not JSON, or is not an object.
    """
    with naming(path):
        content = json.loads(path.read_text("utf-8"))
        if not isinstance(content, dict):
            raise TypeError(f"it contains a {type(content).__name__}")
    return content


@contextlib.contextmanager
def naming(path: pathlib.Path) -> Iterator[None]:
    """Turns errors about missing or wrong entries into a ValueError that names the file."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        allowed = "a file that `learndyn` wrote"
        raise ValueError(f"{path}: got unexpected content ({why}); allowed is {allowed}") from None


def device() -> str:
    """A description of the device that JAX uses."""
    first = jax.devices()[0]
    if first.platform != "cpu":
        return str(first.device_kind)
    return f"{cores()} CPU cores"
