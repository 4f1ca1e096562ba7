"""Options that several commands share, and how they are parsed."""

import contextlib
import os
import warnings
from collections.abc import Iterable
from typing import Annotated

import typer

from learndyn.runtime.checks import positive_int, seed


def _studies(incomplete: str) -> list[str]:
    """The studies whose names begin so, for the shell's completion."""
    from learndyn.studies import registry

    return [name for name in registry.names() if name.startswith(incomplete)]


STUDY = Annotated[
    str,
    typer.Argument(help="paper/figure, as `learndyn list` shows it", autocompletion=_studies),
]
PRESET = Annotated[str, typer.Option(help="quick or paper")]
OUT = Annotated[str, typer.Option(help="folder for the results")]
SET = Annotated[
    list[str] | None,
    typer.Option("--set", help="name=value, or name=a,b,c for a parameter with several values"),
]
DATA_DIR = Annotated[str, typer.Option(help="folder with data files of real data sets")]

CACHE = "LEARNDYN_CACHE"  # a folder for compiled programs, or 0 for none

CHECKS = {"runs": positive_int, "key": seed}  # parameters that many studies have


def use_data(folder: str) -> None:
    """Tells studies, and the processes they start, where data files are; "" changes nothing."""
    from learndyn.problems.readers.files import VARIABLE, data_folder

    if folder:
        os.environ[VARIABLE] = str(data_folder(folder))


def require_device() -> None:
    """Raises a ValueError if JAX finds no device."""
    import jax

    try:
        jax.devices()
    except Exception:  # a RuntimeError or an AssertionError, depending on the platform
        platforms = os.environ.get("JAX_PLATFORMS", "")
        allowed = "a platform that JAX finds on this computer, such as 'cpu'"
        raise ValueError(f"JAX_PLATFORMS: got {platforms!r}; allowed is {allowed}") from None


def use_cache() -> None:
    """Keeps compiled programs for the next command, see `learndyn.cache`.

    The environment variable LEARNDYN_CACHE=0 switches it off; any other value is the folder. A
    user's own JAX_COMPILATION_CACHE_DIR is respected. Without a folder that can be written, the
    command compiles as if there was no cache.
    """
    folder = os.environ.get(CACHE, "")
    if folder == "0" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    from learndyn.runtime.cache import cache

    # A program that cannot be kept or read, as on a full disk, is compiled: no need to say so.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")
    with contextlib.nullcontext() if folder else contextlib.suppress(ValueError):
        cache(folder or None)


def settings(pairs: list[str], option: str = "--set") -> dict[str, str]:
    """Parses texts `name=value` of an option; returns name → value, still as text."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{option}: got {pair!r}; allowed is name=value")
        if name in values:
            raise ValueError(
                f"{option} {name}: got {values[name]!r} and {value!r}; allowed is one value"
            )
        values[name] = value
    for name, check in CHECKS.items():
        if name in values:
            check(f"{option} {name}", number(values[name]))
    return values


def integers(runs: str | None, key: str | None) -> dict[str, str]:
    """The options `--runs` and `--key`, checked, as settings; without those that are None."""
    return {
        name: str(CHECKS[name](f"--{name}", number(text)))
        for name, text in {"runs": runs, "key": key}.items()
        if text is not None
    }


def require_apart(settings: Iterable[str], others: Iterable[str], option: str) -> None:
    """Raises a ValueError if `--set` and another option set the same parameter.

    Args:
        settings: names that `--set` sets.
        others: names that the other option sets.
        option: the other option, with {} in place of the name.
    """
    for name in sorted({*settings} & {*others}):
        raise ValueError(
            f"--set {name}: got {option.format(name)} as well; allowed is one of the two"
        )


def number(text: str) -> int | str:
    """The text as an integer, or unchanged if it is none, so that a check can quote it."""
    try:
        return int(text)
    except ValueError:
        return text
