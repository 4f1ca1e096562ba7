"""Arguments that commands share, and how they are read."""

import os
from typing import Annotated

import typer

from learndyn.numerics.checks import positive_int, seed

STUDY = Annotated[str, typer.Argument(help="paper/figure, as `learndyn list` shows it")]
PRESET = Annotated[str, typer.Option(help="quick or paper")]
OUT = Annotated[str, typer.Option(help="folder for the results")]
SET = Annotated[
    list[str] | None,
    typer.Option("--set", help="name=value, or name=a,b,c where a preset has several"),
]
DATA_DIR = Annotated[str, typer.Option(help="folder of real data files")]

CHECKS = {"runs": positive_int, "key": seed}  # of parameters that many studies have


def use_data(folder: str) -> None:
    """Makes a folder of real data files known to studies, where one is given."""
    from learndyn.problems.files import VARIABLE, data_folder

    if folder:
        os.environ[VARIABLE] = str(data_folder(folder))


def settings(pairs: list[str]) -> dict[str, str]:
    """Name → text, of texts name=value."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set: got {pair!r}; allowed is name=value")
        found[name] = value
    for name, check in CHECKS.items():
        if name in found:
            check(f"--set {name}", number(found[name]))
    return found


def integers(runs: str | None, key: str | None) -> dict[str, str]:
    """Those of `--runs` and `--key` that are given, as settings."""
    given = {"runs": runs, "key": key}
    return {
        name: str(CHECKS[name](f"--{name}", number(text)))
        for name, text in given.items()
        if text is not None
    }


def number(text: str) -> int | str:
    """The integer that a text is, else the text, for a check to name."""
    try:
        return int(text)
    except ValueError:
        return text
