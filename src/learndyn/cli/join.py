"""`learndyn join`."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from learndyn.cli import options
from learndyn.cli.judging import Request, judge
from learndyn.cli.writing import writable

# What must be the same in all parts, besides the parameters that divide the study.
_SAME = ("study", "preset", "params", "source_hash")
_OWN = ("part", "device", "date", "version", "jax", "commit", "tree", "seconds")
_TYPES = {"study": str, "preset": str, "params": dict, "part": dict, "seconds": (int, float)}


def join(
    folders: Annotated[list[str], typer.Argument(help="folders that `learndyn run --part` wrote")],
    out: Annotated[str, typer.Option(help="folder for the results")],
) -> None:
    """Joins the parts of a study; writes and prints what `learndyn run` does for the whole."""
    from learndyn.records import load
    from learndyn.studies import parts

    if pathlib.Path(out).resolve() in {pathlib.Path(folder).resolve() for folder in folders}:
        raise ValueError(f"--out: got {out!r}, the folder of a part; allowed is another folder")
    origins = [_read(pathlib.Path(folder)) for folder in folders]
    for folder, origin in zip(folders, origins, strict=True):
        for name in _SAME:
            if origin.get(name) != origins[0].get(name):
                got = f"{name} {origin.get(name)!r} beside {origins[0].get(name)!r}"
                raise ValueError(f"{folder}: got {got}; allowed are parts of one run")
    chosen = [{n: tuple(v) for n, v in origin["part"].items()} for origin in origins]
    parts.require_complete(chosen)
    request = _whole(origins)
    options.require_device()
    options.use_cache()
    data = [load(pathlib.Path(folder) / "data.nc") for folder in folders]
    pairs = list(zip(chosen, data, strict=True))
    compute = lambda report: parts.join(request.module, request.params, pairs)
    raise typer.Exit(judge(request, writable(out), compute, _provenance(origins)))


def _read(folder: pathlib.Path) -> dict[str, Any]:
    from learndyn.studies.results import naming, read

    path = folder / "part.json"
    if not path.is_file():
        allowed = "a folder that `learndyn run --part` wrote"
        raise ValueError(f"{folder}: got no part.json in it; allowed is {allowed}")
    origin = read(path)
    with naming(path):
        # A tree is there only where the commit was stated, and not asked of git.
        names = [name for name in (*_SAME, *_OWN) if name != "tree" or name in origin]
        found = {name: origin[name] for name in names}
        wrong = [name for name, kind in _TYPES.items() if not isinstance(found[name], kind)]
        if not wrong and not (found["part"] and all(map(_listed, found["part"].values()))):
            wrong = ["part"]
        if wrong:
            raise TypeError(f"{wrong[0]} is {found[wrong[0]]!r}")
    return found


def _listed(values: Any) -> bool:
    """Whether they are what JSON makes of the values of a part."""
    some = isinstance(values, list) and bool(values)
    return some and all(isinstance(value, str | int | float) for value in values)


def _whole(origins: Sequence[dict[str, Any]]) -> Request:
    """The request that the parts together answer, checked against today's study."""
    from learndyn.studies import parts
    from learndyn.studies.hashing import source_hash

    first = origins[0]
    request = Request.of(first["study"], first["preset"], {})
    if first["source_hash"] != source_hash(first["study"]):
        got = "parts of another version of the study"
        raise ValueError(f"{first['study']}: got {got}; allowed are parts of this one")
    tuples = {n: tuple(v) if isinstance(v, list) else v for n, v in first["params"].items()}
    if unknown := sorted(set(tuples) - {field.name for field in dataclasses.fields(request.own)}):
        known = ", ".join(field.name for field in dataclasses.fields(request.own))
        raise ValueError(f"params: got {unknown[0]!r}; allowed are {known}")
    params = dataclasses.replace(request.own, **tuples)
    # Values of the preset that no part has were not run; the joined parameters say so.
    for name in first["part"]:
        there = {value for origin in origins for value in origin["part"][name]}
        whole = parts.values(request.module, params, name)
        if foreign := [value for value in there if value not in whole]:
            listed = ", ".join(map(str, whole))
            raise ValueError(f"part {name}: got {foreign[0]!r}; allowed are values among {listed}")
        params = parts.restricted(params, name, there)
    return dataclasses.replace(request, params=params)


def _provenance(origins: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Entries of `claims.json`: devices and seconds of all parts, and each part with its own."""
    devices = dict.fromkeys(str(origin["device"]) for origin in origins)
    rows = [{name: origin[name] for name in _OWN if name in origin} for origin in origins]
    seconds = sum(float(origin["seconds"]) for origin in origins)
    return {"device": "; ".join(devices), "seconds": seconds, "parts": rows}
