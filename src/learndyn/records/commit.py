"""The state of the source that computed, as git knows it."""

import inspect
import pathlib
import subprocess
from typing import Any


def commit(folder: str | pathlib.Path) -> str:
    """The commit of a checkout, or nothing where a folder is in none."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def commit_of(function: Any) -> str:
    """The commit of the checkout in which a function is written, or nothing."""
    try:
        own = function if inspect.isroutine(function) else type(function)
        return commit(pathlib.Path(inspect.getfile(own)).parent)
    except (OSError, TypeError):
        return ""
