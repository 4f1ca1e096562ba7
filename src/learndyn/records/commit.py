"""The git commit of the source that computed a record."""

import inspect
import pathlib
import subprocess
from typing import Any


def commit(folder: str | pathlib.Path) -> str:
    """The commit of the checkout that contains a folder, or "" if there is none."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def commit_of(function: Any) -> str:
    """The commit of the checkout that contains the source of a function, or ""."""
    try:
        own = function if inspect.isroutine(function) else type(function)
        return commit(pathlib.Path(inspect.getfile(own)).parent)
    except (OSError, TypeError):
        return ""
