"""What a run leaves behind: its claims, and all that is needed to judge their age."""

import ast
import dataclasses
import datetime
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from learndyn import studies
from learndyn.records import commit
from learndyn.studies.claims import Claim, tally

_ROOT = pathlib.Path(studies.__file__).parent
_ALWAYS = ("name", "status", "kind", "statement", "source", "relation", "expected", "measured")


def describe(study: str, preset: str, params: Any, own: Any) -> dict[str, Any]:
    """Where numbers come from.

    Args:
        study: its name.
        preset: its name.
        params: what was run.
        own: the preset's own parameters.

    Returns:
        Study, preset, parameters and what of them differs from the preset, device, date,
        versions, commit, and a hash of the study's source.
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
        "commit": commit(_ROOT),
        "source_hash": source_hash(study),
    }


def differences(params: Any, own: Any) -> dict[str, list[Any]]:
    """Name → [the preset's value, the value here], of parameters that are not the preset's."""
    ours, theirs = dataclasses.asdict(params), dataclasses.asdict(own)
    return {name: [theirs[name], ours[name]] for name in ours if ours[name] != theirs[name]}


def to_json(origin: Mapping[str, Any], claims: Sequence[Claim], listed: Mapping[str, str]) -> str:
    """The claims of a run as JSON text.

    Args:
        origin: what `describe` says.
        claims: the claims.
        listed: name → reason, of claims known to fail.

    Returns:
        One object: the origin, the tally by kind and status, and the claims, each without what
        it does not have.
    """
    rows = [_row(claim, listed) for claim in claims]
    whole = {**origin, "tally": tally(claims), "claims": rows}
    return json.dumps(whole, indent=2, ensure_ascii=False, default=float) + "\n"


def _row(claim: Claim, listed: Mapping[str, str]) -> dict[str, Any]:
    fields = dataclasses.asdict(claim) | {"name": claim.name, "status": claim.status}
    fields["listed"] = listed.get(claim.name, "") if claim.status == "fails" else ""
    del fields["label"]
    rest = [name for name in fields if name not in _ALWAYS and fields[name] not in ("", None)]
    # JSON has no NaN.
    number = lambda value: None if isinstance(value, float) and math.isnan(value) else value
    return {name: number(fields[name]) for name in (*_ALWAYS, *rest)}


def device() -> str:
    """What computes here, in words."""
    first = jax.devices()[0]
    if first.platform != "cpu":
        return str(first.device_kind)
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed else os.cpu_count()
    return f"{cores} CPU cores"


@functools.cache
def source_hash(study: str) -> str:
    """A hash of the study's module and of the modules of its paper's folder that it imports."""
    folder = _ROOT / study.split("/")[0]
    texts = [(folder / name).read_bytes() for name in files_of(study)]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def files_of(study: str) -> list[str]:
    """The study's file and those of its paper's folder that it imports, directly or not."""
    folder, figure = study.split("/")
    return sorted(_imported(_ROOT / folder, f"{figure}.py", set()))


def _imported(folder: pathlib.Path, name: str, seen: set[str]) -> set[str]:
    """The file and those of its folder that it imports, directly or not."""
    seen.add(name)
    for module in _modules(ast.parse((folder / name).read_text(encoding="utf-8")), folder.name):
        if f"{module}.py" not in seen and (folder / f"{module}.py").exists():
            _imported(folder, f"{module}.py", seen)
    return seen


def _modules(tree: ast.AST, paper: str) -> Iterator[str]:
    prefix = f"{studies.__name__}.{paper}"
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == prefix:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{prefix}."):
            yield str(node.module).removeprefix(f"{prefix}.")
