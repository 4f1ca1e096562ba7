"""`learndyn new`: the skeleton of a study or a theory, as a package of your own."""

import keyword
import pathlib
import re
import string
import tomllib
from typing import Annotated

import typer

from learndyn.cli.writing import writable

HERE = pathlib.Path(__file__).parent / "skeletons"
KINDS = ("study", "theory")
NAME = "lower-case letters, digits and underscores"


def new(
    kind: Annotated[str, typer.Argument(help="study or theory")],
    name: Annotated[str, typer.Argument(help="paper/figure of a study, or name of a theory")],
    out: Annotated[str, typer.Option(help="folder in which the package's folder is made")] = ".",
) -> None:
    """Writes the skeleton of a study or a theory, with a test that fails until it is written."""
    if kind not in KINDS:
        raise ValueError(f"kind: got {kind!r}; allowed are {', '.join(KINDS)}")
    package, figure = _parsed(kind, name)
    _require_new(kind, package)
    root = pathlib.Path(out) / package
    files = _files(kind, package, figure)
    if there := [path for path in files if (root / path).exists() and path in _own(files)]:
        allowed = "a name of which there is no file yet"
        raise ValueError(f"name: got {name!r}, but {root / there[0]} exists; allowed is {allowed}")
    writable(str(root))
    for path, text in files.items():
        if not (root / path).exists():  # another figure of a paper shares the others
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            print(root / path)
    if missing := _missing_entry(root / "pyproject.toml", files["pyproject.toml"]):
        print(f"add to {root / 'pyproject.toml'}, so that learndyn finds it:\n\n{missing}\n")
    print(f"next: pip install -e {root}; python -m pytest {root}, which fails until it is written")


def _missing_entry(path: pathlib.Path, wanted: str) -> str:
    """The lines of an entry point that a file of an earlier skeleton, or one's own, lacks."""
    ((group, points),) = tomllib.loads(wanted)["project"]["entry-points"].items()
    try:
        own = tomllib.loads(path.read_text("utf-8")).get("project", {}).get("entry-points", {})
    except tomllib.TOMLDecodeError:
        own = {}
    if own.get(group, {}).items() >= points.items():
        return ""
    lines = [f'[project.entry-points."{group}"]']
    return "\n".join(lines + [f'{name} = "{target}"' for name, target in points.items()])


def _parsed(kind: str, name: str) -> tuple[str, str]:
    """The package, and the figure of a study."""
    parts = name.split("/")
    names = [part for part in parts if re.fullmatch(r"[a-z][a-z0-9_]*", part)]
    wanted = 2 if kind == "study" else 1
    if len(parts) != wanted or names != parts or any(map(keyword.iskeyword, parts)):
        allowed = "paper/figure" if kind == "study" else "one word"
        raise ValueError(f"name: got {name!r}; allowed is {allowed}, of {NAME}")
    return (parts[0], parts[1]) if kind == "study" else (parts[0], "")


def _require_new(kind: str, package: str) -> None:
    from learndyn.studies import papers

    if kind == "study" and package in papers.packages() and papers.is_ours(package):
        allowed = "a name that no paper of learndyn has"
        raise ValueError(f"name: got {package!r}, which is one of learndyn's; allowed is {allowed}")


def _files(kind: str, package: str, figure: str) -> dict[str, str]:
    """Path → text."""
    module = figure or "theory"
    target = package if kind == "study" else f"{package}.theory:Theory"
    words = {"package": package, "figure": figure, "study": f"{package}/{figure}"}
    words |= {"group": {"study": "learndyn.studies", "theory": "learndyn.theories"}[kind]}
    words |= {"target": target, "description": f"The {kind} {package}, for learndyn."}
    fill = lambda name: string.Template((HERE / f"{name}.txt").read_text("utf-8")).substitute(words)
    return {
        "pyproject.toml": fill("pyproject"),
        f"{package}/__init__.py": fill(f"{kind}_init"),
        f"{package}/{module}.py": fill(kind),
        f"tests/test_{module}.py": fill(f"{kind}_test"),
    }


def _own(files: dict[str, str]) -> list[str]:
    """The files that belong to this study or theory alone: its module and its test."""
    return list(files)[2:]
