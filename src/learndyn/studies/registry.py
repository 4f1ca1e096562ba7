"""Finds studies: every module of a paper's folder is one."""

import ast
import dataclasses
import difflib
import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from learndyn.studies import papers
from learndyn.studies.claims import Claim, Sentence

if TYPE_CHECKING:  # to list studies takes neither
    import xarray as xr
    from matplotlib.figure import Figure

Report = Callable[[float], None]
GENERATOR = "Philox4x32-10"
T = TypeVar("T")


@runtime_checkable
class Study(Protocol):
    """What a study's module provides.

    A study may also have `FAILS`, preset → {name of a claim: reason}, for a paper's claims that are
    known to fail; `DIFFERS`, a sentence on how its preset `paper` differs from the paper; and
    `PARTS`, parameter → dimension of the data, along which it can be computed in parts
    (`studies/parts.py`).
    """

    TITLE: str
    CLAIMS: Mapping[str, Sentence]  # by short names
    PRESETS: Mapping[str, Any]  # "quick" and "paper", frozen dataclasses of one kind

    def compute(self, params: Any, report: Report) -> "xr.Dataset":
        """The data; `report` takes the fraction done."""
        ...

    def draw(self, data: "xr.Dataset") -> "Figure":
        """The figure."""
        ...

    def check(self, data: "xr.Dataset") -> list[Claim]:
        """The claims."""
        ...


def names() -> Iterator[str]:
    """The names paper/figure of all studies, sorted within ours and within those of others."""
    for paper in papers.packages():
        for module in pkgutil.iter_modules([str(papers.folder_of(paper))]):
            name = f"{paper}/{module.name}"
            if not module.name.startswith("_") and (papers.is_ours(paper) or _has_title(name)):
                yield name


def _has_title(name: str) -> bool:
    """Whether a module is a study: a package of others may have modules besides."""
    try:
        return bool(constant(name, "TITLE"))
    except (OSError, SyntaxError, ValueError):
        return False


def find(name: str) -> Study:
    """The study of a name.

    Args:
        name: paper/figure.

    Returns:
        The study's module.

    Raises:
        ValueError: for a name that is not among the studies.
    """
    if name not in (known := list(names())):
        near = [f" ({each!r} is near)" for each in difflib.get_close_matches(name, known, 1)]
        allowed = "the names that `learndyn list` shows" + "".join(near)
        raise ValueError(f"study: got {name!r}; allowed are {allowed}")
    return cast(Study, importlib.import_module(papers.module_of(name)))


def compute(study: Study, params: Any, report: Report, generator: str = GENERATOR) -> "xr.Dataset":
    """The data of a study, simulated with a named generator of random numbers.

    Studies keep the first generator of this package, whatever its default is: claims and keys of
    presets were chosen with it, and most kept results were computed with it.

    Args:
        study: the study.
        params: its parameters.
        report: takes the fraction done.
        generator: name of the generator.

    Returns:
        The data.
    """
    from learndyn.numerics import generators

    with generators.generator(generator):
        return study.compute(params, report)


def draw(study: Study, data: "xr.Dataset") -> "Figure":
    """The figure of a study, in the style of this package: colours are looked up as it is drawn."""
    from learndyn.plotting import style

    with style():
        return study.draw(data)


def title(name: str) -> str:
    """The `TITLE` of a study."""
    if text := constant(name, "TITLE"):
        return text
    raise ValueError(f"{name}: a study has a TITLE")


def constant(name: str, which: str) -> str:
    """A text that a study's file assigns to a name; "" if it does not.

    It is read from the source: importing all studies takes seconds.
    """
    paper, figure = name.split("/")
    tree = ast.parse((papers.folder_of(paper) / f"{figure}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == which:
            return ast.literal_eval(node.value)
    return ""


def fails(study: Study, preset: str) -> Mapping[str, str]:
    """Name → reason of the claims that a study lists as failing in a preset."""
    return getattr(study, "FAILS", {}).get(preset, {})


def preset_of(study: Study, preset: str) -> Any:
    """The parameters of a preset.

    Args:
        study: the study.
        preset: its name.

    Returns:
        The parameters.

    Raises:
        ValueError: for a name that is not among its presets.
    """
    if preset not in study.PRESETS:
        raise ValueError(f"--preset: got {preset!r}; allowed are {', '.join(study.PRESETS)}")
    return study.PRESETS[preset]


def cases(
    items: Sequence[T], report: Report, *, begin: float = 0.0, end: float = 1.0
) -> Iterator[T]:
    """The items one after the other, and after each the fraction done.

    Args:
        items: the cases of a study.
        report: takes the fraction.
        begin: the fraction before the first.
        end: the fraction after the last.

    Yields:
        The items.
    """
    for done, item in enumerate(items, 1):
        yield item
        report(begin + (end - begin) * done / len(items))


def with_settings(params: Any, settings: Mapping[str, str]) -> Any:
    """The parameters with some replaced, each read as the type it had.

    Args:
        params: a preset.
        settings: name → text.

    Returns:
        The new parameters.

    Raises:
        ValueError: for a name the study does not have, or a text of the wrong type.
    """
    fields = {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}
    changed = {}
    for name, text in settings.items():
        if name not in fields:
            raise ValueError(f"--set {name}: no such parameter; allowed are {', '.join(fields)}")
        changed[name] = _read(name, text, fields[name])
    return dataclasses.replace(params, **changed)


_KINDS = {int: "an integer", float: "a finite number", str: "text"}


def _read(name: str, text: str, old: Any) -> Any:
    if isinstance(old, tuple):
        items = [item for item in map(str.strip, text.strip("()").split(",")) if item]
        if not items:
            raise ValueError(f"--set {name}: got {text!r}; allowed are values with commas between")
        return tuple(_read(name, item, old[0] if old else "") for item in items)
    kind = type(old)
    try:
        value = kind(text)
        if not text.strip() or (kind is float and not math.isfinite(value)):
            raise ValueError
        return value
    except ValueError:
        raise ValueError(f"--set {name}: got {text!r}; allowed is {_KINDS[kind]}") from None
